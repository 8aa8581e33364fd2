//! Messages of Protocol Buffers, written field by field (protobuf.dev/programming-guides/encoding).

/// A message: its fields so far.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

/// How the value of a field is written.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Delimited = 2,
}

impl Message {
    /// Adds an integer.
    pub fn number(self, field: u32, value: u64) -> Self {
        self.tag(field, WireType::Varint).varint(value)
    }

    /// Adds an integer of eight bytes.
    pub fn fixed(self, field: u32, value: u64) -> Self {
        let mut message = self.tag(field, WireType::Fixed64);
        message.0.extend(value.to_le_bytes());
        message
    }

    /// Adds a floating-point number.
    pub fn double(self, field: u32, value: f64) -> Self {
        self.fixed(field, value.to_bits())
    }

    /// Adds several values of eight bytes in one field.
    pub fn packed(self, field: u32, values: impl Iterator<Item = u64>) -> Self {
        let bytes: Vec<_> = values.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &bytes)
    }

    pub(crate) fn bytes(self, field: u32, value: &[u8]) -> Self {
        let mut message = self.tag(field, WireType::Delimited).varint(value.len() as u64);
        message.0.extend(value);
        message
    }

    /// Appends a text.
    pub fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    /// Appends a message.
    pub fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn tag(self, field: u32, kind: WireType) -> Self {
        self.varint(u64::from(field << 3 | kind as u32))
    }

    fn varint(mut self, mut value: u64) -> Self {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }
}
