//! What the beginning of a file says about its format.

use super::Format;

/// How a file is read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) format: Format,
    /// Whether each line begins with the words of syslog.
    pub(super) behind_syslog: bool,
    /// What was guessed, for the user.
    pub(super) guess: Option<String>,
}

/// Whether a file has a format.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Sure,
    /// Probably; the text says what is taken for granted.
    Guess(String),
    /// It may, but may as well have another; the text says what would make it clear.
    Doubt(String),
    No,
}

impl Found {
    /// Returns the way to read a file whose format is known.
    pub(super) fn sure(format: Format) -> Self {
        Self { format, behind_syslog: false, guess: None }
    }
}
