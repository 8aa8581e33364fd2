//! The formats of trace files, and their detection.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::formats::csv::Layout;
use super::formats::fields::Field;
use super::formats::{self, history, lcs, oracle, workload};

/// The format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// libCacheSim's oracleGeneral: binary records of 24 bytes with time, object, size and next access.
    OracleGeneral,
    /// libCacheSim's lcs: binary records, described by a header.
    Lcs,
    /// An SQLite database with the history of Chrome or Firefox.
    History,
    /// JSON lines, such as Larder's access log or Caddy's.
    Json,
    /// The output of `larder workload`.
    Workload,
    /// Larder's access log as text.
    Larder,
    /// Squid's native access.log.
    Squid,
    /// The common log format or the combined one, as Apache and NGINX write them.
    Ncsa,
    /// Runs of blocks, as in the ARC paper.
    Arc,
    /// Values separated by a delimiter.
    Csv,
    /// Lines, each of which is a key.
    Plain,
}

impl Format {
    /// Every format and its name, in the order in which they are tried.
    pub const ALL: &[(&str, Self)] = &[
        ("lcs", Self::Lcs),
        ("history", Self::History),
        ("oraclegeneral", Self::OracleGeneral),
        ("workload", Self::Workload),
        ("json", Self::Json),
        ("larder", Self::Larder),
        ("squid", Self::Squid),
        ("ncsa", Self::Ncsa),
        ("arc", Self::Arc),
        ("csv", Self::Csv),
        ("plain", Self::Plain),
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, format)| *format == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns the unit in which broken parts are counted.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::OracleGeneral | Self::Lcs => "record",
            Self::History => "visit",
            _ => "line",
        }
    }

    /// Returns the format of a file that begins with `head`, if it is known.
    pub(super) fn detect(head: &[u8], columns: &[Field]) -> Option<Self> {
        let is = |format: &Self| match format {
            Self::Lcs => lcs::resembles(head),
            Self::History => history::resembles(head),
            Self::OracleGeneral => oracle::resembles(head),
            Self::Workload => workload::resembles(head),
            Self::Csv => {
                is_text(head)
                    && Layout::guess(head, columns)
                        .is_some_and(|layout| !columns.is_empty() || layout.fits(head))
            }
            Self::Plain => is_text(head),
            format => formats::resembles(*format, head),
        };
        Self::ALL.iter().map(|(_, format)| *format).find(is)
    }
}

/// Whether `head` is text of any encoding that contains ASCII unchanged.
fn is_text(head: &[u8]) -> bool {
    !head.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}

impl Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    /// Reads the name of a format. The error names the valid ones.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, format)| *format).ok_or_else(|| {
            let known = Self::ALL.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(" ");
            format!("unknown format '{}'; known: {known}", name.escape_debug())
        })
    }
}
