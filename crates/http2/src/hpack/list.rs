//! The fields of a decoded section, in a buffer that is reused for the next section.

use super::kind::Kind;

/// The overhead that the RFC adds to the size of each field (RFC 7541 section 4.1).
pub(super) const OVERHEAD: usize = 32;

/// The maximum size of a field section.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of all names and values, plus 32 for each field.
    pub bytes: usize,
    /// The number of fields as in HTTP/1.1: all `cookie` lines are one, and of the pseudo-header fields, only `:authority`
    /// counts, in place of `Host`.
    pub fields: usize,
}

/// A decoded field section. It allocates memory only to grow beyond its largest size so far.
#[derive(Debug, Default)]
pub struct List {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    size: usize,
    /// The number of fields by the definition of [`Bounds::fields`].
    count: usize,
    cookies: usize,
    /// Whether a regular field, not a pseudo-header field, was seen.
    ordinary: bool,
    too_large: bool,
    unsound: bool,
}

/// A field line: the name starts at `at`, and the value follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    at: usize,
    name: usize,
    value: usize,
    pub(crate) kind: Kind,
}

/// Field lines, borrowed from a [`List`].
#[derive(Clone, Copy, Debug)]
pub struct Fields<'l> {
    bytes: &'l [u8],
    /// The same bytes as text, so that each name is not checked separately; empty if they are not UTF-8.
    text: &'l str,
    lines: &'l [Line],
}

impl<'l> Fields<'l> {
    /// An empty list of fields.
    pub const NONE: Fields<'static> = Fields { bytes: &[], text: "", lines: &[] };

    #[inline]
    fn new(bytes: &'l [u8], lines: &'l [Line]) -> Self {
        Self { bytes, text: str::from_utf8(bytes).unwrap_or_default(), lines }
    }

    /// Returns the names, in lower case, and values.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&'l str, &'l [u8])> + use<'l> {
        let fields = *self;
        self.lines.iter().map(move |line| (fields.name(line), fields.value(line)))
    }

    pub(crate) fn lines(&self) -> &'l [Line] {
        self.lines
    }

    #[inline]
    pub(crate) fn value(&self, line: &Line) -> &'l [u8] {
        let at = line.at + line.name;
        &self.bytes[at..at + line.value]
    }

    /// Returns the value of `line` if it is UTF-8.
    #[inline]
    pub(crate) fn value_text(&self, line: &Line) -> Option<&'l str> {
        self.text(line.at + line.name, line.value)
    }

    /// Returns the fields after the first `count`.
    #[inline]
    pub(crate) fn behind(self, count: usize) -> Self {
        Self { lines: self.lines.get(count..).unwrap_or_default(), ..self }
    }

    #[inline]
    fn name(&self, line: &Line) -> &'l str {
        // Names are tokens, which are ASCII.
        self.text(line.at, line.name).unwrap_or_default()
    }

    #[inline]
    fn text(&self, at: usize, length: usize) -> Option<&'l str> {
        self.text.get(at..at + length).or_else(|| str::from_utf8(&self.bytes[at..at + length]).ok())
    }

    /// Returns the number of lines.
    #[inline]
    pub fn count(&self) -> usize {
        self.lines.len()
    }
}

impl List {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        (self.size, self.count, self.cookies, self.ordinary) = (0, 0, 0, false);
        (self.too_large, self.unsound) = (false, false);
    }

    /// Returns the buffer for the name and value of the next field.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Completes the field whose bytes were appended from `at` on.
    #[inline]
    pub(super) fn push(&mut self, at: usize, name: usize, (kind, is_sound): (Kind, bool), bounds: &Bounds) {
        let value = self.bytes.len() - at - name;
        self.size += name + value + OVERHEAD;
        self.cookies += usize::from(kind == Kind::Cookie);
        self.unsound |= !is_sound || kind.is_pseudo() && self.ordinary;
        self.ordinary |= !kind.is_pseudo();
        self.count += usize::from(match kind {
            Kind::Cookie => self.cookies == 1,
            kind => kind == Kind::Authority || !kind.is_pseudo(),
        });
        if self.size > bounds.bytes || self.count > bounds.fields {
            self.too_large = true;
        }
        if self.too_large {
            self.bytes.truncate(at);
        } else {
            self.lines.push(Line { at, name, value, kind });
        }
    }

    /// Returns the size of all fields so far by the definition of RFC 9113 section 6.5.2, including fields beyond the
    /// bounds.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Whether the section exceeds the bounds; the fields beyond them are missing.
    pub fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// Whether a name or a value has forbidden bytes (RFC 9113 section 8.2.1), or a pseudo-header field follows a
    /// regular one (section 8.3).
    pub fn is_unsound(&self) -> bool {
        self.unsound
    }

    /// Returns all fields, including pseudo-header fields.
    pub fn fields(&self) -> Fields<'_> {
        Fields::new(&self.bytes, &self.lines)
    }

    /// Joins several `cookie` lines to one (RFC 9113 section 8.2.3).
    pub(crate) fn join_cookies(&mut self) {
        if self.cookies < 2 {
            return;
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(b"cookie");
        let name = self.bytes.len() - at;
        for line in self.lines.iter().filter(|line| line.kind == Kind::Cookie) {
            if self.bytes.len() > at + name {
                self.bytes.extend_from_slice(b"; ");
            }
            let value = line.at + line.name;
            self.bytes.extend_from_within(value..value + line.value);
        }
        self.lines.retain(|line| line.kind != Kind::Cookie);
        self.lines.push(Line { at, name, value: self.bytes.len() - at - name, kind: Kind::Cookie });
        self.cookies = 1;
    }
}

/// Whether a field is valid in a message: the name is a token in lower case, with an optional colon in front, and the
/// value has no line ends, no NUL, and no blanks around it (RFC 9113 section 8.2.1); that of a pseudo-header field is
/// visible.
pub(super) fn is_sound(kind: Kind, name: &[u8], value: &[u8]) -> bool {
    is_name(name) && if kind.is_pseudo() { value.iter().all(u8::is_ascii_graphic) } else { is_value(value) }
}

fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_blank(value.first())
        && !is_blank(value.last())
        && value.iter().all(|&byte| byte >= b' ' && byte != 0x7f || byte == b'\t')
}

/// The bytes of a token in lower case.
const IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let text = byte as u8;
        table[byte] = text.is_ascii_lowercase() || text.is_ascii_digit();
        byte += 1;
    }
    let mut others = b"!#$%&'*+-.^_`|~".as_slice();
    while let [first, rest @ ..] = others {
        table[*first as usize] = true;
        others = rest;
    }
    table
};

/// Whether `name` is a token in lower case, with an optional colon in front.
fn is_name(name: &[u8]) -> bool {
    let name = name.strip_prefix(b":").unwrap_or(name);
    !name.is_empty() && name.iter().all(|&byte| IN_NAME[usize::from(byte)])
}
