//! Values separated by commas, `;`, `|`, tabs or spaces, with or without a line of names, which may be a comment.
//!
//! Without names, three or more columns are time, key and size, as usual for libCacheSim; two are key and size. That is a
//! guess, which [`Layout::judge`] compares with the values.

use std::io::Read;

use csv::{ByteRecord, ReaderBuilder, Trim};

use super::fields::Fields;
use super::lines::{LineContent, LineResult, Lines, put};
use super::names::{Field, meaning, twitter};
use super::words::{decimal, lenient, of_this_century};
use super::{Fault, TRIED, w3c};
use crate::trace::sink::Sink;
use crate::trace::summary::Exclusion;
use crate::trace::verdict::Verdict;

const DELIMITERS: [u8; 4] = *b",;\t|";

/// A byte that is in no key, as the delimiter of a single column: ASCII's unit separator.
const NO_DELIMITER: u8 = 0x1f;

/// The number of rows from which on two columns may be doubted.
const ENOUGH: usize = 8;

/// Words for the operations of caches and disks; first those of [`OF_TWITTER`].
const OPERATIONS: [&[u8]; 16] = [
    b"get", b"gets", b"set", b"add", b"replace", b"cas", b"append", b"prepend", b"delete", b"incr", b"decr",
    b"put", b"read", b"write", b"r", b"w",
];

/// The number of operations in Twitter's traces.
const OF_TWITTER: usize = 11;

const OPERATIONS_WITHOUT_NAMES: &str = "a column has operations, such as write, and no column has a name; name them, as \
     --columns time,key,size,operation, by the trace that they are of, as --columns msr, or, for a log, by --log-format";

const SIZES_WITHOUT_NAME: &str = "no name in its first line is known as that of the size, so that all objects are alike; if a column \
     has the size, name the columns, as --columns time,key,size";

/// The number of rows from which on one key is doubted.
const FEW: usize = 3;

/// The layout of a file of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::trace) struct Layout {
    delimiter: u8,
    columns: Vec<Field>,
    /// Whether the file or the user names the columns.
    named: bool,
    /// Whether the first line that is no comment has names.
    begins_with_names: bool,
    /// Whether lines that begin with `#` are comments.
    has_comments: bool,
}

impl Layout {
    /// Returns the layout of a file that begins with `head`, or `None` if its lines have only one part. `columns` defines
    /// the columns if the user named them.
    pub(in crate::trace) fn guess(head: &[u8], columns: &[Field]) -> Option<Self> {
        let is_comment = |line: &&[u8]| line.starts_with(b"#");
        let (first, second) = (rows(head, false).next()?, rows(head, true).nth(1));
        let comments = rows(head, false).take_while(is_comment);
        let commented = comments.filter_map(names).find(|names| names.contains(&Field::Key));
        let row = rows(head, true).next().unwrap_or(first);
        let delimiter = delimiter(row);
        let count = parts(row, delimiter).count();
        if count < 2 && columns.is_empty() {
            return second.and_then(|_| Self::single(row));
        }
        let header = names(row);
        let mut layout = Self {
            delimiter,
            named: true,
            begins_with_names: header.is_some(),
            has_comments: is_comment(&first),
            columns: match (columns, commented.or(header)) {
                ([_, ..], _) => columns.to_vec(),
                ([], Some(names)) => names,
                _ => Vec::new(),
            },
        };
        if layout.columns.is_empty() {
            layout.named = false;
            layout.columns = match count {
                2 => vec![Field::Key, Field::Size],
                _ if layout.is_twitter(row) => twitter(),
                _ => vec![Field::Time, Field::Key, Field::Size],
            };
        }
        // The user's names are also of use if those in the file are unknown.
        let fits = |row| layout.row(row).request().is_ok();
        layout.begins_with_names |= !columns.is_empty() && !fits(row) && second.is_some_and(fits);
        Some(layout)
    }

    /// Returns the layout of a file with one column whose first line is `row`, if that is a name of the key.
    fn single(row: &[u8]) -> Option<Self> {
        let name = String::from_utf8_lossy(parts(row, NO_DELIMITER).next()?);
        (meaning(&name) == Field::Key).then(|| Self {
            delimiter: NO_DELIMITER,
            columns: vec![Field::Key],
            named: true,
            begins_with_names: true,
            has_comments: false,
        })
    }

    /// Judges whether the lines of `head` have this layout.
    pub(in crate::trace) fn judge(&self, head: &[u8]) -> Verdict {
        let has_key = self.columns.iter().any(|field| matches!(field, Field::Key | Field::Request));
        if self.named {
            let why = "no name in its first line is known as that of the key; name the columns, as --columns time,key,size";
            return match self.columns.len() {
                1 => Verdict::Guess("its first line is taken as the name of the keys below it".to_owned()),
                _ if has_key && self.lacks_sizes() => Verdict::Guess(SIZES_WITHOUT_NAME.to_owned()),
                _ if has_key => Verdict::Sure,
                _ => Verdict::Doubt(why.to_owned()),
            };
        }
        let rows: Vec<_> = rows(head, self.has_comments).take(TRIED).collect();
        let read: Vec<_> = rows.iter().map(|row| self.row(row).request()).collect();
        let is_incomplete =
            |line: &&LineResult| matches!(line, Ok(LineContent::LeftOut(Exclusion::Incomplete)));
        let incomplete = read.iter().filter(is_incomplete).count();
        let good = read.iter().filter(|line| line.is_ok()).count() - incomplete;
        if good * 2 <= rows.len() || incomplete * 10 > rows.len() {
            return Verdict::No;
        }
        let [firsts, seconds] = [0, 1].map(|column| {
            let number = |row: &&[u8]| decimal(parts(row, self.delimiter).nth(column)?, 6);
            rows.iter().filter_map(number).collect::<Vec<_>>()
        });
        let rises = |numbers: &[u64]| {
            let ascending = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
            rows.len() >= ENOUGH && ascending + 1 == rows.len()
        };
        let descending = firsts.windows(2).filter(|pair| pair[0] > pair[1]).count();
        let is_time = |column: usize| {
            let value = |row: &&[u8]| parts(row, self.delimiter).nth(column).and_then(of_this_century);
            rows.iter().all(|row| value(row).is_some())
        };
        let is_last_time = || !is_time(0) && (3..parts(rows[0], self.delimiter).count()).any(is_time);
        let has_operations = |column: usize| {
            let is_operation = |row: &&[u8]| parts(row, self.delimiter).nth(column).is_some_and(is_operation);
            rows.iter().all(is_operation)
        };
        if self.columns != twitter() && (0..parts(rows[0], self.delimiter).count()).any(has_operations) {
            return Verdict::Doubt(OPERATIONS_WITHOUT_NAMES.to_owned());
        }
        let keys: Vec<_> = rows.iter().filter_map(|row| parts(row, self.delimiter).nth(1)).collect();
        let is_one_key = rows.len() >= FEW && keys.windows(2).all(|pair| pair[0] == pair[1]);
        match self.columns[..] {
            [Field::Key, Field::Size] if rises(&firsts) => Verdict::Doubt(
                "its first column, of two, may be the time or the key; name them, as --columns time,key or --columns key,size"
                    .to_owned(),
            ),
            [Field::Key, Field::Size] if rises(&seconds) => Verdict::Doubt(
                "its second column, of two, may be the time or the size; name them, as --columns key,time or --columns key,size"
                    .to_owned(),
            ),
            [Field::Time, Field::Key, Field::Size] if is_one_key && parts(rows[0], self.delimiter).count() > 3 => {
                Verdict::Doubt(
                    "its columns have no names, and the second one is the same in all lines: it is no key; name them, as \
                     --columns time,_,key,size"
                        .to_owned(),
                )
            }
            [Field::Time, Field::Key, Field::Size] if descending * 10 > rows.len() || is_last_time() => Verdict::Doubt(
                "its columns have no names, and the first one is not the time; name them, as --columns time,key,size"
                    .to_owned(),
            ),
            [Field::Key, Field::Size] => guess("key,size"),
            [Field::Time, Field::Key, Field::Size] => guess("time,key,size"),
            _ => guess("twitter"),
        }
    }

    /// Whether no column has sizes, though one that is ignored may have them.
    fn lacks_sizes(&self) -> bool {
        self.columns.contains(&Field::Ignored)
            && !self.columns.iter().any(|field| matches!(field, Field::Size | Field::Whole))
    }

    pub(super) fn read(&self, input: impl Read, sink: &mut Sink) -> Result<(), Fault> {
        if self.delimiter == b' ' {
            return self.read_words(input, sink);
        }
        let mut reader = ReaderBuilder::new()
            .delimiter(self.delimiter)
            .has_headers(self.begins_with_names)
            .comment(self.has_comments.then_some(b'#'))
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
            match memchr::memchr_iter(b'\n', record.as_slice().trim_ascii_end()).count() as u64 {
                0 => put(sink, number, self.parse(&record))?,
                // A quotation mark that is part of a value hides the lines up to the next one.
                more => (number..=number + more)
                    .for_each(|line| sink.broken(line, || "in a quotation of several lines".to_owned())),
            }
        }
    }

    fn read_words(&self, input: impl Read, sink: &mut Sink) -> Result<(), Fault> {
        let (mut lines, mut begins_with_names) = (Lines::new(input), self.begins_with_names);
        while let Some((number, line)) = lines.next()? {
            if self.has_comments && line.starts_with(b"#") || std::mem::take(&mut begins_with_names) {
                continue;
            }
            put(sink, number, w3c::parse(&self.columns, line, ""))?;
        }
        Ok(())
    }

    fn parse<'l>(&self, record: &'l ByteRecord) -> LineResult<'l> {
        if record.iter().all(<[u8]>::is_empty) {
            return Ok(LineContent::Nothing);
        }
        let mut fields = Fields::default();
        for (field, word) in self.columns.iter().zip(record) {
            if *field != Field::Ignored {
                fields.put(*field, lenient(word));
            }
        }
        fields.request()
    }

    /// Returns the fields of a line, without regard to quotation marks.
    fn row<'l>(&self, line: &'l [u8]) -> Fields<'l> {
        let mut fields = Fields::default();
        for (field, part) in self.columns.iter().zip(parts(line, self.delimiter)) {
            fields.put(*field, String::from_utf8_lossy(part));
        }
        fields
    }

    /// Whether a line may be one of Twitter's traces: `time,key,key size,value size,client,operation,TTL`.
    fn is_twitter(&self, line: &[u8]) -> bool {
        let parts: Vec<_> = parts(line, self.delimiter).collect();
        parts.len() == 7 && OPERATIONS[..OF_TWITTER].contains(&parts[5])
    }
}

fn is_operation(word: &[u8]) -> bool {
    OPERATIONS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

fn guess(columns: &str) -> Verdict {
    Verdict::Guess(format!("its columns are taken as {columns}; if they are others, name them by --columns"))
}

/// Returns the lines of `head` that are not empty, and optionally no comments.
fn rows(head: &[u8], without_comments: bool) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    lines.filter(move |line| !(without_comments && line.starts_with(b"#")))
}

/// Returns the most frequent delimiter of `line`; a space if it has none of the others.
fn delimiter(line: &[u8]) -> u8 {
    let count = |delimiter: &u8| memchr::memchr_iter(*delimiter, line).count();
    let found = DELIMITERS.into_iter().rev().max_by_key(count);
    found.filter(|delimiter| count(delimiter) > 0).unwrap_or(b' ')
}

/// Returns the parts of `line`, without spaces and quotation marks around them.
fn parts(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    let parts = line.split(move |byte| *byte == delimiter);
    let parts = parts.filter(move |part| delimiter != b' ' || !part.is_empty()).map(<[u8]>::trim_ascii);
    parts.map(|part| part.strip_prefix(b"\"").and_then(|part| part.strip_suffix(b"\"")).unwrap_or(part))
}

/// Returns the meanings of the names in `line`, if it has names: the key's among them, or only words, two of which are
/// known. A `#` may precede them.
fn names(line: &[u8]) -> Option<Vec<Field>> {
    let line = line.strip_prefix(b"#").unwrap_or(line).trim_ascii();
    let words: Vec<_> = parts(line, delimiter(line)).map(String::from_utf8_lossy).collect();
    let fields: Vec<_> = words.iter().map(|word| meaning(word)).collect();
    let are_words =
        words.iter().all(|word| word.starts_with(|c: char| c.is_alphabetic() || "_@".contains(c)));
    let known = fields.iter().filter(|field| **field != Field::Ignored).count();
    (fields.len() > 1 && (fields.contains(&Field::Key) || are_words && known > 1)).then_some(fields)
}

/// Whether the first line of `head` has delimiters, and most lines have as many: of one kind, or of several, as in files that
/// were joined.
pub(super) fn is_table(head: &[u8]) -> bool {
    let mut lines = rows(head, false);
    let Some(first) = lines.next() else { return false };
    let count = |line: &[u8]| line.iter().filter(|byte| DELIMITERS.contains(byte)).count();
    let (expected, lines) = (count(first), lines.take(TRIED).collect::<Vec<_>>());
    let alike = lines.iter().filter(|line| count(line) == expected).count();
    lines.len() > 1 && alike * 2 > lines.len() && expected > 0
}

fn fault(error: csv::Error) -> Fault {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Fault::Io(error),
        other => Fault::Bad(format!("{other:?}")),
    }
}
