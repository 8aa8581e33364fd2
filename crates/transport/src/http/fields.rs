//! Writes the fields of a message in the form of its protocol, so that none is printed in one form and parsed for
//! another.

use http::{HeaderMap, HeaderName, HeaderValue};
use larder_store::LinesRef;
use larder_store::lines::write_line;

use super::response::Lines;

/// A field section to which fields are appended.
pub trait FieldWriter {
    /// Appends a field with the value that `write` appends. HTTP/1 keeps the letters of the name.
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>));

    /// Appends a field. HTTP/1 keeps the letters of the name.
    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.field_with(name, |out| out.extend_from_slice(value));
    }

    /// Appends a field of a map. HTTP/1 gives the name its customary capitals.
    fn mapped(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.field(name.as_str().as_bytes(), value.as_bytes());
    }

    /// Appends a field that is at hand as a line of HTTP/1, too.
    #[inline]
    fn line(&mut self, name: &[u8], value: &[u8], _line: &[u8]) {
        self.field(name, value);
    }

    /// Appends the fields of a stored response.
    fn stored(&mut self, lines: &LinesRef<'_>) {
        lines.iter().for_each(|(name, value)| self.field(name, value));
    }

    /// Appends the fields of a received message, except those of its connection, and its length, which is written with
    /// the framing.
    fn forward(&mut self, lines: &Lines) {
        lines.forwarded().for_each(|(name, value)| self.field(name, value));
    }
}

/// Lines of HTTP/1.
impl FieldWriter for Vec<u8> {
    #[inline]
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.extend_from_slice(name);
        self.extend_from_slice(b": ");
        write(self);
        self.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.reserve(name.len() + value.len() + b": \r\n".len());
        self.field_with(name, |out| out.extend_from_slice(value));
    }

    #[inline]
    fn mapped(&mut self, name: &HeaderName, value: &HeaderValue) {
        write_line(self, name.as_str().as_bytes(), value.as_bytes());
    }

    #[inline]
    fn line(&mut self, _name: &[u8], _value: &[u8], line: &[u8]) {
        self.extend_from_slice(line);
    }

    fn forward(&mut self, lines: &Lines) {
        lines.forwarded_runs().for_each(|run| self.extend_from_slice(run));
    }

    #[inline]
    fn stored(&mut self, lines: &LinesRef<'_>) {
        lines.write(self);
    }
}

/// Fields of no protocol. Malformed ones are left out.
impl FieldWriter for HeaderMap {
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(&value)) {
            self.append(name, value);
        }
    }

    fn mapped(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.append(name, value.clone());
    }
}
