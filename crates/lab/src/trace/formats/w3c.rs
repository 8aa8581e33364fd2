//! The extended log file format of the W3C, as IIS and CloudFront write it: lines that begin with `#`, one of which,
//! `#Fields: date time cs-method ...`, names the fields of the lines below it. Spaces or tabs separate them.

use std::io::Read;

use super::fields::Fields;
use super::lines::{LineResult, Lines, put};
use super::names::{Field, meaning};
use super::words::text;
use super::{Fault, words};
use crate::trace::sink::Sink;

const FIELDS: &[u8] = b"#Fields:";

/// Whether a line of `head` names fields.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| line.starts_with(FIELDS))
}

pub(super) fn read(input: impl Read, sink: &mut Sink) -> Result<(), Fault> {
    let (mut lines, mut columns) = (Lines::new(input), Vec::new());
    while let Some((number, line)) = lines.next()? {
        match line.strip_prefix(FIELDS) {
            Some(names) => columns = fields(names),
            None if line.starts_with(b"#") => {}
            None if columns.is_empty() => sink.broken(number, || "no line '#Fields:' before it".to_owned()),
            None => put(sink, number, parse(&columns, line))?,
        }
    }
    Ok(())
}

/// Returns the fields with these names. CloudFront also writes the host of the distribution, which is the same for all
/// sites that it serves.
fn fields(names: &[u8]) -> Vec<Field> {
    let names = String::from_utf8_lossy(names);
    let has_site = names.contains("x-host-header");
    let field = |name| if has_site && name == "cs(Host)" { Field::Ignored } else { meaning(name) };
    names.split_ascii_whitespace().map(field).collect()
}

/// Returns the request in a line with these columns, which tabs separate, or otherwise any number of spaces.
pub(super) fn parse<'l>(columns: &[Field], line: &'l [u8]) -> LineResult<'l> {
    let mut fields = Fields::default();
    let mut put = |field: &Field, value| -> Result<(), words::LineError> {
        if *field != Field::Ignored {
            fields.put(*field, text(value)?);
        }
        Ok(())
    };
    if line.contains(&b'\t') {
        columns
            .iter()
            .zip(line.split(|byte| *byte == b'\t'))
            .try_for_each(|(field, value)| put(field, value))?;
    } else {
        let mut rest = line;
        columns
            .iter()
            .map_while(|field| Some((field, words::word(&mut rest)?)))
            .try_for_each(|(field, value)| put(field, value))?;
    }
    fields.request()
}
