//! Values separated by commas, `;`, `|` or tabs, with or without a line of names.
//!
//! Without names, three or more columns are time, key and size, as usual for libCacheSim; two are key and size.

use std::io::Read;

use csv::{ByteRecord, ReaderBuilder, Trim};

use super::fields::{Field, Fields};
use super::lines::{Parsed, Said};
use super::words::text;
use super::{Fault, lines};
use crate::trace::sink::Sink;

const DELIMITERS: [u8; 4] = *b",;\t|";

/// The layout of a file of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::trace) struct Layout {
    delimiter: u8,
    columns: Vec<Field>,
    /// Whether the first line names the columns.
    names: bool,
}

impl Layout {
    /// Returns the layout of a file that begins with `head`, or `None` if no column of it is a key. `columns` defines
    /// the columns if the file does not.
    pub(in crate::trace) fn guess(head: &[u8], columns: &[Field]) -> Option<Self> {
        let first = head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty())?;
        let first = text(first.trim_ascii_end()).ok()?;
        let count = |delimiter: &&u8| first.bytes().filter(|byte| byte == *delimiter).count();
        let delimiter = *DELIMITERS.iter().rev().max_by_key(count)?;
        let words: Vec<_> =
            first.split(char::from(delimiter)).map(|word| word.trim().trim_matches('"')).collect();
        let named: Vec<_> = words.iter().map(|word| Field::named(word)).collect();
        let names = named.contains(&Field::Key);
        let columns = match (columns, words.len()) {
            ([_, ..], _) => columns.to_vec(),
            (_, 0..2) => return None,
            _ if names => named,
            (_, 2) => vec![Field::Key, Field::Size],
            _ => vec![Field::Time, Field::Key, Field::Size],
        };
        Some(Self { delimiter, columns, names })
    }

    /// Whether the first line of `head` names the columns, or most of the lines have this layout.
    pub(in crate::trace) fn fits(&self, head: &[u8]) -> bool {
        let lines = head.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).skip(self.names.into());
        let (mut good, mut all) = (0, 0);
        for line in lines.take(super::TRIED) {
            let mut fields = Fields::default();
            for (field, word) in self.columns.iter().zip(line.split(|byte| *byte == self.delimiter)) {
                fields.put(*field, String::from_utf8_lossy(word.trim_ascii()));
            }
            all += 1;
            good += usize::from(fields.request().is_ok());
        }
        self.names || good * 2 > all
    }

    pub(super) fn read(&self, input: impl Read, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let mut reader = ReaderBuilder::new()
            .delimiter(self.delimiter)
            .has_headers(self.names)
            .flexible(true)
            .trim(Trim::All)
            .from_reader(input);
        let mut record = ByteRecord::new();
        loop {
            match reader.read_byte_record(&mut record) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(fault(error)),
            }
            let number = record.position().map_or(0, csv::Position::line);
            lines::put(sink, number, self.parse(&record))?;
        }
    }

    fn parse<'l>(&self, record: &'l ByteRecord) -> Parsed<'l> {
        if record.iter().all(<[u8]>::is_empty) {
            return Ok(Said::Nothing);
        }
        let mut fields = Fields::default();
        for (field, word) in self.columns.iter().zip(record) {
            if *field != Field::Ignored && !word.is_empty() {
                fields.put(*field, text(word)?);
            }
        }
        fields.request()
    }
}

/// Whether the first line of `head` has delimiters, and most lines have the same number of them.
pub(in crate::trace) fn is_table(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let Some(first) = lines.next() else { return false };
    let counts = |line: &[u8]| DELIMITERS.map(|delimiter| memchr::memchr_iter(delimiter, line).count());
    let (expected, lines) = (counts(first), lines.take(super::TRIED).collect::<Vec<_>>());
    let alike = lines.iter().filter(|line| counts(line) == expected).count();
    lines.len() > 1 && alike * 2 > lines.len() && expected.iter().any(|count| *count > 0)
}

fn fault(error: csv::Error) -> Fault {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Fault::Io(error),
        other => Fault::Bad(format!("{other:?}")),
    }
}
