//! Options for reading a trace.

use super::Format;
use super::formats::FormatHints;
use super::formats::names::Field;
use super::formats::pattern::Pattern;

/// Options for reading a trace.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file's format; `None` to detect it.
    pub format: Option<Format>,
    /// The share of the objects to keep, above 0 and at most 1: all requests of an object, or none, by a hash of its
    /// key (spatial sampling, as in SHARDS, FAST '15).
    pub sample: f64,
    /// The share of the lines that may be broken, 0 to 1.
    pub max_broken_share: f64,
    /// Whether to cut URLs to their scheme and host.
    pub base_urls: bool,
    /// The meaning of the columns of comma-separated values, if the first line does not give it.
    pub columns: Vec<Field>,
    /// The form of the lines of a log.
    pub log_format: Option<Pattern>,
}

impl Default for Options {
    fn default() -> Self {
        let (format, columns, log_format) = (None, Vec::new(), None);
        Self { format, sample: 1.0, max_broken_share: 0.01, base_urls: false, columns, log_format }
    }
}

impl Options {
    /// Returns what the user says about the form of lines.
    pub(super) fn hints(&self) -> FormatHints<'_> {
        FormatHints { columns: &self.columns, log_format: self.log_format.as_ref() }
    }
}
