//! Field lines at rest. Those that many responses have in common (`Server`, `Content-Type`, security
//! policies) are kept once for all of them; only what tells a response from others is its own.
//!
//! Lines are kept as they leave, `Name: value\r\n`, so that sending them is two copies. Left out are
//! those that differ from reply to reply: `Age` and `Content-Length` are made from integers.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, HeaderName, header};
use larder_semantics::date;
use larder_semantics::fields::{Fields, HeadLines};
use triomphe::ThinArc;

/// Names whose values tell one response from another. All lines of other names are shared.
const OWN: [HeaderName; 10] = [
    header::ETAG,
    header::LAST_MODIFIED,
    header::EXPIRES,
    header::CONTENT_LOCATION,
    header::LOCATION,
    header::SET_COOKIE,
    HeaderName::from_static("cache-groups"),
    HeaderName::from_static("cache-tag"),
    HeaderName::from_static("surrogate-key"),
    HeaderName::from_static("xkey"),
];
/// A table of shared lines is swept when it has grown to twice what was in use, and this many.
const SWEEP_FROM: usize = 1024;

/// The field lines of a response that is stored or about to be.
#[derive(Clone, Debug)]
pub struct Lines {
    pub(crate) shared: SharedLines,
    pub(crate) own: Vec<u8>,
    /// Nobody had these shared lines before: this response pays for them.
    pub(crate) is_first: bool,
}

/// Lines that several responses may have in common: one word.
#[derive(Clone, Debug)]
pub(crate) struct SharedLines(ThinArc<(), u8>);

/// The lines of one response, to be read or sent: first those it shares, then its own.
#[derive(Clone, Copy, Debug)]
pub struct LinesRef<'l> {
    /// What others may have as well.
    pub shared: HeadLines<'l>,
    /// What is its own.
    pub own: HeadLines<'l>,
}

/// The shared lines in use. What nobody uses any more is forgotten by and by.
#[derive(Debug, Default)]
pub struct LinePool(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    lines: HashSet<SharedLines>,
    sweep_at: usize,
}

impl Lines {
    /// The lines, to be read or sent.
    pub fn view(&self) -> LinesRef<'_> {
        LinesRef { shared: HeadLines(self.shared.bytes()), own: HeadLines(&self.own) }
    }
}

impl<'l> LinesRef<'l> {
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

impl LinePool {
    /// The lines of `fields`, with `date` as their `Date`; the shared part of them is taken from the
    /// pool if it is there.
    pub fn keep(&self, fields: &HeaderMap, date: u32) -> Lines {
        let (mut shared, mut own) = (Vec::with_capacity(256), Vec::with_capacity(128));
        for (name, value) in fields {
            let lines = if OWN.contains(name) { &mut own } else { &mut shared };
            if !matches!(*name, header::DATE | header::AGE | header::CONTENT_LENGTH) {
                write_line(lines, name.as_str().as_bytes(), value.as_bytes());
            }
        }
        write_line(&mut own, b"date", &date::format(date));
        self.share(&shared, own)
    }

    /// The lines `shared`, from the pool if they are there, and `own`.
    pub(crate) fn share(&self, shared: &[u8], own: Vec<u8>) -> Lines {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table.lines.get(shared) {
            return Lines { shared: known.clone(), own, is_first: false };
        }
        let shared = SharedLines(ThinArc::from_header_and_slice((), shared));
        table.add(shared.clone());
        Lines { shared, own, is_first: true }
    }
}

impl Table {
    fn add(&mut self, lines: SharedLines) {
        if self.lines.len() >= self.sweep_at {
            self.lines.retain(|lines| !lines.is_unused());
            self.sweep_at = SWEEP_FROM.max(2 * self.lines.len());
        }
        self.lines.insert(lines);
    }
}

impl SharedLines {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.slice
    }

    /// Whether the pool alone still holds them.
    fn is_unused(&self) -> bool {
        self.0.with_arc(|lines| lines.is_unique())
    }
}

impl PartialEq for SharedLines {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for SharedLines {}

impl Hash for SharedLines {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl Borrow<[u8]> for SharedLines {
    fn borrow(&self) -> &[u8] {
        self.bytes()
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
    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn common_lines_are_kept_once_and_forgotten_with_their_last_user() {
        let pool = LinePool::default();
        let page =
            |tag| pool.keep(&fields(&[("server", "s"), ("etag", tag), ("content-type", "text/html")]), 0);
        let (one, other) = (page("\"1\""), page("\"2\""));
        assert!(one.is_first && !other.is_first);
        assert_eq!(one.shared.bytes().as_ptr(), other.shared.bytes().as_ptr());
        assert_eq!(other.own, b"ETag: \"2\"\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
        drop((one, other));
        for n in 0..5 * SWEEP_FROM {
            pool.keep(&fields(&[("server", &n.to_string())]), 0);
        }
        assert!(pool.0.lock().unwrap().lines.len() <= SWEEP_FROM);
        assert!(page("\"3\"").is_first);
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
        assert_eq!(lines.shared.bytes(), b"Content-Type: v\r\n");
        assert_eq!(lines.own, b"ETag: v\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    }
}
