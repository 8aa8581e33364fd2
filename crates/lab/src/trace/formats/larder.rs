//! Larder's own access log as text: `date client method URL status 123B 45us cache-status`. Older logs have dates in
//! the format of HTTP.
//!
//! A JSON log is read like other JSON lines.

use std::borrow::Cow;

use super::lines::LineResult;
use super::words::{Access, cost, integer, moment, no, size, status, text, word};
use crate::trace::sink::client;

/// The length of a date in the format of HTTP.
const DATE: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();

/// The starts of lines that `larder serve` writes to the same output before its first request.
const ANNOUNCEMENTS: [&[u8]; 4] = [b"listening on ", b"admin on http://", b"statistics in ", b"try: "];

pub(super) fn parse(line: &[u8]) -> LineResult<'_> {
    let is_http = line.get(3) == Some(&b',');
    let length = if is_http { DATE } else { memchr::memchr(b' ', line).unwrap_or(line.len()) };
    let (date, mut rest) = line.split_at_checked(length).ok_or("no date")?;
    let time = moment(text(date)?)?;
    let mut next = || word(&mut rest).ok_or("too few words for a line of Larder's log");
    let client = client(next()?);
    let (method, url) = (next()?, text(next()?)?);
    let mut number = next()?;
    if number == b"*" {
        // The target of OPTIONS for the whole server.
        number = next()?;
    }
    let status = status(number)?;
    let (bytes, micros) = (next()?, next()?);
    let bytes = size(bytes.strip_suffix(b"B").ok_or_else(|| no("a size", bytes))?)?;
    let number = micros.strip_suffix(b"us").and_then(integer).ok_or_else(|| no("a duration", micros))?;
    let cost = cost(number, &String::from_utf8_lossy(rest));
    Access { method, status, time, bytes, cost, client }.of(Cow::Borrowed(url))
}

/// Whether `line` precedes the log.
pub(super) fn announces(line: &[u8]) -> bool {
    ANNOUNCEMENTS.iter().any(|beginning| line.starts_with(beginning))
}
