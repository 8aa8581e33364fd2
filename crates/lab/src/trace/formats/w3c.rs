//! The extended log file format of the W3C, as IIS and CloudFront write it: lines that begin with `#`, one of which,
//! `#Fields: date time cs-method ...`, names the fields of the lines below it. Spaces or tabs separate them.

use std::io::Read;

use super::fields::Fields;
use super::lines::{LineResult, Lines, put};
use super::names::{Field, meaning};
use super::words::lenient;
use super::{Fault, words};
use crate::trace::sink::Sink;

const FIELDS: &[u8] = b"#Fields:";

/// The start of the line with the date of the lines below it, which need not repeat it.
const DATE: &[u8] = b"#Date:";

/// Whether a line of `head` names fields.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| line.starts_with(FIELDS))
}

pub(super) fn read(input: impl Read, sink: &mut Sink) -> Result<(), Fault> {
    let (mut lines, mut columns) = (Lines::new(input), Vec::new());
    let mut day = String::new();
    while let Some((number, line)) = lines.next()? {
        match line.strip_prefix(FIELDS) {
            Some(names) => columns = fields(names),
            None if line.starts_with(b"#") => {
                let date = line.strip_prefix(DATE).and_then(|mut date| words::word(&mut date));
                day = date.map_or(day, |date| lenient(date).into_owned());
            }
            None if columns.is_empty() => sink.broken(number, || "no line '#Fields:' before it".to_owned()),
            None => put(sink, number, parse(&columns, line, &day))?,
        }
    }
    Ok(())
}

fn fields(names: &[u8]) -> Vec<Field> {
    String::from_utf8_lossy(names).split_ascii_whitespace().map(meaning).collect()
}

/// Returns the request in a line with these columns, which tabs separate, or otherwise any number of spaces outside
/// quotation marks. `day` is the date of a line without one.
pub(super) fn parse<'l>(columns: &[Field], line: &'l [u8], day: &'l str) -> LineResult<'l> {
    let mut fields = Fields::default();
    let mut put = |field: &Field, value| fields.put(*field, lenient(value));
    if line.contains(&b'\t') {
        columns.iter().zip(line.split(|byte| *byte == b'\t')).for_each(|(field, value)| put(field, value));
    } else {
        let mut rest = line;
        for field in columns {
            let Some(value) = value(&mut rest) else { break };
            put(field, value);
        }
    }
    fields.put(Field::Date, day);
    fields.request()
}

/// Returns the next value of `line`, without quotation marks around it, and advances `line` past it.
fn value<'l>(line: &mut &'l [u8]) -> Option<&'l [u8]> {
    let quoted = line.trim_ascii_start().strip_prefix(b"\"");
    let Some((quoted, end)) = quoted.and_then(|text| Some((text, words::closing(text)?))) else {
        return words::word(line);
    };
    *line = &quoted[end + 1..];
    Some(&quoted[..end])
}
