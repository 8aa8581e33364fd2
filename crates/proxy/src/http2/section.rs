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
