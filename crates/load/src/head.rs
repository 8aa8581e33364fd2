//! Heads of HTTP/1.1 messages, for clients and origins of measurements.

use httparse::{Header, Status};

/// The maximum number of field lines in a head: more than any head here has.
pub const LINES: usize = 128;
/// The maximum length of a head in bytes: more than any head here has.
const LONGEST: usize = 64 << 10;

/// Returns the length of the head that begins `bytes`, from the result of parsing it; `None` while it is incomplete.
///
/// # Errors
/// If it is no head, or has no end within 64 KiB.
pub fn whole(parsed: httparse::Result<usize>, bytes: &[u8]) -> Result<Option<usize>, String> {
    match parsed.map_err(|error| error.to_string())? {
        Status::Complete(length) => Ok(Some(length)),
        Status::Partial if bytes.len() > LONGEST => Err("a head without an end".to_owned()),
        Status::Partial => Ok(None),
    }
}

/// Returns the first value of a field, if it is text.
pub fn field<'a>(lines: &[Header<'a>], name: &str) -> Option<&'a str> {
    let line = lines.iter().find(|line| line.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(line.value).ok()
}
