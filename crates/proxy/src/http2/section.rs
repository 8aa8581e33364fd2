//! A field section in HPACK, to which the fields of a reply are appended.

use larder_http2::hpack::encoder;
use larder_store::LinesRef;

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
