//! The traces of the ARC paper (`.lis`): `first-block count ignored number`, each a run of requests for blocks.

use super::lines::{Parsed, Said};
use super::words::{integer, no, word};

/// The maximum number of blocks in one request.
const LONGEST: u64 = 1 << 20;

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    let mut rest = line.trim_ascii_end();
    let mut numbers = [0; 4];
    for number in &mut numbers {
        let word = word(&mut rest).ok_or("fewer than 4 numbers")?;
        *number = integer(word).ok_or_else(|| no("a number", word))?;
    }
    let [first, count, ..] = numbers;
    if !rest.is_empty() {
        return Err("more than 4 numbers".into());
    }
    if count == 0 || count > LONGEST {
        return Err(format!("a run of {count} blocks, not 1 to {LONGEST}").into());
    }
    let end = first.checked_add(count).ok_or("blocks beyond the last number")?;
    Ok(Said::Run(first..end))
}
