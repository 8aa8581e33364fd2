//! The formats of trace files, and how they are told apart.

use std::fmt::{self, Display};
use std::path::Path;
use std::str::FromStr;

use super::formats::oracle;

/// How a file says what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Binary records of 24 bytes: time, object, size, next access.
    OracleGeneral,
    /// Lines, each a key.
    Plain,
}

impl Format {
    /// Every format and its name.
    pub const ALL: &[(&str, Self)] = &[("oraclegeneral", Self::OracleGeneral), ("plain", Self::Plain)];

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, format)| *format == self);
        found.map_or("", |(name, _)| name)
    }

    /// What its broken parts are counted in.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::OracleGeneral => "record",
            Self::Plain => "line",
        }
    }

    /// What a file with this name and these first bytes is, if it is anything known. The content decides
    /// before the name does.
    pub(super) fn detect(_path: &Path, head: &[u8]) -> Option<Self> {
        match () {
            () if oracle::resembles(head) => Some(Self::OracleGeneral),
            () if is_text(head) => Some(Self::Plain),
            () => None,
        }
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
