//! The dependence of a reply on `Accept-Encoding` on sites that compress, and the field lines that express it.
//!
//! Stored lines are those of the origin's response. A reply whose response has other forms adds `Vary`, regardless of
//! its own form. A coded reply also names its coding, and weakens a strong entity-tag: its bytes differ from those that
//! the origin tagged, but the representation means the same (RFC 9110 section 8.8.1). Therefore the tag of any form is
//! valid in a conditional request to this cache and to the origin, and no byte range of one form is taken for that of
//! another.

use larder_semantics::coding::Coding;
use larder_semantics::fields::HeadLines;
use larder_store::lines::write_line;

/// The dependence of a reply on the codings that its client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Negotiated {
    varies: bool,
    /// Whether the origin's `Vary` names `Accept-Encoding` already.
    is_said: bool,
    coding: Option<Coding>,
    /// Whether the origin's coding is decoded.
    is_undone: bool,
    /// Whether the entity-tag is weak in any form.
    is_weak: bool,
}

impl Negotiated {
    /// For a response that is sent to this client in `coding`; `is_said`: its `Vary` names `Accept-Encoding` already.
    pub(crate) fn new(coding: Option<Coding>, is_said: bool) -> Self {
        Self { varies: true, is_said, coding, is_undone: false, is_weak: false }
    }

    /// Marks the origin's coding as decoded.
    pub(crate) fn undone(self) -> Self {
        Self { is_undone: true, ..self }
    }

    /// Weakens the entity-tag if `is_weak`.
    pub(crate) fn weakened(self, is_weak: bool) -> Self {
        Self { is_weak, ..self }
    }

    /// Whether any line changes.
    #[inline]
    pub(crate) fn varies(self) -> bool {
        self.varies
    }

    /// Changes the lines of a reply, which begin at `start` of `out`. Without content, as in a 304, no coding is named.
    pub(crate) fn apply_behind(self, out: &mut Vec<u8>, start: usize, is_bodiless: bool) {
        if self.is_undone {
            let lines = out.split_off(start);
            for (name, value) in HeadLines(&lines).iter() {
                if !name.eq_ignore_ascii_case(b"content-encoding") {
                    write_line(out, name, value);
                }
            }
            weaken(out, start);
        }
        if self.is_weak || self.coding.is_some() {
            weaken(out, start);
        }
        if let Some(coding) = self.coding
            && !is_bodiless
        {
            out.extend_from_slice(b"Content-Encoding: ");
            out.extend_from_slice(coding.token().as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        if !self.is_said {
            out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
        }
    }
}

/// Weakens each entity-tag in the lines from `start` on: clients choose among several.
fn weaken(out: &mut Vec<u8>, start: usize) {
    const NAME: &[u8] = b"etag:";
    let mut at = start;
    while let Some(line) = out.get(at..).filter(|rest| !rest.is_empty()) {
        let mut next = at + memchr::memchr(b'\n', line).map_or(line.len(), |end| end + 1);
        if line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)) {
            let value = line[NAME.len()..].trim_ascii_start();
            let tag = at + line.len() - value.len();
            if value.starts_with(b"\"") {
                out.splice(tag..tag, *b"W/");
                next += 2;
            }
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(before: &str, coding: Option<Coding>, is_said: bool, is_bodiless: bool) -> String {
        let mut out = b"ETag: \"not a line of this reply\"\r\n".to_vec();
        let start = out.len();
        out.extend_from_slice(before.as_bytes());
        Negotiated::new(coding, is_said).apply_behind(&mut out, start, is_bodiless);
        String::from_utf8(out.split_off(start)).unwrap()
    }

    #[test]
    fn a_coded_form_names_its_coding_and_has_a_weak_tag() {
        let gzip = Some(Coding::Gzip);
        let whole = "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n";
        let cases = [
            ("ETag: \"a\"\r\nX: 1\r\n", "ETag: W/\"a\"\r\nX: 1\r\n"),
            ("X-ETag: \"a\"\r\netag:\"a\"\r\n", "X-ETag: \"a\"\r\netag:W/\"a\"\r\n"),
            ("X: 1\r\nETag: W/\"a\"\r\n", "X: 1\r\nETag: W/\"a\"\r\n"),
            ("ETag: bare\r\n", "ETag: bare\r\n"),
            ("ETag: \"a\"\r\nX: 1\r\nETag: \"b\"\r\n", "ETag: W/\"a\"\r\nX: 1\r\nETag: W/\"b\"\r\n"),
            ("", ""),
        ];
        for (before, after) in cases {
            assert_eq!(lines(before, gzip, false, false), format!("{after}{whole}"));
            assert_eq!(lines(before, gzip, true, true), after, "a 304 of what varies anyway");
            assert_eq!(lines(before, None, false, false), format!("{before}Vary: Accept-Encoding\r\n"));
        }
        let mut out = b"Content-Encoding: br\r\nETag: \"a\"\r\nX: 1\r\n".to_vec();
        Negotiated::new(None, true).undone().apply_behind(&mut out, 0, false);
        assert_eq!(out, b"ETag: W/\"a\"\r\nX: 1\r\n");
    }
}
