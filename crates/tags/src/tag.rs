//! The generated tag of a response without one, and the parts of a response that are stored with its tag.

use std::sync::Arc;

use http::HeaderValue;
use larder_semantics::fields::Fields;

/// Returns a strong entity-tag over `content` and the fields that determine its meaning (RFC 9110 section 8.8.1).
///
/// Every node with the same response computes the same tag: several gateways in front of one backend, and the cache in
/// front of them. So the hash has no key; and since users may write the content of a backend, it is collision
/// resistant: BLAKE3, truncated to 128 bits.
pub fn entity_tag(answer: &impl Fields, content: &[u8]) -> HeaderValue {
    let mut hasher = blake3::Hasher::new();
    for name in ["content-type", "content-encoding"] {
        for value in answer.lines(name) {
            hasher.update(&(value.len() as u64).to_le_bytes()).update(value);
        }
        hasher.update(&u64::MAX.to_le_bytes());
    }
    let text = format!("\"{}\"", &hasher.update(content).finalize().to_hex()[..32]);
    // Quotes and digits are visible ASCII.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// The tag of a response, and the generation in which it is valid.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) generation: u64,
    /// The request fields that select the response (`larder_semantics::vary`).
    pub(crate) signature: Box<[u8]>,
    /// Whether the origin declares the response the same for all clients.
    pub(crate) shared: bool,
    /// The field lines of the 304 for an unchanged response.
    pub(crate) lines: Arc<[u8]>,
}

impl Tag {
    /// Returns the bytes beyond the value itself.
    pub(crate) fn bytes(&self) -> usize {
        self.signature.len() + self.lines.len()
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::fields::HeadLines;

    use super::*;

    #[test]
    fn a_tag_is_of_the_content_and_of_what_it_is() {
        let tag = |fields: &str, content: &str| entity_tag(&HeadLines(fields.as_bytes()), content.as_bytes());
        let plain = tag("Content-Type: a/b\r\n", "content");
        assert_eq!(
            plain, "\"611a1b9f3bc0d3fdbbed7a5f841c5273\"",
            "others have computed it, too: it must not change"
        );
        assert_eq!(plain, tag("Server: x\r\ncontent-type: a/b\r\n", "content"));
        for (fields, content) in [
            ("Content-Type: a/b\r\n", "Content"),
            ("Content-Type: a/c\r\n", "content"),
            ("Content-Encoding: a/b\r\n", "content"),
            ("Content-Type: a/b\r\nContent-Encoding: br\r\n", "content"),
            ("", "content"),
        ] {
            assert_ne!(tag(fields, content), plain, "{fields}{content}");
        }
    }
}
