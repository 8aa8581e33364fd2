//! The report on the reading of a trace.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use super::Format;

/// The maximum number of broken lines that are reported with their numbers.
const REMEMBERED: usize = 5;

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
    /// Those of them of which no request for the same object has the size.
    pub unknown_sizes: u64,
    /// Requests that come long after later ones.
    pub late: u64,
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

impl ReadSummary {
    pub(super) fn new(format: Format) -> Self {
        let (left_out, first_broken) = (BTreeMap::new(), Vec::new());
        Self {
            format,
            requests: 0,
            kept: 0,
            left_out,
            broken: 0,
            first_broken,
            guessed_sizes: 0,
            unknown_sizes: 0,
            late: 0,
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
            let (count, unknown) = (self.guessed_sizes, self.unknown_sizes);
            let source = "taken from other requests for the same object";
            let rest = if unknown > 0 { format!("; unknown for {unknown} of them") } else { String::new() };
            notes.push(format!("{count} without the object's size, as with status 304: {source}{rest}"));
        }
        if self.late > 0 {
            notes.push(format!(
                "{} of its requests come after later ones, as if files were joined in the wrong order: it is read in the order of its lines",
                self.late
            ));
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

    /// Returns an error if more than `max_broken_share` of the lines are broken, or no request is left.
    pub(super) fn judge(&self, max_broken_share: f64) -> Result<(), String> {
        let left_out: u64 = self.left_out.values().sum();
        let lines = self.requests + left_out + self.broken;
        let (unit, broken) = (self.format.unit(), self.broken);
        if let Some((number, why)) = self.first_broken.first()
            && broken as f64 > max_broken_share * lines as f64
        {
            let share = (max_broken_share * 1e6).round() / 1e4;
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
