//! The formats, one file each: the content of a record or line.

mod arc;
pub(super) mod csv;
pub(super) mod fields;
pub(super) mod history;
mod json;
mod larder;
pub(super) mod lcs;
mod lines;
mod ncsa;
pub(super) mod oracle;
mod plain;
mod records;
mod squid;
mod words;
pub(super) mod workload;

use std::io;
use std::path::Path;

use super::input::Input;
use super::sink::Sink;
use super::{Format, TooMany};
use csv::Layout;
use lines::Parsed;

/// The number of lines that are tried to detect a format.
const TRIED: usize = 50;

/// The reason why reading stopped before the end.
pub(super) enum Fault {
    /// Reading the file failed.
    Io(io::Error),
    /// The file has more than a trace can hold.
    TooMany(TooMany),
    /// The structure of the whole file is invalid.
    Bad(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<TooMany> for Fault {
    fn from(error: TooMany) -> Self {
        Self::TooMany(error)
    }
}

type Parse = for<'l> fn(&'l [u8]) -> Parsed<'l>;

/// Returns the parser for lines of `format`, if its lines are independent.
fn parser(format: Format) -> Option<Parse> {
    match format {
        Format::Workload => Some(workload::parse),
        Format::Json => Some(json::parse),
        Format::Larder => Some(larder::parse),
        Format::Squid => Some(squid::parse),
        Format::Ncsa => Some(ncsa::parse),
        Format::Arc => Some(arc::parse),
        Format::Plain => Some(plain::parse),
        Format::OracleGeneral | Format::Lcs | Format::Csv | Format::History => None,
    }
}

/// Puts the content of `input`, which is the file at `path`, into `sink`.
pub(super) fn read(format: Format, path: &Path, input: Input, sink: &mut Sink<'_>) -> Result<(), Fault> {
    match (format, parser(format)) {
        (_, Some(parse)) => lines::read(input, sink, parse),
        (Format::OracleGeneral, _) => oracle::read(input, sink),
        (Format::Lcs, _) => lcs::read(input, sink),
        (Format::History, _) => history::read(path, input, sink),
        _ => {
            let layout = Layout::guess(input.head(), &sink.options().columns);
            let layout = layout.ok_or_else(|| Fault::Bad("its first line has no columns".to_owned()))?;
            layout.read(input, sink)
        }
    }
}

/// Whether at least half of the first lines of `head` have the format `format`.
pub(super) fn resembles(format: Format, head: &[u8]) -> bool {
    let Some(parse) = parser(format) else { return false };
    let lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let (mut good, mut all) = (0, 0);
    for line in lines.take(TRIED) {
        match parse(line.trim_ascii_end()) {
            Ok(lines::Said::Nothing) => {}
            Ok(_) => (good, all) = (good + 1, all + 1),
            Err(_) => all += 1,
        }
    }
    good > 0 && good * 2 >= all
}
