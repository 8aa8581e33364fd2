//! Field lines at rest. Those that many responses have in common (`Server`, `Content-Type`, security
//! policies) are kept once for all of them ([`pool`]); the others are a response's own.
//!
//! Lines are kept as they leave, `Name: value\r\n`, so that sending them is two copies. Left out are
//! those that differ from reply to reply: `Age` and `Content-Length` are made from integers.

use http::HeaderMap;
use larder_semantics::fields::{Fields, HeadLines};

mod pool;
mod repeats;

pub use pool::LinePool;
pub(crate) use pool::SharedLines;

/// The field lines of a response that is stored or about to be.
#[derive(Clone, Debug)]
pub struct Lines {
    pub(crate) shared: Option<SharedLines>,
    pub(crate) own: Vec<u8>,
}

/// The lines of one response, to be read or sent: first those it shares, then its own.
#[derive(Clone, Copy, Debug)]
pub struct LinesRef<'l> {
    /// What others may have as well.
    pub shared: HeadLines<'l>,
    /// What is its own.
    pub own: HeadLines<'l>,
}

impl Lines {
    /// The lines, to be read or sent.
    pub fn view(&self) -> LinesRef<'_> {
        LinesRef::of(self.shared.as_ref(), &self.own)
    }
}

impl<'l> LinesRef<'l> {
    pub(crate) fn of(shared: Option<&'l SharedLines>, own: &'l [u8]) -> Self {
        let shared = shared.map_or(&[][..], SharedLines::bytes);
        Self { shared: HeadLines(shared), own: HeadLines(own) }
    }

    /// All lines as name and value.
    pub fn iter(self) -> impl Iterator<Item = (&'l [u8], &'l [u8])> {
        self.shared.iter().chain(self.own.iter())
    }

    /// The same fields as a map.
    pub fn to_map(self) -> HeaderMap {
        let mut map = self.shared.to_map();
        map.extend(self.own.to_map());
        map
    }
}

impl Fields for LinesRef<'_> {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.shared.lines(name).chain(self.own.lines(name))
    }
}

/// Appends one field line, its name in the customary capitals (`Content-Type`, `ETag`).
pub fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write_name(out, name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the beginning of a field line: the name in such capitals, and what parts it from a value.
pub fn write_name(out: &mut Vec<u8>, name: &[u8]) {
    match name {
        b"etag" => out.extend_from_slice(b"ETag"),
        b"www-authenticate" => out.extend_from_slice(b"WWW-Authenticate"),
        b"te" => out.extend_from_slice(b"TE"),
        _ => {
            let start = out.len();
            out.extend_from_slice(name);
            let mut begins = true;
            for byte in &mut out[start..] {
                if begins {
                    byte.make_ascii_uppercase();
                }
                begins = *byte == b'-';
            }
        }
    }
    out.extend_from_slice(b": ");
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn lines_read_as_the_fields_they_were_made_from() {
        let mut all = fields(&[("etag", "\"1\""), ("vary", "a"), ("set-cookie", "x=y"), ("x-a", "1")]);
        let lines = LinePool::default().keep(&all, 0);
        all.insert("date", "Thu, 01 Jan 1970 00:00:00 GMT".parse().unwrap());
        assert_eq!(lines.view().to_map(), all);
        assert_eq!(lines.view().first("set-cookie"), Some(&b"x=y"[..]));
        assert!(lines.view().contains("vary"));
    }

    #[test]
    fn names_get_their_customary_capitals_and_varying_lines_stay_out() {
        let all = fields(&[("content-type", "v"), ("etag", "v"), ("age", "1"), ("content-length", "1")]);
        let lines = LinePool::default().keep(&all, 0);
        assert_eq!(lines.own, b"Content-Type: v\r\nETag: v\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    }
}
