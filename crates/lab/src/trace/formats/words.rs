//! The parts of log lines: words, numbers, dates, and requests that a cache could answer.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use super::lines::{LineContent, LineResult};
use crate::trace::sink::{Fact, Facts};
use crate::trace::summary::Exclusion;

pub(super) type LineError = Cow<'static, str>;

/// The upper bound of sizes, in bytes: larger than any object, and small enough that sums over a trace do not overflow.
pub(super) const LARGEST: u64 = 1 << 40;

/// Statuses of heuristically cacheable responses (RFC 9110, section 15.1), and 304.
const KEPT: &[u16] = &[200, 203, 204, 206, 300, 301, 304, 308, 404, 405, 410, 414, 501];

/// The date of NCSA's formats, and the same with a colon in the offset.
const NCSA: [&str; 2] = ["%d/%b/%Y:%H:%M:%S%.f %z", "%d/%b/%Y:%H:%M:%S%.f %:z"];

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

/// Reads a size in bytes. Some programs write whole numbers with decimals or an exponent.
pub(super) fn size(word: &[u8]) -> Result<u64, LineError> {
    let whole = || decimal(word, 3).filter(|thousandths| thousandths % 1000 == 0).map(|size| size / 1000);
    match integer(word).or_else(whole) {
        Some(size) if size <= LARGEST => Ok(size),
        Some(size) => Err(format!("a size of {size} bytes, more than {LARGEST}").into()),
        None => Err(no("a size", word)),
    }
}

/// Reads seconds with optional decimals and exponent, and returns microseconds.
pub(super) fn seconds(word: &[u8]) -> Option<u64> {
    decimal(word, 6)
}

/// Reads a number with optional decimals and exponent, and returns it in units of 10^-`digits`, without the rest.
pub(super) fn decimal(word: &[u8], digits: u32) -> Option<u64> {
    let scale = 10u64.checked_pow(digits)?;
    if memchr::memchr2(b'e', b'E', word).is_some() {
        let begins = word.first()?.is_ascii_digit();
        let number: f64 = str::from_utf8(word).ok().filter(|_| begins)?.parse().ok()?;
        let scaled = (number * scale as f64).round();
        return (scaled < u64::MAX as f64).then_some(scaled as u64);
    }
    let (whole, decimals) = match memchr::memchr(b'.', word) {
        Some(point) => (&word[..point], &word[point + 1..]),
        None => (word, &b"0"[..]),
    };
    if decimals.is_empty() || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let kept = &decimals[..decimals.len().min(digits as usize)];
    let fraction = integer(kept).unwrap_or(0) * 10u64.pow(digits - kept.len() as u32);
    integer(whole)?.checked_mul(scale)?.checked_add(fraction)
}

/// Reads a status code; `000` means none.
pub(super) fn status(word: &[u8]) -> Result<u16, LineError> {
    let status = integer(word).filter(|status| *status < 1000);
    status.map(|status| status as u16).ok_or_else(|| no("a status", word))
}

/// Reads a time as a number or as a date, and returns microseconds of any epoch. A number that is no time of this century is
/// one of seconds.
pub(super) fn time(text: &str) -> Result<u64, LineError> {
    let text = text.trim();
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let word = text.as_bytes();
    of_this_century(word).or_else(|| seconds(word)).map_or_else(|| moment(text), Ok)
}

/// Reads a time as a number of milliseconds of any epoch, and returns microseconds.
pub(super) fn time_in_millis(word: &[u8]) -> Result<u64, LineError> {
    of_this_century(word).or_else(|| decimal(word, 3)).ok_or_else(|| no("a time", word))
}

/// Reads a number that is a time of this century: in seconds, milli-, micro- or nanoseconds since 1970, or in Windows' units of
/// 100 ns since 1601. Returns microseconds since 1970.
pub(super) fn of_this_century(word: &[u8]) -> Option<u64> {
    const CENTURY: Range<u64> = 1_000_000_000..4_100_000_000;
    const FROM_1601: u64 = 11_644_473_600;
    match decimal(word, 0)? {
        seconds if CENTURY.contains(&seconds) => decimal(word, 6),
        millis if CENTURY.contains(&(millis / 1_000)) => decimal(word, 3),
        micros if CENTURY.contains(&(micros / 1_000_000)) => Some(micros),
        nanos if CENTURY.contains(&(nanos / 1_000_000_000)) => Some(nanos / 1_000),
        ticks if CENTURY.contains(&(ticks / 10_000_000).saturating_sub(FROM_1601)) => {
            Some(ticks / 10 - FROM_1601 * 1_000_000)
        }
        _ => None,
    }
}

/// Reads a date in the format of HTTP (RFC 9110, section 5.6.7), ISO 8601 or NCSA, and returns microseconds since 1970.
/// Dates without an offset are in UTC.
pub(super) fn moment(text: &str) -> Result<u64, LineError> {
    let utc = |date: Result<DateTime, jiff::Error>| date.and_then(|date| TimeZone::UTC.to_timestamp(date));
    let ncsa = |form| strtime::parse(form, text).and_then(|parsed| parsed.to_timestamp());
    let time = match text.strip_suffix(" GMT") {
        Some(date) => utc(DateTime::strptime("%a, %d %b %Y %H:%M:%S", date)),
        None if text.as_bytes().get(2) == Some(&b'/') => match text.contains(' ') {
            true => ncsa(NCSA[0])
                .or_else(|_| ncsa(NCSA[1]))
                .or_else(|_| utc(DateTime::strptime("%d/%b/%Y %H:%M:%S", text))),
            false => utc(DateTime::strptime("%d/%b/%Y:%H:%M:%S%.f", text)),
        },
        None => {
            let date = text.strip_suffix(" UTC").unwrap_or(text);
            date.parse::<Timestamp>().or_else(|_| utc(date.parse()))
        }
    };
    time.ok().and_then(micros).ok_or_else(|| no("a date", text.as_bytes()))
}

fn micros(time: Timestamp) -> Option<u64> {
    u64::try_from(time.as_microsecond()).ok()
}

/// Reads a name in UTF-8.
pub(super) fn text(word: &[u8]) -> Result<&str, LineError> {
    str::from_utf8(word).map_err(|_| "not UTF-8".into())
}

/// Reads a text of any encoding that contains ASCII unchanged. A byte that is no UTF-8 becomes `%ff`, as in URLs.
pub(super) fn lenient(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("%{byte:02x}")));
    }
    text.into()
}

/// Returns the end of the quotation in which `text` begins. An odd number of backslashes escapes a quotation mark.
pub(super) fn closing(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'"', text).find(|&at| !is_escaped(text, at))
}

/// Whether backslashes before position `at` of `text` escape it.
pub(super) fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Undoes the escapes of access logs, such as `\xc3\xa9` for one letter. What is not text, or what an escape says that is
/// no part of a URL, becomes `%ff`.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', text).is_none() {
        return lenient(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, others @ ..] = rest {
        let (byte, after) = match (first, others) {
            (b'\\', [b'x', high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (*first, others),
            },
            (b'\\', [escaped @ (b'\\' | b'"'), after @ ..]) => (*escaped, after),
            _ => (*first, others),
        };
        // A space between the parts of a request line is not escaped.
        let is_escaped = others.len() != after.len();
        rest = after;
        match byte {
            0..=b' ' | 0x7f if is_escaped => bytes.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            _ => bytes.push(byte),
        }
    }
    lenient(&bytes).into_owned().into()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

/// Returns the cost from a response's time `micros` and from what was said of the cache: a response that was not fetched
/// has no information about it. A Cache-Status (RFC 9211) of a fetch contains `fwd`; other products have a single word,
/// such as `TCP_MISS`, and those for hits contain `hit`.
pub(super) fn cost(micros: u64, cache: &str) -> Fact<u32> {
    let micros = u32::try_from(micros).unwrap_or(u32::MAX);
    let is_hit = || {
        matches!(cache, "1" | "true")
            || cache.as_bytes().windows(3).any(|word| word.eq_ignore_ascii_case(b"hit"))
    };
    let was_fetched = cache.contains("fwd=") || !cache.contains(['=', ';', ' ']) && !is_hit();
    if was_fetched { Fact::Known(micros) } else { Fact::Guessed(0) }
}

/// Returns a request for an object identified by a number if `key` is written as one; `007` is not `7`.
pub(super) fn keyed(key: Cow<'_, str>, facts: Facts) -> LineResult<'_> {
    let plain = key == "0" || !key.starts_with('0');
    let number = integer(key.as_bytes()).filter(|_| plain);
    Ok(match number {
        Some(number) => LineContent::Number(number, facts),
        None => LineContent::Name(key, facts),
    })
}

/// Returns the error that `word` is not the expected `what`.
pub(super) fn no(what: &str, word: &[u8]) -> LineError {
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
    pub(super) fn of<'u>(&self, url: impl Into<Cow<'u, str>>) -> LineResult<'u> {
        if self.method != b"GET" {
            return Ok(LineContent::LeftOut(Exclusion::Method));
        }
        if !KEPT.contains(&self.status) {
            return Ok(LineContent::LeftOut(Exclusion::Status(self.status)));
        }
        let size = match self.status {
            206 => Fact::Guessed(self.bytes),
            304 => Fact::Guessed(0),
            _ => Fact::Known(self.bytes),
        };
        Ok(LineContent::Name(
            url.into(),
            Facts { time: self.time, size, cost: self.cost, client: self.client },
        ))
    }
}
