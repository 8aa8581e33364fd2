//! The traces of the ARC paper (`.lis`): `first-block count ignored number`, each a run of requests for blocks.

use super::TRIED;
use super::lines::{LineContent, LineResult};
use super::words::{LineError, integer, no, word};

/// The maximum number of blocks in one request.
const LONGEST: u64 = 1 << 20;

/// Whether `head` begins with such lines: the third number is 0, and the fourth counts the lines. Other traces also have
/// four numbers a line.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let numbers: Option<Vec<_>> = lines.take(TRIED).map(|line| numbers(line).ok()).collect();
    let Some(numbers) = numbers else { return false };
    let counts = |pair: &[[u64; 4]]| pair[0][3].checked_add(1) == Some(pair[1][3]);
    !numbers.is_empty() && numbers.iter().all(|line| line[2] == 0) && numbers.windows(2).all(counts)
}

pub(super) fn parse(line: &[u8]) -> LineResult<'_> {
    let [first, count, ..] = numbers(line)?;
    if count == 0 || count > LONGEST {
        return Err(format!("a run of {count} blocks, not 1 to {LONGEST}").into());
    }
    let end = first.checked_add(count).ok_or("blocks beyond the last number")?;
    Ok(LineContent::Run(first..end))
}

fn numbers(line: &[u8]) -> Result<[u64; 4], LineError> {
    let mut rest = line.trim_ascii_end();
    let mut numbers = [0; 4];
    for number in &mut numbers {
        let word = word(&mut rest).ok_or("fewer than 4 numbers")?;
        *number = integer(word).ok_or_else(|| no("a number", word))?;
    }
    if rest.is_empty() { Ok(numbers) } else { Err("more than 4 numbers".into()) }
}
