//! An answer, over any of the protocols.

use bytes::Bytes;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status, or the one with the same meaning.
    pub status: u16,
    /// The server's explanation of a status of 400 or more.
    pub reason: String,
    /// The lines of `Cache-Status`, in order.
    pub cache: Vec<String>,
    /// The length of the content in bytes.
    pub bytes: u64,
    /// The content, if it was requested; for a status of 400 or more, its start.
    pub content: Bytes,
}

impl Reply {
    /// Whether the first cache in `Cache-Status` had the answer (RFC 9211, section 2.1).
    pub fn is_hit(&self) -> Option<bool> {
        let said = self.cache.first()?;
        Some(said.split(';').any(|part| part.trim() == "hit"))
    }
}
