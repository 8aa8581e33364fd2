//! Squid's native access.log: `time elapsed client result/status bytes method URL user hierarchy/peer type`.

use super::larder;
use super::lines::{Parsed, Said};
use super::words::{Access, no, seconds, size, status, text, word};
use crate::trace::sink::{Fact, client};

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    if larder::announces(line) {
        return Ok(Said::Nothing);
    }
    let mut rest = line;
    let mut next = || word(&mut rest).ok_or("too few words for a line of Squid's log");
    let time = next()?;
    let time = seconds(time).ok_or_else(|| no("a time in seconds", time))?;
    let elapsed = next()?;
    let elapsed = super::words::integer(elapsed).ok_or_else(|| no("a duration", elapsed))?;
    let client = client(next()?);
    let outcome = next()?;
    let slash = memchr::memchr(b'/', outcome).ok_or_else(|| no("a result and a status", outcome))?;
    let (result, status) = (&outcome[..slash], status(&outcome[slash + 1..])?);
    let bytes = size(next()?)?;
    let (method, url) = (next()?, text(next()?)?);
    let micros = u32::try_from(elapsed.saturating_mul(1000)).unwrap_or(u32::MAX);
    // A hit has no fetch cost.
    let hit = memchr::memmem::find(result, b"HIT").is_some();
    let cost = if hit { Fact::Guessed(0) } else { Fact::Known(micros) };
    Access { method, status, time, bytes, cost, client }.of(url)
}
