//! The `Cache-Status` field (RFC 9211), which reports the decision of a cache.

use crate::coding::Coding;
use crate::status::{Forward, Why};
use crate::wire::put_decimal;

/// One member of `Cache-Status` (RFC 9211 section 2): how this cache handled the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheStatus<'a> {
    /// The name of the cache.
    pub cache: &'a str,
    /// Whether it answered with a stored response.
    pub hit: bool,
    /// The reason why it asked the origin, if it did.
    pub forward: Option<Forward>,
    /// The status code of the origin's response.
    pub forward_status: Option<u16>,
    /// Whether the response was stored.
    pub stored: bool,
    /// Whether it waited for another request's response.
    pub collapsed: bool,
    /// Seconds of freshness left; negative when stale.
    pub ttl: Option<i64>,
    /// The cache key, in printable form.
    pub key: Option<&'a str>,
    /// The coding that the cache has applied to the content.
    pub coding: Option<Coding>,
    /// The detailed reason.
    pub detail: Option<Why>,
}

impl CacheStatus<'_> {
    /// Appends the member, without the field's name.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::write_name(out, self.cache);
        self.write_parameters(out);
    }

    /// Appends a cache's name, which begins a member: a structured token if possible, otherwise a string (RFC 9651 sections
    /// 3.3.3 and 3.3.4).
    pub fn write_name(out: &mut Vec<u8>, name: &str) {
        let allowed = |byte| crate::fields::is_token(&[byte]) || matches!(byte, b':' | b'/');
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '*') && name.bytes().all(allowed) {
            out.extend_from_slice(name.as_bytes());
        } else {
            put_string(out, name);
        }
    }

    /// Appends the member without the name.
    pub fn write_parameters(&self, out: &mut Vec<u8>) {
        if self.hit {
            out.extend_from_slice(b"; hit");
        }
        if let Some(forward) = self.forward {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(forward.token().as_bytes());
        }
        if let Some(status) = self.forward_status {
            out.extend_from_slice(b"; fwd-status=");
            put_decimal(out, status.into());
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(ttl) = self.ttl {
            out.extend_from_slice(if ttl < 0 { b"; ttl=-" } else { b"; ttl=" });
            put_decimal(out, ttl.unsigned_abs());
        }
        if let Some(key) = self.key {
            out.extend_from_slice(b"; key=");
            put_string(out, key);
        }
        if let Some(coding) = self.coding {
            out.extend_from_slice(b"; coding=");
            out.extend_from_slice(coding.token().as_bytes());
        }
        if let Some(why) = self.detail {
            out.extend_from_slice(b"; detail=");
            out.extend_from_slice(why.token().as_bytes());
        }
    }
}

/// Appends a structured string; characters that it cannot contain become question marks.
fn put_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(if matches!(byte, b' '..=b'~') { byte } else { b'?' });
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(status: CacheStatus<'_>) -> String {
        let mut out = Vec::new();
        status.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_are_written() {
        let larder = CacheStatus { cache: "Larder", ..Default::default() };
        let hit = CacheStatus { hit: true, ..larder };
        let cases = [
            (CacheStatus { ttl: Some(30), ..hit }, "Larder; hit; ttl=30"),
            (
                CacheStatus { ttl: Some(-3), detail: Some(Why::StaleWhileRevalidate), ..hit },
                "Larder; hit; ttl=-3; detail=stale-while-revalidate",
            ),
            (
                CacheStatus {
                    forward: Why::Absent.forward(),
                    forward_status: Some(200),
                    stored: true,
                    ..larder
                },
                "Larder; fwd=uri-miss; fwd-status=200; stored",
            ),
            (
                CacheStatus {
                    forward: Why::Expired.forward(),
                    collapsed: true,
                    key: Some("http://a/\"\\é"),
                    ..larder
                },
                r#"Larder; fwd=stale; collapsed; key="http://a/\"\\??""#,
            ),
            (CacheStatus { cache: "1st floor", ..hit }, "\"1st floor\"; hit"),
        ];
        for (status, expected) in cases {
            assert_eq!(written(status), expected);
        }
    }
}
