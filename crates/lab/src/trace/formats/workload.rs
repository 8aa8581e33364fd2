//! The output of `larder workload`: `time method path size cost [body]`, after lines that begin with `#`. A line
//! `+Name: value` adds a field to the preceding request.

use std::io::Read;

use larder_load::{More, RequestCollector, Requests};

use super::Fault;
use super::lines::{LineContent, LineResult, Lines};
use super::words::{LineError, integer, no, size, text, word};
use crate::trace::input::LONGEST;
use crate::trace::sink::{Fact, Facts};
use crate::trace::summary::{Exclusion, ReadSummary};

/// The start of a workload's file.
pub(crate) const WORKLOAD_MARK: &str = "# larder workload 1";

/// A line with a request.
struct Line<'l> {
    facts: Facts,
    method: &'l [u8],
    path: &'l str,
    /// The rest of the line: the body.
    rest: &'l [u8],
}

pub(super) fn parse(line: &[u8]) -> LineResult<'_> {
    if matches!(line.first(), Some(b'#' | b'+')) {
        return Ok(LineContent::Nothing);
    }
    let Line { facts, method, path, .. } = request(line)?;
    if method != b"GET" {
        return Ok(LineContent::LeftOut(Exclusion::Method));
    }
    Ok(LineContent::Name(path.into(), facts))
}

fn request(line: &[u8]) -> Result<Line<'_>, LineError> {
    let mut rest = line;
    let mut next = || word(&mut rest).ok_or("too few words for a line of a workload");
    let time = next()?;
    let time = integer(time).ok_or_else(|| no("a time in microseconds", time))?;
    let (method, path) = (next()?, text(next()?)?);
    let bytes = size(next()?)?;
    let cost = next()?;
    let cost = integer(cost).and_then(|cost| u32::try_from(cost).ok()).ok_or_else(|| no("a cost", cost))?;
    Ok(Line {
        facts: Facts { time, size: Fact::Known(bytes), cost: Fact::Known(cost), ..Facts::NONE },
        method,
        path,
        rest,
    })
}

/// Returns all requests with their fields and bodies; broken lines are counted in `reading`.
pub(in crate::trace) fn requests(input: impl Read, reading: &mut ReadSummary) -> Result<Requests, Fault> {
    let (mut lines, mut gather) = (Lines::new(input), RequestCollector::default());
    while let Some((number, line)) = lines.next()? {
        let added = match line {
            [b'#', ..] => continue,
            _ if line.len() >= LONGEST => Err(format!("longer than {LONGEST} bytes").into()),
            [b'+', field @ ..] => add_field(&mut gather, field),
            _ => add(&mut gather, line).map(|()| reading.requests += 1),
        };
        if let Err(why) = added {
            reading.note_broken(number, || why.into_owned());
        }
    }
    reading.kept = reading.requests;
    Ok(gather.requests)
}

fn add(gather: &mut RequestCollector, line: &[u8]) -> Result<(), LineError> {
    let Line { method, path, rest, .. } = request(line)?;
    if !method.iter().copied().all(is_of_token) {
        return Err(no("a method", method));
    }
    let body = text(rest.strip_prefix(b" ").unwrap_or(rest))?.to_owned();
    gather.push(path, More { method: text(method)?.to_owned(), fields: Vec::new(), body });
    Ok(())
}

fn add_field(gather: &mut RequestCollector, line: &[u8]) -> Result<(), LineError> {
    let (name, value) = text(line)?.split_once(':').ok_or("a field without a colon")?;
    let is_sound =
        !name.is_empty() && name.bytes().all(is_of_token) && !value.contains(|c: char| c.is_control());
    match is_sound && gather.add_field(name, value.trim()) {
        true => Ok(()),
        false if is_sound => Err("a field before any request".into()),
        false => Err(no("a field", line)),
    }
}

/// Whether a method or a field's name may contain `byte` (RFC 9110, section 5.6.2).
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a file that begins with `head` is a workload.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    head.starts_with(WORKLOAD_MARK.as_bytes())
}
