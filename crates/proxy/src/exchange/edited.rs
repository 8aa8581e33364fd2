//! Changes the fields of a reply on their way to the client: by the coding of its content, then by the edits of rules.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use larder_semantics::fields::{Fields, list};
use larder_store::LinesRef;

use crate::base::settings::Edits;
use crate::exchange::negotiation::Negotiation;
use crate::http::fields::FieldWriter;

/// The edits of a reply without any.
pub(super) static NONE: LazyLock<Edits> = LazyLock::new(Edits::default);

/// Writes the fields of a reply to `out`, changed.
pub(super) struct EditedFields<'e, W> {
    out: &'e mut W,
    negotiated: Negotiation,
    edits: &'e Edits,
    /// Defaults of fields that have not been written.
    missing: Vec<&'e (HeaderName, HeaderValue)>,
    /// Which of the first 64 names that rules add to `Vary` have been written: one bit each, so that a hit allocates
    /// nothing.
    said: u64,
}

/// Returns the fields of a response of this status after the edits.
pub(crate) fn edited(edits: &Edits, status: StatusCode, fields: &HeaderMap) -> HeaderMap {
    let mut changed = HeaderMap::new();
    let mut edited = EditedFields::new(&mut changed, status, Negotiation::default(), edits);
    fields.iter().for_each(|(name, value)| edited.mapped(name, value));
    edited.finish(false);
    changed
}

impl<'e, W: FieldWriter> EditedFields<'e, W> {
    /// Returns a writer for the fields of a response of this status.
    pub(super) fn new(out: &'e mut W, status: StatusCode, negotiated: Negotiation, edits: &'e Edits) -> Self {
        Self { out, negotiated, edits, missing: edits.defaults(status), said: 0 }
    }

    /// Appends the fields that are added. Without content, as in a 304, no coding is named.
    pub(super) fn finish(mut self, is_bodiless: bool) {
        // The coding of the content changes no field that is added here; edits do.
        let Negotiation { coding, varies, is_said, .. } = std::mem::take(&mut self.negotiated);
        if let Some(coding) = coding.filter(|_| !is_bodiless) {
            self.field(b"Content-Encoding", coding.token().as_bytes());
        }
        if varies && !is_said {
            self.field(b"Vary", b"Accept-Encoding");
        }
        let missing = std::mem::take(&mut self.missing);
        for (name, value) in self.edits.set.iter().chain(missing).chain(&self.edits.add) {
            self.record(name.as_str().as_bytes(), value.as_bytes());
            self.out.mapped(name, value);
        }
        let is_unsaid = |(at, _): &(usize, &String)| *at >= 64 || self.said >> at & 1 == 0;
        let unsaid = self.edits.vary.iter().enumerate().filter(is_unsaid).map(|(_, name)| name.as_bytes());
        let mut unsaid = unsaid.peekable();
        if unsaid.peek().is_some() {
            self.out.field_with(b"Vary", |out| {
                for (number, name) in unsaid.enumerate() {
                    out.extend_from_slice(if number > 0 { b", " } else { b"" });
                    out.extend_from_slice(name);
                }
            });
        }
    }

    /// Whether all `lines` stay as they are. Names are searched for, which costs less than writing line by line.
    fn keeps_all(&self, lines: &LinesRef<'_>) -> bool {
        let Edits { remove, cookies, set, .. } = self.edits;
        let mut changed = remove.iter().chain(set.iter().map(|(name, _)| name));
        !self.negotiated.changes_lines()
            && !changed.any(|name| name.as_str().ends_with('*') || lines.contains(name.as_str()))
            && (cookies.is_none() || !lines.contains(header::SET_COOKIE.as_str()))
    }

    /// Whether a field is kept; records it if it is.
    fn keeps(&mut self, name: &[u8], value: &[u8]) -> bool {
        let is_undone = self.negotiated.is_undone() && name.eq_ignore_ascii_case(b"content-encoding");
        let keeps = !is_undone && self.edits.keep(name, value);
        if keeps {
            self.record(name, value);
        }
        keeps
    }

    /// Records a field that is written. In `Vary`, `*` stands for all names.
    fn record(&mut self, name: &[u8], value: &[u8]) {
        self.missing.retain(|(own, _)| !name.eq_ignore_ascii_case(own.as_str().as_bytes()));
        if !name.eq_ignore_ascii_case(b"vary") {
            return;
        }
        for (at, own) in self.edits.vary.iter().enumerate().take(64) {
            let is_own = |member: &[u8]| member == b"*" || member.eq_ignore_ascii_case(own.as_bytes());
            self.said |= u64::from(list(value).any(is_own)) << at;
        }
    }
}

impl<W: FieldWriter> FieldWriter for EditedFields<'_, W> {
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.field(name, &value);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.keeps(name, value) {
            let mark: &[u8] = if self.negotiated.weakens(name, value) { b"W/" } else { b"" };
            let cookies = self.edits.cookies.as_ref().filter(|_| name.eq_ignore_ascii_case(b"set-cookie"));
            self.out.field_with(name, |out| {
                out.extend_from_slice(mark);
                out.extend_from_slice(value);
                for flag in cookies.into_iter().flat_map(|own| own.missing_flags(value)) {
                    out.extend_from_slice(b"; ");
                    out.extend_from_slice(flag.as_bytes());
                }
            });
        }
    }

    fn mapped(&mut self, name: &HeaderName, value: &HeaderValue) {
        if *name == header::ETAG {
            self.field(b"ETag", value.as_bytes());
        } else if *name == header::SET_COOKIE {
            self.field(b"Set-Cookie", value.as_bytes());
        } else if self.keeps(name.as_str().as_bytes(), value.as_bytes()) {
            self.out.mapped(name, value);
        }
    }

    fn stored(&mut self, lines: &LinesRef<'_>) {
        if !self.keeps_all(lines) {
            return lines.iter().for_each(|(name, value)| self.field(name, value));
        }
        self.missing.retain(|(name, _)| !lines.contains(name.as_str()));
        lines.lines("vary").for_each(|value| self.record(b"vary", value));
        self.out.stored(lines);
    }
}

#[cfg(test)]
mod tests;
