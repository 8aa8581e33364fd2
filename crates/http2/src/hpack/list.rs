//! The fields of one decoded section, in memory that is used again for the next one.

/// What the RFC adds to the bytes of each field (RFC 7541 section 4.1).
pub(super) const OVERHEAD: usize = 32;

/// How large a field section may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of all names and values, plus 32 for each field.
    pub bytes: usize,
    /// Field lines; each `cookie` line counts.
    pub fields: usize,
}

/// A decoded field section. It allocates only to grow beyond what it has held before.
#[derive(Debug, Default)]
pub struct List {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    size: usize,
    cookies: usize,
    /// A field that is no pseudo-header field was seen.
    ordinary: bool,
    too_large: bool,
    unsound: bool,
}

/// Name and value lie behind each other from `at` on.
#[derive(Clone, Copy, Debug)]
struct Line {
    at: usize,
    name: usize,
    value: usize,
}

/// Field lines, borrowed from a [`List`].
#[derive(Clone, Copy, Debug)]
pub struct Fields<'l> {
    bytes: &'l [u8],
    lines: &'l [Line],
}

impl<'l> Fields<'l> {
    /// No fields.
    pub const NONE: Fields<'static> = Fields { bytes: &[], lines: &[] };

    /// Names, in lower case, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'l str, &'l [u8])> + use<'l> {
        let bytes = self.bytes;
        self.lines.iter().map(move |line| {
            let (name, value) = bytes[line.at..line.at + line.name + line.value].split_at(line.name);
            // Names are tokens, which are ASCII.
            (str::from_utf8(name).unwrap_or_default(), value)
        })
    }

    /// The number of lines.
    pub fn count(&self) -> usize {
        self.lines.len()
    }
}

impl List {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        (self.size, self.cookies, self.ordinary) = (0, 0, false);
        (self.too_large, self.unsound) = (false, false);
    }

    /// The memory of the last field's name and value, to be appended to.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the field whose bytes were appended from `at` on.
    pub(super) fn push(&mut self, at: usize, name: usize, sound: bool, bounds: &Bounds) {
        let value = self.bytes.len() - at - name;
        self.size += name + value + OVERHEAD;
        let text = &self.bytes[at..at + name];
        let is_pseudo = text.starts_with(b":");
        self.cookies += usize::from(text == b"cookie");
        self.unsound |= !sound || is_pseudo && self.ordinary;
        self.ordinary |= !is_pseudo;
        if self.size > bounds.bytes || self.lines.len() >= bounds.fields {
            self.too_large = true;
        }
        match self.too_large {
            true => self.bytes.truncate(at),
            false => self.lines.push(Line { at, name, value }),
        }
    }

    /// Bytes of all fields so far, counted as RFC 9113 section 6.5.2 does, beyond the bounds as well.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The section has more than the bounds allow; further fields are missing.
    pub fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// A name or a value has bytes that it must not have (RFC 9113 section 8.2.1), or a pseudo-header field is behind others
    /// (section 8.3).
    pub fn is_unsound(&self) -> bool {
        self.unsound
    }

    /// All fields, pseudo-header fields included.
    pub fn fields(&self) -> Fields<'_> {
        Fields { bytes: &self.bytes, lines: &self.lines }
    }

    /// The fields behind the first `count`.
    pub(crate) fn behind(&self, count: usize) -> Fields<'_> {
        Fields { bytes: &self.bytes, lines: self.lines.get(count..).unwrap_or_default() }
    }

    /// Makes one `cookie` line of several (RFC 9113 section 8.2.3).
    pub(crate) fn join_cookies(&mut self) {
        if self.cookies < 2 {
            return;
        }
        let is_cookie = |bytes: &[u8], line: &Line| &bytes[line.at..line.at + line.name] == b"cookie";
        let at = self.bytes.len();
        self.bytes.extend_from_slice(b"cookie");
        let name = self.bytes.len() - at;
        for number in 0..self.lines.len() {
            let line = self.lines[number];
            if is_cookie(&self.bytes, &line) {
                if self.bytes.len() > at + name {
                    self.bytes.extend_from_slice(b"; ");
                }
                let value = line.at + line.name;
                self.bytes.extend_from_within(value..value + line.value);
            }
        }
        let bytes = &self.bytes;
        self.lines.retain(|line| !is_cookie(bytes, line));
        self.lines.push(Line { at, name, value: self.bytes.len() - at - name });
        self.cookies = 1;
    }
}

/// Whether a field may be in a message: the name a token in lower case, perhaps with a colon in front, the value without line
/// ends, NUL, and blanks around it (RFC 9113 section 8.2.1).
pub(super) fn is_sound(name: &[u8], value: &[u8]) -> bool {
    is_name(name) && is_value(value)
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

/// A token in lower case, perhaps with a colon in front.
fn is_name(name: &[u8]) -> bool {
    let name = name.strip_prefix(b":").unwrap_or(name);
    !name.is_empty() && name.iter().all(|&byte| IN_NAME[usize::from(byte)])
}
