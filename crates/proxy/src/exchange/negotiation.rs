//! The dependence of a reply on `Accept-Encoding` on sites that compress, and the field lines that express it.
//!
//! Stored lines are those of the origin's response. A reply whose response has other forms adds `Vary`, regardless of
//! its own form. A coded reply also names its coding, and weakens a strong entity-tag: its bytes differ from those that
//! the origin tagged, but the representation means the same (RFC 9110 section 8.8.1). Therefore the tag of any form is
//! valid in a conditional request to this cache and to the origin, and no byte range of one form is taken for that of
//! another.

use larder_semantics::coding::Coding;

/// The dependence of a reply on the codings that its client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Negotiation {
    pub(super) varies: bool,
    /// Whether the origin's `Vary` names `Accept-Encoding` already.
    pub(super) is_said: bool,
    pub(super) coding: Option<Coding>,
    /// Whether the origin's coding is decoded.
    is_undone: bool,
    /// Whether the entity-tag is weak in any form.
    is_weak: bool,
}

impl Negotiation {
    /// For a response that is sent to this client in `coding`; `is_said`: its `Vary` names `Accept-Encoding` already.
    pub(crate) fn new(coding: Option<Coding>, is_said: bool) -> Self {
        Self { varies: true, is_said, coding, is_undone: false, is_weak: false }
    }

    /// Marks the content as compressed in `coding`.
    pub(crate) fn coded(self, coding: Coding) -> Self {
        Self { coding: Some(coding), ..self }
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

    /// Whether the origin's coding is decoded for this client.
    pub(super) fn is_undone(self) -> bool {
        self.varies && self.is_undone
    }

    /// Whether any line is left out or gets another value.
    pub(super) fn changes_lines(self) -> bool {
        self.varies && (self.is_undone || self.is_weak || self.coding.is_some())
    }

    /// Whether this is a strong entity-tag that becomes a weak one: clients choose among several.
    pub(super) fn weakens(self, name: &[u8], value: &[u8]) -> bool {
        self.changes_lines() && name.eq_ignore_ascii_case(b"etag") && value.starts_with(b"\"")
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use larder_semantics::fields::HeadLines;

    use super::*;
    use crate::exchange::edited::{EditedFields, NONE};
    use crate::http::fields::FieldWriter;

    fn changed(before: &str, negotiated: Negotiation, is_bodiless: bool) -> String {
        let mut out = Vec::new();
        let mut edited = EditedFields::new(&mut out, StatusCode::OK, negotiated, &NONE);
        HeadLines(before.as_bytes()).iter().for_each(|(name, value)| edited.field(name, value));
        edited.finish(is_bodiless);
        String::from_utf8(out).unwrap()
    }

    fn lines(before: &str, coding: Option<Coding>, is_said: bool, is_bodiless: bool) -> String {
        changed(before, Negotiation::new(coding, is_said), is_bodiless)
    }

    #[test]
    fn a_coded_form_names_its_coding_and_has_a_weak_tag() {
        let gzip = Some(Coding::Gzip);
        let whole = "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n";
        let cases = [
            ("ETag: \"a\"\r\nX: 1\r\n", "ETag: W/\"a\"\r\nX: 1\r\n"),
            ("X-Etag: \"a\"\r\netag: \"a\"\r\n", "X-Etag: \"a\"\r\netag: W/\"a\"\r\n"),
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
        let coded = "Content-Encoding: br\r\nETag: \"a\"\r\nX: 1\r\n";
        let undone = changed(coded, Negotiation::new(None, true).undone(), false);
        assert_eq!(undone, "ETag: W/\"a\"\r\nX: 1\r\n");
    }
}
