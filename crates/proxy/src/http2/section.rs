//! A field section in HPACK, to which the fields of a reply are appended.

use larder_http2::hpack::encoder;
use larder_store::LinesRef;

use crate::exchange::reply::{Banner, Reply, Source};
use crate::http::fields::FieldWriter;

/// The bytes of a section.
pub(super) struct Section<'s>(pub(super) &'s mut Vec<u8>);

impl FieldWriter for Section<'_> {
    #[inline]
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        encoder::field_with(self.0, name, write);
    }

    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        encoder::field(self.0, name, value);
    }

    #[inline]
    fn stored(&mut self, lines: &LinesRef<'_>) {
        lines.write_with(self.0, encoder::field);
    }
}

/// The size of a list of fields, in which each counts 32 bytes more (RFC 9113 section 6.5.2).
#[derive(Default)]
pub(super) struct ListSize(pub(super) usize);

impl FieldWriter for ListSize {
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.field(name, &value);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.0 += name.len() + value.len() + 32;
    }
}

/// The most that the fields of all replies add to a list, except for those in the [`Banner`].
const FIXED: usize = 2_048;

/// Returns a size that the list of the head of `reply` does not exceed, without reading its lines; `None` where only
/// [`ListSize`] tells.
pub(super) fn at_most(reply: &Reply, banner: &Banner) -> Option<usize> {
    let lines = match &reply.fields {
        Source::Entry(entry) | Source::NotModified(entry) => entry.fields().size(),
        Source::Fill(head) => head.fields.view().size(),
        Source::Answer(_) | Source::Fields(_) => return None,
    };
    let edits = reply.edits.as_deref().map(|own| &own.0);
    let is_simple = reply.extra.is_none() && edits.is_none_or(|edits| edits.cookies.is_none());
    let added: usize = edits.map_or(0, |edits| {
        let fields = edits.set.iter().chain(&edits.default).chain(&edits.add);
        let fields: usize = fields.map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
        fields + edits.vary.iter().map(|name| name.len() + 2).sum::<usize>()
    });
    // A line adds 28 bytes to its own, and has 5 at least.
    is_simple.then(|| 7 * lines + added + banner.len() + FIXED)
}
