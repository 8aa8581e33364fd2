//! The parts of an answer of the admin listener, which are absent if an older larder gave it.

use serde_json::Value;

use super::words::printable;

/// The parts of an object by their names, or their defaults.
pub(crate) trait Parts {
    /// Returns a number; 0 by default.
    fn count(&self, name: &str) -> u64;
    /// Returns a text without control characters; empty by default.
    fn word(&self, name: &str) -> String;
    /// Returns a list; empty by default.
    fn list(&self, name: &str) -> &[Value];
}

impl Parts for Value {
    fn count(&self, name: &str) -> u64 {
        self[name].as_u64().unwrap_or_default()
    }

    fn word(&self, name: &str) -> String {
        self[name].as_str().map(printable).unwrap_or_default()
    }

    fn list(&self, name: &str) -> &[Value] {
        self[name].as_array().map(Vec::as_slice).unwrap_or_default()
    }
}
