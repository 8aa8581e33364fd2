//! The common log format of NCSA, the combined one, and both with the virtual host before them:
//! `[host[:port]] client ident user [date] "METHOD target HTTP/x" status bytes ["referer" "agent" ...]`.

use std::borrow::Cow;
use std::net::IpAddr;

use memchr::{memchr, memchr_iter};

use super::fields::request_line;
use super::lines::LineResult;
use super::words::{
    Access, LineError, closing, integer, is_escaped, moment, size, status, text, unescape, word,
};
use crate::trace::sink::{Fact, client};

pub(super) fn parse(line: &[u8]) -> LineResult<'_> {
    let (before, time, rest) = date(line)?;
    let (_, rest) = split(rest, b'"').ok_or("no request in quotation marks")?;
    let end = request_end(rest).ok_or("no request in quotation marks")?;
    let request = unescape(&rest[..end]);
    let mut rest = &rest[end + 1..];
    let status = status(word(&mut rest).ok_or("no status")?)?;
    let bytes = match word(&mut rest).ok_or("no size")? {
        b"-" => of_nexus(rest).unwrap_or(0),
        bytes => size(bytes)?,
    };
    // The status of invalid requests excludes them later.
    let (method, target) = request_line(&request);
    let (host, client) = parties(before)?;
    let access = Access { method: method.as_bytes(), status, time, bytes, cost: Fact::Known(0), client };
    let key = match (host, &request) {
        (Some(host), _) if target.starts_with('/') => Cow::Owned(format!("{host}{target}")),
        (_, Cow::Borrowed(request)) => request_line(request).1.into(),
        _ => Cow::Owned(target.to_owned()),
    };
    access.of(key)
}

/// Returns the text before the date in brackets, the date, and the text after it. An address of a virtual host may be in
/// brackets, too.
fn date(line: &[u8]) -> Result<(&[u8], u64, &[u8]), LineError> {
    let mut why: LineError = "no date in brackets".into();
    for at in memchr_iter(b'[', line) {
        let Some((time, rest)) = split(&line[at + 1..], b']') else { break };
        match text(time).and_then(moment) {
            Ok(time) => return Ok((&line[..at], time, rest)),
            Err(error) => why = error,
        }
        // Brackets after the date belong to the request.
        if memchr(b'"', &line[..at]).is_some() {
            break;
        }
    }
    Err(why)
}

/// Returns the virtual host, if the words before the date name one, and the client. Four words are `host client
/// ident user`, or `client ident user` with a space in the user's name: then the second one is `-`, since clients send
/// no identity today. So Lighttpd writes the host in its place: `client host user`. The addresses that a request was
/// forwarded for, separated by commas, stand for one client. A time before all else is that of a program that collects
/// logs.
fn parties(mut before: &[u8]) -> Result<(Option<&str>, u32), LineError> {
    // Envoy writes such lines, with other numbers after the status.
    if before.trim_ascii().is_empty() {
        return Err("no client before the date".into());
    }
    if before.starts_with(b"{") {
        return Err("an object, not a line".into());
    }
    // OpenLiteSpeed writes a quotation mark before the line.
    before = before.strip_prefix(b"\"").unwrap_or(before);
    let mut next = || word(&mut before).unwrap_or_default();
    let first = next();
    let mut last = first;
    while last.ends_with(b",") {
        last = next();
    }
    let (second, third, fourth, fifth) = (next(), next(), next(), next());
    match () {
        () if first.ends_with(b",") => Ok((None, client(&first[..first.len() - 1]))),
        () if fourth.is_empty() && is_host(second) => Ok((Some(text(second)?), client(first))),
        () if second == b"-" || fourth.is_empty() => Ok((None, client(first))),
        () if first.ends_with(b":") || !fifth.is_empty() && third != b"-" => {
            Err("other words before the client's address".into())
        }
        () if first.get(10) == Some(&b'T') && moment(text(first)?).is_ok() => Ok((None, client(second))),
        () => Ok((Some(text(first)?), client(second))),
    }
}

/// Returns the size in a line of Nexus, which has the length of the request before it: `- 1234 12 "agent" [thread]`.
fn of_nexus(mut rest: &[u8]) -> Option<u64> {
    let (bytes, millis) = (word(&mut rest)?, word(&mut rest)?);
    let has_thread = rest.ends_with(b"]") && rest.trim_ascii_start().starts_with(b"\"");
    integer(millis).filter(|_| has_thread).and_then(|_| integer(bytes))
}

/// Whether `word`, in the place of an identity, is the name of a host.
fn is_host(word: &[u8]) -> bool {
    let name = str::from_utf8(word).unwrap_or_default();
    name.contains('.') && !name.contains('@') && name.parse::<IpAddr>().is_err()
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
