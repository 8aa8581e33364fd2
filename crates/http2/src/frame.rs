//! The encoding of frames (RFC 9113 section 4).

use crate::error::{Code, Failure};

/// The first bytes from a client (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of a frame's header in bytes.
pub const HEADER: usize = 9;
/// The longest payload for an endpoint that has not allowed more. This endpoint never allows more.
pub(crate) const MOST_PAYLOAD: usize = 16_384;
/// The largest `SETTINGS_MAX_FRAME_SIZE`.
pub(crate) const LARGEST_FRAME: u32 = (1 << 24) - 1;
/// The longest payload of a sent `DATA` frame: with the frame's header it fills a TLS record.
pub const DATA_PAYLOAD: usize = MOST_PAYLOAD - HEADER;
/// The largest window.
pub(crate) const LARGEST_WINDOW: i64 = (1 << 31) - 1;
/// The initial window of streams and connections.
pub(crate) const FIRST_WINDOW: i64 = 65_535;

/// Types of frames.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Settings (RFC 9113 section 6.5.2, RFC 9218 section 2.1).
pub(crate) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(crate) const ENABLE_PUSH: u16 = 0x2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
    pub(crate) const NO_RFC7540_PRIORITIES: u16 = 0x9;
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Header {
    /// Returns the header at the start of `input`, if it is complete.
    pub(crate) fn read(input: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, stream @ ..] = input.first_chunk::<HEADER>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(Self { length, kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff })
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload without the padding around it (RFC 9113 sections 6.1 and 6.2).
    pub(crate) fn unpadded<'b>(&self, payload: &'b [u8]) -> Result<&'b [u8], Failure> {
        if !self.has(flag::PADDED) {
            return Ok(payload);
        }
        let (&padding, rest) =
            payload.split_first().ok_or(Failure::frame_size("a padded frame without a length"))?;
        let length = rest.len().checked_sub(padding.into());
        length.map(|length| &rest[..length]).ok_or(Failure::protocol("more padding than payload"))
    }
}

/// Returns the bytes of a frame's header.
pub(crate) fn header_of(length: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEADER] {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    [a, b, c, kind, flags, d, e, f, g]
}

/// Appends a frame's header.
pub(crate) fn header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&header_of(length, kind, flags, stream));
}

/// Appends a frame.
pub(crate) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    header(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Appends a `SETTINGS` frame.
pub(crate) fn settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    header(out, 6 * settings.len(), kind::SETTINGS, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(crate) fn reset(out: &mut Vec<u8>, stream: u32, code: Code) {
    write(out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

pub(crate) fn window_update(out: &mut Vec<u8>, stream: u32, more: u32) {
    write(out, kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes());
}

pub(crate) fn go_away(out: &mut Vec<u8>, last: u32, code: Code) {
    header(out, 8, kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Reads a 32-bit number and ignores its first bit.
pub(crate) fn number(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(|bytes| u32::from_be_bytes(bytes) & 0x7fff_ffff)
}

/// Writes frames around a field section of any length that `write` appends to `out`: `HEADERS`, and `CONTINUATION` if
/// one frame is too small. The frames are never longer than the length that every client accepts.
pub(crate) fn headers(out: &mut Vec<u8>, stream: u32, end: bool, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    let end = if end { flag::END_STREAM } else { 0 };
    header(out, 0, kind::HEADERS, flag::END_HEADERS | end, stream);
    write(out);
    let length = out.len() - at - HEADER;
    if length <= MOST_PAYLOAD {
        out[at..at + 3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        return;
    }
    // This is rare: ordinary heads are shorter.
    let block = out.split_off(at + HEADER);
    out.truncate(at);
    let count = block.len().div_ceil(MOST_PAYLOAD);
    for (number, part) in block.chunks(MOST_PAYLOAD).enumerate() {
        let last = if number + 1 == count { flag::END_HEADERS } else { 0 };
        match number {
            0 => self::write(out, kind::HEADERS, end | last, stream, part),
            _ => self::write(out, kind::CONTINUATION, last, stream, part),
        }
    }
}
