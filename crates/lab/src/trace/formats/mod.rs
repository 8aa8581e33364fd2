//! The formats, one file each: the content of a record or line.

pub(super) mod arc;
pub(super) mod csv;
mod fields;
pub(super) mod history;
pub(super) mod json;
mod larder;
pub(super) mod lcs;
mod lines;
mod logs;
pub(super) mod names;
mod ncsa;
pub(super) mod oracle;
pub(super) mod pattern;
pub(super) mod plain;
mod records;
mod syslog;
pub(super) mod vscsi;
pub(super) mod w3c;
mod words;
pub(super) mod workload;

use std::io;
use std::path::Path;

use super::input::Input;
use super::sink::Sink;
use super::summary::Exclusion;
use super::verdict::Found;
use super::{Format, TraceTooLong};
use csv::Layout;
use lines::{LineContent, LineResult};
use names::Field;
use pattern::Pattern;

/// The number of lines that are tried to detect a format.
const TRIED: usize = 50;

/// The reason why reading stopped before the end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Reading the file failed.
    #[error("{}", explain(.0))]
    Io(#[from] io::Error),
    /// The file has more than a trace can hold.
    #[error("{0}")]
    TooMany(#[from] TraceTooLong),
    /// The structure of the whole file is invalid.
    #[error("{0}")]
    Bad(String),
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::UnexpectedEof => "it is cut off".to_owned(),
        _ => error.to_string().to_lowercase(),
    }
}

/// What the user says about the form of lines.
#[derive(Clone, Copy)]
pub(super) struct FormatHints<'o> {
    /// The meaning of columns.
    pub(super) columns: &'o [Field],
    /// The form of the lines of a log.
    pub(super) log_format: Option<&'o Pattern>,
}

/// The parser of a format whose lines are independent.
pub(super) struct LineParser {
    kind: Kind,
    /// Whether each line begins with the words of syslog.
    behind_syslog: bool,
}

enum Kind {
    Code(for<'l> fn(&'l [u8]) -> LineResult<'l>),
    Pattern(Pattern),
}

impl LineParser {
    /// Returns the parser for lines of `format`, if its lines are independent.
    pub(super) fn of(format: Format, hints: FormatHints<'_>, behind_syslog: bool) -> Option<Self> {
        let kind = match format {
            Format::Workload => Kind::Code(workload::parse),
            Format::Json => Kind::Code(json::parse),
            Format::Larder => Kind::Code(larder::parse),
            Format::Ncsa => Kind::Code(ncsa::parse),
            Format::Arc => Kind::Code(arc::parse),
            Format::Plain => Kind::Code(plain::parse),
            Format::Custom => Kind::Pattern(hints.log_format?.clone()),
            format => Kind::Pattern(logs::pattern(format)?),
        };
        Some(Self { kind, behind_syslog })
    }

    fn parse<'l>(&self, line: &'l [u8]) -> LineResult<'l> {
        let line = match self.behind_syslog {
            true => syslog::message(line).ok_or("no words of syslog before it")?,
            false => line,
        };
        if larder::announces(line) {
            return Ok(LineContent::Nothing);
        }
        match &self.kind {
            Kind::Code(parse) => parse(line),
            Kind::Pattern(pattern) => pattern.parse(line),
        }
    }
}

/// Puts the content of `input`, which is the file at `path`, into `sink`.
pub(super) fn read(
    found: &Found,
    path: &Path,
    input: Input,
    sink: &mut Sink,
    hints: FormatHints<'_>,
) -> Result<(), Fault> {
    if let Some(parser) = LineParser::of(found.format, hints, found.behind_syslog) {
        return lines::read(input, sink, &parser);
    }
    let bad = |why: &str| Fault::Bad(why.to_owned());
    match found.format {
        Format::OracleGeneral => oracle::read(input, sink),
        Format::Lcs => lcs::read(input, sink),
        Format::Vscsi => vscsi::read(input, sink),
        Format::History => history::read(path, input, sink),
        Format::W3c => w3c::read(input, sink),
        Format::Custom => Err(bad("the format 'custom' needs --log-format")),
        _ => {
            let layout = Layout::guess(input.head(), hints.columns);
            layout.ok_or_else(|| bad("its first line has no columns"))?.read(input, sink)
        }
    }
}

/// Whether at least half of the first lines of `head` are what `parser` reads.
pub(super) fn fit(parser: &LineParser, head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let (mut good, mut all) = (0, 0);
    for line in lines.take(TRIED) {
        match parser.parse(line.trim_ascii_end()) {
            // Any line may seem to be of a request that could not be read.
            Ok(LineContent::Nothing | LineContent::LeftOut(Exclusion::Incomplete)) => {}
            Ok(_) => (good, all) = (good + 1, all + 1),
            Err(_) => all += 1,
        }
    }
    good > 0 && good * 2 >= all
}
