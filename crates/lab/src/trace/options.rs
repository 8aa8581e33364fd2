//! Options for reading a trace.

use larder_words::with_defaults;

use super::Format;
use super::formats::FormatHints;
use super::formats::names::Field;
use super::formats::pattern::Pattern;

with_defaults! {
    /// Options for reading a trace.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// The file's format; `None` to detect it.
        pub format: Option<Format> = None,
        /// The share of the objects to keep, above 0 and at most 1: all requests of an object, or none, by a hash of its
        /// key (spatial sampling, as in SHARDS, FAST '15).
        pub sample: f64 = 1.0,
        /// The share of the lines that may be broken, 0 to 1.
        pub max_broken_share: f64 = 0.01,
        /// Whether to cut URLs to their scheme and host.
        pub base_urls: bool = false,
        /// The meaning of the columns of comma-separated values, if the first line does not give it.
        pub columns: Vec<Field> = Vec::new(),
        /// The form of the lines of a log.
        pub log_format: Option<Pattern> = None,
    }
}

impl Options {
    /// Returns what the user says about the form of lines.
    pub(super) fn hints(&self) -> FormatHints<'_> {
        FormatHints { columns: &self.columns, log_format: self.log_format.as_ref() }
    }
}
