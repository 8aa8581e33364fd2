//! The output of readers: requests, excluded lines, and broken lines.

use std::borrow::Cow;

use larder_predict::mix;

use super::summary::{Exclusion, ReadSummary};
use super::{Builder, Column, Record, Trace, TraceTooLong};

/// The microseconds by which times in a log may go back: servers write a line when a request ends.
const LATE: u64 = 600_000_000;

/// The properties of a request, in addition to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// The time in microseconds of any epoch; 0 if the trace has no times.
    pub(super) time: u64,
    /// The size in bytes.
    pub(super) size: Fact<u64>,
    /// The cost in microseconds.
    pub(super) cost: Fact<u32>,
    /// A hash of the client; 0 if the trace has no clients.
    pub(super) client: u32,
}

/// The information about an object in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact<T> {
    /// The exact value.
    Known(T),
    /// A guess; other requests for the object may have the exact value.
    Guessed(T),
}

/// Builds the trace and the report on its reading.
pub(super) struct Sink {
    /// Whether URLs are cut to their scheme and host.
    base_urls: bool,
    builder: Builder,
    reading: ReadSummary,
    /// Keys whose hash is at most this are kept.
    threshold: u64,
    guessed_sizes: Vec<u32>,
    guessed_costs: Vec<u32>,
}

impl Sink {
    /// Returns a sink that keeps this share of the objects, above 0 and at most 1.
    pub(super) fn new(sample: f64, base_urls: bool, reading: ReadSummary) -> Self {
        // A share of 1 becomes the largest number: conversion to an integer saturates.
        let threshold = (sample * u64::MAX as f64) as u64;
        let (guessed_sizes, guessed_costs) = (Vec::new(), Vec::new());
        Self { base_urls, builder: Builder::default(), reading, threshold, guessed_sizes, guessed_costs }
    }

    /// Adds a request for an object that the trace identifies by a number.
    #[inline]
    pub(super) fn number(&mut self, key: u64, facts: Facts) -> Result<(), TraceTooLong> {
        self.reading.requests += 1;
        if self.threshold != u64::MAX && mix(key) > self.threshold {
            return Ok(());
        }
        self.reading.kept += 1;
        self.note_guesses(facts);
        self.builder.by(facts.client);
        self.builder.push_number(facts.of(key))
    }

    /// Adds a request for an object that the trace identifies by a name.
    #[inline]
    pub(super) fn name(&mut self, key: &str, facts: Facts) -> Result<(), TraceTooLong> {
        let key = &*if self.base_urls { base(key) } else { key.into() };
        self.reading.requests += 1;
        if self.threshold != u64::MAX && hash(key.as_bytes()) > self.threshold {
            return Ok(());
        }
        self.reading.kept += 1;
        self.note_guesses(facts);
        self.builder.by(facts.client);
        self.builder.push_name(facts.of(key))
    }

    /// Counts line or record `number` as broken, for the reason `why`.
    pub(super) fn broken(&mut self, number: u64, why: impl FnOnce() -> String) {
        self.reading.note_broken(number, why);
    }

    /// Counts a request whose response a cache would not keep.
    pub(super) fn leave_out(&mut self, reason: Exclusion) {
        *self.reading.left_out.entry(reason).or_default() += 1;
    }

    /// Returns the trace and the report.
    pub(super) fn finish(self) -> (Trace, ReadSummary) {
        let (mut trace, mut reading) = (self.builder.finish(), self.reading);
        let objects = trace.objects as usize;
        // A trace without any sizes has nothing to guess from.
        reading.guessed_sizes = if trace.has_sizes() { self.guessed_sizes.len() as u64 } else { 0 };
        reading.unknown_sizes = trace.sizes.fill_in(&trace.ids, objects, &self.guessed_sizes);
        trace.costs.fill_in(&trace.ids, objects, &self.guessed_costs);
        reading.late = late(&trace);
        (trace, reading)
    }

    fn note_guesses(&mut self, facts: Facts) {
        // The builder refuses a request without a number, so the conversion cannot overflow.
        if let Fact::Guessed(_) = facts.size {
            self.guessed_sizes.push(self.builder.len() as u32);
        }
        if let Fact::Guessed(_) = facts.cost {
            self.guessed_costs.push(self.builder.len() as u32);
        }
    }
}

/// Returns the number of requests that come after others that are later by more than [`LATE`].
fn late(trace: &Trace) -> u64 {
    let mut latest = 0;
    let is_late = |&&time: &&u64| {
        latest = latest.max(time);
        time > 0 && time.saturating_add(LATE) < latest
    };
    trace.times().map_or(0, |times| times.iter().filter(is_late).count() as u64)
}

impl Facts {
    /// A request with only an object.
    pub(super) const NONE: Self = Self { time: 0, size: Fact::Known(1), cost: Fact::Known(0), client: 0 };

    fn of<K>(self, key: K) -> Record<K> {
        Record { key, time: self.time, size: self.size.value(), cost: self.cost.value() }
    }
}

impl<T> Fact<T> {
    fn value(self) -> T {
        match self {
            Self::Known(value) | Self::Guessed(value) => value,
        }
    }
}

impl<T: Copy + PartialEq> Column<T> {
    /// Sets the values of the requests `guessed`, which are in order, to the exact value of the last earlier request
    /// for the same object, or otherwise of the first later one. Returns the number of those for which there is none.
    fn fill_in(&mut self, ids: &[u32], objects: usize, guessed: &[u32]) -> u64 {
        let Self::Each(values) = self else { return 0 };
        if guessed.is_empty() {
            return 0;
        }
        let mut unknown = 0;
        let mut last_known = vec![None; objects];
        let mut left = guessed;
        for at in (0..ids.len()).rev() {
            match left.split_last() {
                Some((&last, others)) if last as usize == at => left = others,
                _ => last_known[ids[at] as usize] = Some(values[at]),
            }
        }
        let mut left = guessed;
        for at in 0..ids.len() {
            match left.split_first() {
                Some((&first, others)) if first as usize == at => {
                    let known = last_known[ids[at] as usize];
                    unknown += u64::from(known.is_none());
                    values[at] = known.unwrap_or(values[at]);
                    left = others;
                }
                _ => last_known[ids[at] as usize] = Some(values[at]),
            }
        }
        unknown
    }
}

/// Returns a URL cut to its scheme and host, without user names and passwords: `https://host/`. Other text is returned
/// unchanged.
fn base(url: &str) -> Cow<'_, str> {
    let Some(host) = url.find("://").map(|at| at + 3) else { return url.into() };
    let (scheme, rest) = url.split_at(host);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let end = end + usize::from(rest.as_bytes().get(end) == Some(&b'/'));
    match rest[..end].rfind('@') {
        Some(at) => [scheme, &rest[at + 1..end]].concat().into(),
        None => url[..host + end].into(),
    }
}

/// Returns the hash of a client's name in the trace.
pub(super) fn client(name: &[u8]) -> u32 {
    if matches!(name, b"" | b"-") { 0 } else { (hash(name) as u32).max(1) }
}

/// Spreads names evenly: FNV-1a, then [`mix`].
fn hash(name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    mix(name.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::base;

    #[test]
    fn a_url_is_cut_to_its_scheme_and_host() {
        for (url, expected) in [
            ("https://a.test/x/y?q#f", "https://a.test/"),
            ("https://a.test?q", "https://a.test"),
            ("https://a.test", "https://a.test"),
            ("https://name:word@a.test:8443/x", "https://a.test:8443/"),
            ("http://name@a.test?to=b@c", "http://a.test"),
            ("http://a@b@c/d@e", "http://c/"),
            ("/x@y", "/x@y"),
            ("key", "key"),
        ] {
            assert_eq!(base(url), expected, "{url}");
        }
    }
}
