//! The common log format of NCSA, the combined one, and both with the virtual host before them:
//! `[host:port] client ident user [date] "METHOD target HTTP/x" status bytes ["referer" "agent" ...]`.

use memchr::memchr;

use super::larder;
use super::lines::{Parsed, Said};
use super::words::{Access, Wrong, date, size, status, text, word};
use crate::trace::sink::{Fact, client};

const DATE: &str = "%d/%b/%Y:%H:%M:%S %z";

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    if larder::announces(line) {
        return Ok(Said::Nothing);
    }
    let (before, rest) = split(line, b'[').ok_or("no date in brackets")?;
    let (time, rest) = split(rest, b']').ok_or("no date in brackets")?;
    let time = date(DATE, time)?;
    let (_, rest) = split(rest, b'"').ok_or("no request in quotation marks")?;
    let end = closing(rest).ok_or("no request in quotation marks")?;
    let (request, mut rest) = (&rest[..end], &rest[end + 1..]);
    let status = status(word(&mut rest).ok_or("no status")?)?;
    let bytes = match word(&mut rest).ok_or("no size")? {
        b"-" => 0,
        bytes => size(bytes)?,
    };
    // The status of invalid requests excludes them later.
    let mut request = request;
    let method = word(&mut request).unwrap_or_default();
    let target = text(word(&mut request).unwrap_or(b"-"))?;
    let (host, client) = parties(before)?;
    let access = Access { method, status, time, bytes, cost: Fact::Known(0), client };
    match host {
        Some(host) if target.starts_with('/') => access.of(format!("{host}{target}")),
        _ => access.of(target),
    }
}

/// Returns the virtual host, if the words before the date begin with one, and the client.
fn parties(mut before: &[u8]) -> Result<(Option<&str>, u32), Wrong> {
    let (first, mut others) = (word(&mut before).unwrap_or_default(), before);
    let named = others.trim_ascii().split(|byte| *byte == b' ').count() == 3 && first.contains(&b':');
    match named {
        true => Ok((Some(text(first)?), client(word(&mut others).unwrap_or_default()))),
        false => Ok((None, client(first))),
    }
}

/// Returns the text before and after the first `mark`.
fn split(text: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr(mark, text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Returns the end of the quotation in which `text` begins. A backslash escapes a quotation mark.
fn closing(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'"', text).find(|&at| at == 0 || text[at - 1] != b'\\')
}
