//! A list of keys, one per line: numbers, or names such as URLs. There are no sizes and no times.

use super::TRIED;
use super::csv::is_table;
use super::lines::LineResult;
use super::words::{integer, keyed, lenient};
use crate::trace::sink::Facts;
use crate::trace::verdict::Verdict;

/// Judges whether the lines of `head` are keys.
pub(in crate::trace) fn judge(head: &[u8]) -> Verdict {
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.take(TRIED).collect();
    let spaced = lines.iter().filter(|line| line.contains(&b' ') || line.contains(&b'\t')).count();
    // No URL has a bar, which separates columns.
    let is_address = |line: &&[u8]| {
        (line.starts_with(b"/") || memchr::memmem::find(line, b"://").is_some()) && !line.contains(&b'|')
    };
    let are_clear = lines.iter().all(|line| is_address(line) || integer(line).is_some());
    if spaced * 10 > lines.len() {
        return Verdict::Doubt(
            "its lines have no known form; describe them by --log-format, such as '%h %t \"%r\" %>s %b', or by --columns; \
             with --format plain, each line is a key"
                .to_owned(),
        );
    }
    match () {
        () if are_clear => Verdict::Sure,
        () if is_table(head) => Verdict::Doubt(
            "its lines look like rows of a table; name the columns, as --columns time,key,size; with --format plain, each \
             line is a key"
                .to_owned(),
        ),
        () => Verdict::Guess("each line is taken as a key".to_owned()),
    }
}

pub(super) fn parse(line: &[u8]) -> LineResult<'_> {
    keyed(lenient(line.trim_ascii()), Facts::NONE)
}
