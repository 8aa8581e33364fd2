//! The common log format of NCSA, the combined one, and both with the virtual host before them:
//! `[host[:port]] client ident user [date] "METHOD target HTTP/x" status bytes ["referer" "agent" ...]`.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use super::lines::LineResult;
use super::words::{Access, LineError, closing, is_escaped, moment, size, status, text, unescape, word};
use crate::trace::sink::{Fact, client};

pub(super) fn parse(line: &[u8]) -> LineResult<'_> {
    let (before, rest) = split(line, b'[').ok_or("no date in brackets")?;
    let (time, rest) = split(rest, b']').ok_or("no date in brackets")?;
    let time = moment(text(time)?)?;
    let (_, rest) = split(rest, b'"').ok_or("no request in quotation marks")?;
    let end = request_end(rest).ok_or("no request in quotation marks")?;
    let (mut request, mut rest) = (&rest[..end], &rest[end + 1..]);
    let status = status(word(&mut rest).ok_or("no status")?)?;
    let bytes = match word(&mut rest).ok_or("no size")? {
        b"-" => 0,
        bytes => size(bytes)?,
    };
    // The status of invalid requests excludes them later.
    let method = word(&mut request).unwrap_or_default();
    let target = unescape(text(word(&mut request).unwrap_or(b"-"))?);
    let (host, client) = parties(before)?;
    let access = Access { method, status, time, bytes, cost: Fact::Known(0), client };
    access.of(match host {
        Some(host) if target.starts_with('/') => Cow::Owned(format!("{host}{target}")),
        _ => target,
    })
}

/// Returns the virtual host, if the words before the date begin with one, and the client. Four words are `host client
/// ident user`, or `client ident user` with a space in the user's name: then the second one is `-`, since clients send
/// no identity today.
fn parties(mut before: &[u8]) -> Result<(Option<&str>, u32), LineError> {
    let mut next = || word(&mut before).unwrap_or_default();
    let (first, second, _) = (next(), next(), next());
    let has_host = !next().is_empty() && second != b"-";
    if has_host { Ok((Some(text(first)?), client(second))) } else { Ok((None, client(first))) }
}

/// Returns the text before and after the first `mark`.
fn split(text: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr(mark, text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Returns the end of the request in quotation marks in which `text` begins. If a request ends in a backslash that its
/// server does not escape, the mark seems to be escaped; the status after it shows that it is the end.
fn request_end(text: &[u8]) -> Option<usize> {
    let status_follows = |at: &usize| {
        let code = text[at + 1..].strip_prefix(b" ").and_then(|rest| rest.split_first_chunk::<4>());
        code.is_some_and(|([digits @ .., space], _)| digits.iter().all(u8::is_ascii_digit) && *space == b' ')
    };
    let end = closing(text);
    if end.is_some_and(|end| status_follows(&end)) {
        return end;
    }
    let unescaped = memchr_iter(b'"', text).find(|at| is_escaped(text, *at) && status_follows(at));
    unescaped.or(end)
}
