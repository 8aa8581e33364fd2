//! The formats of trace files, and their detection.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::formats::csv::Layout;
use super::formats::fields::Field;
use super::formats::{self, history, lcs, oracle, workload};

/// How a file says what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// libCacheSim's oracleGeneral: binary records of 24 bytes with time, object, size and next access.
    OracleGeneral,
    /// libCacheSim's lcs: binary records as a header describes them.
    Lcs,
    /// An SQLite database with the history of Chrome or Firefox.
    History,
    /// JSON lines, such as Larder's access log or Caddy's.
    Json,
    /// What `larder workload` writes.
    Workload,
    /// Larder's access log as text.
    Larder,
    /// Squid's native access.log.
    Squid,
    /// The common log format or the combined one, as Apache and NGINX write them.
    Ncsa,
    /// Runs of blocks, as in the ARC paper.
    Arc,
    /// Values with a delimiter between them.
    Csv,
    /// Lines, each a key.
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

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, format)| *format == self);
        found.map_or("", |(name, _)| name)
    }

    /// What its broken parts are counted in.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::OracleGeneral | Self::Lcs => "record",
            Self::History => "visit",
            _ => "line",
        }
    }

    /// What a file that begins with `head` is, if it is anything known.
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

/// Whether `head` is text of any encoding that leaves ASCII as it is.
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

    /// The format called `name`. The error names the valid ones.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, format)| *format).ok_or_else(|| {
            let known = Self::ALL.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(" ");
            format!("unknown format '{}'; known: {known}", name.escape_debug())
        })
    }
}
