//! The output of `larder workload`: `time method path size cost [body]`, below lines that begin with `#`.

use super::lines::{Parsed, Said};
use super::words::{integer, no, size, text, word};
use crate::trace::read::LeftOut;
use crate::trace::sink::{Fact, Facts};

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    if line.starts_with(b"#") {
        return Ok(Said::Nothing);
    }
    let mut rest = line;
    let mut next = || word(&mut rest).ok_or("too few words for a line of a workload");
    let time = next()?;
    let time = integer(time).ok_or_else(|| no("a time in microseconds", time))?;
    let (method, path) = (next()?, text(next()?)?);
    let bytes = size(next()?)?;
    let cost = next()?;
    let cost = integer(cost).and_then(|cost| u32::try_from(cost).ok()).ok_or_else(|| no("a cost", cost))?;
    if method != b"GET" {
        return Ok(Said::LeftOut(LeftOut::Method));
    }
    let facts = Facts { time, size: Fact::Known(bytes), cost: Fact::Known(cost) };
    Ok(Said::Name(path.into(), facts))
}

/// Whether a file that begins with `head` is one.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    head.starts_with(crate::workload::MARK.as_bytes())
}
