//! Reads a trace file of any format.
//!
//! Broken and excluded lines are counted and shown.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{self, Read};
use std::path::Path;

use super::detect::{Found, detect};
use super::formats::names::Field;
use super::formats::pattern::Pattern;
use super::formats::{self, Fault};
use super::input::Input;
use super::sink::Sink;
use super::{Format, Trace};
use crate::workload::Requests;

/// The maximum number of broken lines that are reported with their numbers.
const REMEMBERED: usize = 5;

/// Options for reading a trace.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file's format; `None` to detect it.
    pub format: Option<Format>,
    /// The share of the objects to keep, above 0 and at most 1: all requests of an object, or none, by a hash of its
    /// key (spatial sampling, as in SHARDS, FAST '15).
    pub sample: f64,
    /// The share of the lines that may be broken, 0 to 1.
    pub max_broken_share: f64,
    /// Whether to cut URLs to their scheme and host.
    pub base_urls: bool,
    /// The meaning of the columns of comma-separated values, if the first line does not give it.
    pub columns: Vec<Field>,
    /// The form of the lines of a log.
    pub log_format: Option<Pattern>,
}

impl Default for Options {
    fn default() -> Self {
        let (format, columns, log_format) = (None, Vec::new(), None);
        Self { format, sample: 1.0, max_broken_share: 0.01, base_urls: false, columns, log_format }
    }
}

/// The results of reading a file's lines or records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSummary {
    /// The format used.
    pub format: Format,
    /// Requests found.
    pub requests: u64,
    /// Requests that the sample keeps.
    pub kept: u64,
    /// Excluded requests, by reason.
    pub left_out: BTreeMap<Exclusion, u64>,
    /// Lines or records without a valid request.
    pub broken: u64,
    /// The first broken ones: their number, counted from 1, and the error.
    pub first_broken: Vec<(u64, String)>,
    /// Requests without the size of the whole object: it was taken from other requests for the same object, if there
    /// are any.
    pub guessed_sizes: u64,
    /// What was guessed about the format.
    pub guess: Option<String>,
}

/// The reason why a request is excluded from a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// Its method is not GET.
    Method,
    /// Its status is not heuristically cacheable (RFC 9110, section 15.1).
    Status(u16),
    /// It has no URL, or no time.
    Incomplete,
    /// Its URL has a scheme other than `http` and `https`, such as a browser's internal pages and files.
    Scheme,
}

/// A file cannot be read as a trace; the message names the file and the reason, in one line.
#[derive(Debug)]
pub struct Error(String);

/// Reads the trace in the file at `path`; `-` means standard input.
///
/// # Errors
/// If the file cannot be opened or unpacked, has an unknown format, no requests, too many, or more broken
/// lines than `options` allow.
pub fn read(path: &Path, options: &Options) -> Result<(Trace, ReadSummary), Error> {
    let trace = Input::open(path).map_err(Fault::from).and_then(|input| open(input, path, options));
    trace.map_err(|fault| Error(format!("cannot read '{}': {fault}", path.display())))
}

/// Reads a trace from the content of a file.
///
/// # Errors
/// The same as for [`read`], without the file.
pub fn read_from(source: impl Read + 'static, options: &Options) -> Result<(Trace, ReadSummary), Error> {
    let trace = Input::new(source).map_err(Fault::from);
    trace.and_then(|input| open(input, Path::new("-"), options)).map_err(|fault| Error(fault.to_string()))
}

/// Reads the requests in the file at `path` for a load tool: from a workload all of them, with methods, fields and
/// bodies; from any other trace with URLs the GETs. `-` means standard input.
///
/// # Errors
/// The same as for [`read`]; and if the trace has numbers for objects.
pub fn requests(path: &Path, options: &Options) -> Result<(Requests, ReadSummary), Error> {
    let found = Input::open(path).map_err(Fault::from).and_then(|input| gather(input, path, options));
    found.map_err(|fault| Error(format!("cannot read '{}': {fault}", path.display())))
}

fn gather(input: Input, path: &Path, options: &Options) -> Result<(Requests, ReadSummary), Fault> {
    let found = detect(input.head(), options).map_err(Fault::Bad)?;
    if found.format == Format::Workload {
        let mut reading = ReadSummary::new(found.format);
        let requests = formats::workload::requests(input, &mut reading)?;
        reading.judge(options).map_err(Fault::Bad)?;
        return Ok((requests, reading));
    }
    let (trace, reading) = take(found, input, path, options)?;
    let name = |id| trace.name(id).map(str::to_owned);
    let names: Option<Vec<_>> = (0..trace.shape().objects).map(name).collect();
    let names = names.ok_or_else(|| Fault::Bad("it has numbers for objects, and no urls".to_owned()))?;
    Ok((Requests::gets(names, trace.ids()), reading))
}

fn open(input: Input, path: &Path, options: &Options) -> Result<(Trace, ReadSummary), Fault> {
    let found = detect(input.head(), options).map_err(Fault::Bad)?;
    take(found, input, path, options)
}

fn take(found: Found, input: Input, path: &Path, options: &Options) -> Result<(Trace, ReadSummary), Fault> {
    let mut reading = ReadSummary::new(found.format);
    reading.guess.clone_from(&found.guess);
    let mut sink = Sink::new(options, reading);
    formats::read(&found, path, input, &mut sink)?;
    let (trace, reading) = sink.finish();
    reading.judge(options).map_err(Fault::Bad)?;
    Ok((trace, reading))
}

impl ReadSummary {
    fn new(format: Format) -> Self {
        let (left_out, first_broken) = (BTreeMap::new(), Vec::new());
        Self {
            format,
            requests: 0,
            kept: 0,
            left_out,
            broken: 0,
            first_broken,
            guessed_sizes: 0,
            guess: None,
        }
    }

    /// Counts line or record `number` as broken, for the reason `why`.
    pub(super) fn note_broken(&mut self, number: u64, why: impl FnOnce() -> String) {
        self.broken += 1;
        if self.first_broken.len() < REMEMBERED {
            self.first_broken.push((number, why()));
        }
    }

    /// Returns notes for the user, one line each: a guess about the format, the sample, the excluded requests, the broken lines.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<_> = self.guess.iter().cloned().collect();
        if self.kept < self.requests {
            notes.push(format!("sampled {} of {} requests", self.kept, self.requests));
        }
        for (reason, count) in &self.left_out {
            notes.push(format!("left out {count} {reason}"));
        }
        if self.guessed_sizes > 0 {
            let count = self.guessed_sizes;
            notes.push(format!("{count} without the object's size, as with status 304: taken from other requests for the same object"));
        }
        for (number, why) in &self.first_broken {
            notes.push(format!("{} {number} is broken: {why}", self.format.unit()));
        }
        let more = self.broken - self.first_broken.len() as u64;
        if more > 0 {
            notes.push(format!("{more} more broken {}s", self.format.unit()));
        }
        notes
    }

    fn judge(&self, options: &Options) -> Result<(), String> {
        let left_out: u64 = self.left_out.values().sum();
        let lines = self.requests + left_out + self.broken;
        let (unit, broken) = (self.format.unit(), self.broken);
        if let Some((number, why)) = self.first_broken.first()
            && broken as f64 > options.max_broken_share * lines as f64
        {
            let share = (options.max_broken_share * 1e6).round() / 1e4;
            return Err(format!(
                "{broken} of {lines} {unit}s of {} are broken, more than {share}%; \
                 the first is {unit} {number}: {why}",
                self.format
            ));
        }
        match (self.requests, self.kept, left_out) {
            (0, _, 0) => Err(format!("no requests in it, read as {}", self.format)),
            (0, _, left) => {
                Err(format!("no requests to keep in it: {left} left out, read as {}", self.format))
            }
            (found, 0, _) => Err(format!("the sample keeps none of its {found} requests")),
            _ => Ok(()),
        }
    }
}

impl Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str("with a method other than GET"),
            Self::Status(status) => write!(f, "with status {status}"),
            Self::Incomplete => f.write_str("without a URL or a time"),
            Self::Scheme => f.write_str("with a URL of neither http nor https"),
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(why) => f.write_str(&explain(why)),
            Self::TooMany(why) => why.fmt(f),
            Self::Bad(why) => f.write_str(why),
        }
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::UnexpectedEof => "it is cut off".to_owned(),
        _ => error.to_string().to_lowercase(),
    }
}
