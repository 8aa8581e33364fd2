//! The parts of log lines: words, numbers, dates, and requests that a cache could answer.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use super::lines::{Parsed, Said};
use crate::trace::read::LeftOut;
use crate::trace::sink::{Fact, Facts};

/// The error in a line.
pub(super) type Wrong = Cow<'static, str>;

/// The upper bound of sizes, in bytes: larger than any object, and small enough that sums over a trace do not overflow.
const LARGEST: u64 = 1 << 40;

/// Statuses of heuristically cacheable responses (RFC 9110, section 15.1), and 304.
const KEPT: &[u16] = &[200, 203, 204, 206, 300, 301, 304, 308, 404, 405, 410, 414, 501];

/// Returns the next word of `line`, and advances `line` past it. Spaces separate words.
pub(super) fn word<'l>(line: &mut &'l [u8]) -> Option<&'l [u8]> {
    let text = line.trim_ascii_start();
    let end = memchr::memchr(b' ', text).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    *line = rest;
    (!word.is_empty()).then_some(word)
}

/// Reads a whole number that consists only of digits.
pub(super) fn integer(word: &[u8]) -> Option<u64> {
    let digit = |sum: u64, byte: &u8| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        sum.checked_mul(10)?.checked_add(digit.into())
    };
    if word.is_empty() { None } else { word.iter().try_fold(0, digit) }
}

/// Reads a size in bytes.
pub(super) fn size(word: &[u8]) -> Result<u64, Wrong> {
    match integer(word) {
        Some(size) if size <= LARGEST => Ok(size),
        Some(size) => Err(format!("a size of {size} bytes, more than {LARGEST}").into()),
        None => Err(no("a size", word)),
    }
}

/// Reads seconds with optional decimals, and returns microseconds.
pub(super) fn seconds(word: &[u8]) -> Option<u64> {
    let (whole, decimals) = match memchr::memchr(b'.', word) {
        Some(point) => (&word[..point], &word[point + 1..]),
        None => (word, &b"0"[..]),
    };
    let kept = &decimals[..decimals.len().min(6)];
    let micros = integer(kept)? * 10u64.pow(6 - kept.len() as u32);
    integer(whole)?.checked_mul(1_000_000)?.checked_add(micros)
}

/// Reads a status code; `000` means none.
pub(super) fn status(word: &[u8]) -> Result<u16, Wrong> {
    let status = integer(word).filter(|status| *status < 1000);
    status.map(|status| status as u16).ok_or_else(|| no("a status", word))
}

/// Reads a date with offset in the format `pattern`, and returns microseconds since 1970.
pub(super) fn date(pattern: &str, text: &[u8]) -> Result<u64, Wrong> {
    let time = strtime::parse(pattern, text).and_then(|parsed| parsed.to_timestamp());
    time.ok().and_then(micros).ok_or_else(|| no("a date", text))
}

/// Reads a date in the format of HTTP (RFC 9110, section 5.6.7) or ISO 8601, and returns microseconds since 1970.
pub(super) fn moment(text: &str) -> Result<u64, Wrong> {
    let time = match text.strip_suffix(" GMT") {
        Some(date) => {
            let date: Result<DateTime, _> = DateTime::strptime("%a, %d %b %Y %H:%M:%S", date);
            date.and_then(|date| TimeZone::UTC.to_timestamp(date))
        }
        None => text.parse::<Timestamp>(),
    };
    time.ok().and_then(micros).ok_or_else(|| no("a date", text.as_bytes()))
}

fn micros(time: Timestamp) -> Option<u64> {
    u64::try_from(time.as_microsecond()).ok()
}

/// Reads a name in UTF-8.
pub(super) fn text(word: &[u8]) -> Result<&str, Wrong> {
    str::from_utf8(word).map_err(|_| "not UTF-8".into())
}

/// Returns the error that `word` is not the expected `what`.
pub(super) fn no(what: &str, word: &[u8]) -> Wrong {
    let shown = String::from_utf8_lossy(&word[..word.len().min(40)]);
    format!("'{}' is not {what}", shown.escape_debug()).into()
}

/// A line of an access log.
pub(super) struct Access<'l> {
    pub(super) method: &'l [u8],
    pub(super) status: u16,
    /// The time in microseconds since 1970.
    pub(super) time: u64,
    /// The length of the response, in bytes.
    pub(super) bytes: u64,
    /// The cost in microseconds.
    pub(super) cost: Fact<u32>,
    /// A hash of the client; 0 if the line has none.
    pub(super) client: u32,
}

impl Access<'_> {
    /// Returns the request for `url`, or the reason why it is excluded. A 206 and a 304 do not give the size of the
    /// object.
    pub(super) fn of<'u>(&self, url: impl Into<Cow<'u, str>>) -> Parsed<'u> {
        if self.method != b"GET" {
            return Ok(Said::LeftOut(LeftOut::Method));
        }
        if !KEPT.contains(&self.status) {
            return Ok(Said::LeftOut(LeftOut::Status(self.status)));
        }
        let size = match self.status {
            206 => Fact::Guessed(self.bytes),
            304 => Fact::Guessed(0),
            _ => Fact::Known(self.bytes),
        };
        Ok(Said::Name(url.into(), Facts { time: self.time, size, cost: self.cost, client: self.client }))
    }
}
