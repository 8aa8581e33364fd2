//! Counts responses per worker and site, without locks and without sharing cache lines.
//!
//! **Hits** are requests served without a request to an origin: from a fresh or allowed-stale stored response, or from
//! a fetch in flight of another request (coalesced). **Validated** are requests served from a stored response after the
//! origin has revalidated it (304). **Misses** could have been hits and were fetched. **Passes** were not cacheable
//! (unsafe methods, tunnels). The ratios are those of [`larder_stats::outcome`].

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_semantics::status::Why;
use larder_words::with_defaults;
use serde::{Serialize, Serializer};

use crate::base::outcome::{Kind, Outcome, Tier};

const TIERS: usize = Tier::ALL.len();
const ENDS: usize = Kind::ALL.len() * TIERS;
const REASONS: usize = Why::ALL.len();
/// The classes of statuses (RFC 9110 section 15).
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The place of the class 2xx, the rest of all requests.
const SUCCESS: usize = 1;

with_defaults! {
    /// The counts of one worker, which is their only writer.
    #[derive(Debug)]
    #[repr(align(128))]
    pub struct Counters {
        /// Requests and bytes sent by [`end`], requests by reason.
        requests: [AtomicU64; ENDS] = zeros(),
        bytes: [AtomicU64; ENDS] = zeros(),
        reasons: [AtomicU64; REASONS] = zeros(),
        /// Requests by class of the status, but for the class 2xx.
        statuses: [AtomicU64; CLASSES.len()] = zeros(),
        origin_bytes: AtomicU64 = AtomicU64::new(0),
        coded: AtomicU64 = AtomicU64::new(0),
        saved: AtomicU64 = AtomicU64::new(0),
        prefetches: AtomicU64 = AtomicU64::new(0),
    }
}

with_defaults! {
    /// Counts at one moment, summed over workers, and over sites if required.
    #[derive(Clone, Debug)]
    pub struct Counts {
        requests: [u64; ENDS] = [0; ENDS],
        bytes: [u64; ENDS] = [0; ENDS],
        reasons: [u64; REASONS] = [0; REASONS],
        statuses: [u64; CLASSES.len()] = [0; CLASSES.len()],
        /// Bytes of content that origins sent.
        pub origin_bytes: u64 = 0,
        coded: u64 = 0,
        saved: u64 = 0,
        prefetches: u64 = 0,
    }
}

/// The counts with the names of `/stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Requests with a response, refused ones included.
    pub requests: u64,
    /// Requests served without a request to an origin.
    pub hits: u64,
    /// Requests served from a stored response that an origin has revalidated (304).
    pub validated: u64,
    /// Requests fetched from an origin, though cacheable.
    pub misses: u64,
    /// Requests that were not cacheable.
    pub passes: u64,
    /// Hits found on a disk.
    pub disk_hits: u64,
    /// Hits found on the cluster's engine.
    pub engine_hits: u64,
    /// Hits served stale.
    pub stale: u64,
    /// Hits that waited for another request's fetch.
    pub coalesced: u64,
    /// Responses with status 5xx that this proxy generated.
    pub errors: u64,
    /// Requests refused because they were malformed or exceeded a limit.
    pub refused: u64,
    /// Responses by the class of their status.
    pub statuses: Statuses,
    /// Bytes sent, heads included.
    pub bytes_served: u64,
    /// Bytes sent for hits, validated and misses.
    pub bytes_cacheable: u64,
    /// The part of these bytes that came from the cache.
    pub bytes_from_cache: u64,
    /// Bytes of content that origins sent.
    pub origin_bytes: u64,
    /// Responses whose stored content this proxy had compressed.
    pub compressed: u64,
    /// Bytes saved by this compression.
    pub bytes_saved: u64,
    /// Prefetch requests of clients, with any outcome.
    pub client_prefetches: u64,
}

/// The ratios of [`larder_stats::Counts`], from 0 to 1.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    /// Hits of the requests that were cacheable.
    pub hit_ratio: f64,
    /// The same with those that an origin has revalidated.
    pub validated_hit_ratio: f64,
    /// Bytes from the cache of those that were cacheable.
    pub byte_hit_ratio: f64,
}

/// Responses by the class of their status (RFC 9110 section 15), from 1xx to 5xx.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statuses([u64; CLASSES.len()]);

impl Statuses {
    /// Returns each class with its number of responses.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CLASSES.into_iter().zip(self.0)
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.each())
    }
}

/// Requests with the same outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// How they were served.
    pub kind: Kind,
    /// Where the response was stored.
    pub tier: Tier,
    /// Their number.
    pub requests: u64,
    /// Bytes sent.
    pub bytes: u64,
}

impl Counters {
    /// Counts one response of `bytes` bytes.
    pub fn record(&self, outcome: &Outcome, bytes: u64) {
        let end = end(outcome.kind, outcome.tier);
        add(&self.bytes[end], bytes);
        add(&self.reasons[outcome.why as usize], 1);
        if outcome.is_prefetch {
            add(&self.prefetches, 1);
        }
        // Written last, since it is read first: a reader that sees the request also sees the other counts.
        add(&self.requests[end], 1);
    }

    /// Counts the status of a response, before [`record`](Self::record) counts the request.
    #[inline]
    pub fn answered(&self, status: u16) {
        let class = usize::from(status / 100).saturating_sub(1);
        if class != SUCCESS {
            add(&self.statuses[class.min(CLASSES.len() - 1)], 1);
        }
    }

    /// Counts content that came from an origin.
    #[inline]
    pub fn received(&self, bytes: u64) {
        add(&self.origin_bytes, bytes);
    }

    /// Counts a response whose content was compressed here, with `saved` bytes less.
    #[inline]
    pub fn compressed(&self, saved: u64) {
        add(&self.saved, saved);
        add(&self.coded, 1);
    }
}

impl Counts {
    /// Adds the counts of a worker.
    pub fn add(&mut self, counters: &Counters) {
        let Counters { requests, bytes, reasons, statuses, origin_bytes, coded, saved, prefetches } =
            counters;
        sum(&mut self.requests, requests);
        sum(&mut self.bytes, bytes);
        sum(&mut self.reasons, reasons);
        sum(&mut self.statuses, statuses);
        self.origin_bytes += origin_bytes.load(Ordering::Relaxed);
        self.coded += coded.load(Ordering::Relaxed);
        self.saved += saved.load(Ordering::Relaxed);
        self.prefetches += prefetches.load(Ordering::Relaxed);
    }

    /// Returns the difference to `earlier`, an earlier state of the same counts.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        take(&mut since.requests, &earlier.requests);
        take(&mut since.bytes, &earlier.bytes);
        take(&mut since.reasons, &earlier.reasons);
        take(&mut since.statuses, &earlier.statuses);
        since.origin_bytes = self.origin_bytes.saturating_sub(earlier.origin_bytes);
        since.coded = self.coded.saturating_sub(earlier.coded);
        since.saved = self.saved.saturating_sub(earlier.saved);
        since.prefetches = self.prefetches.saturating_sub(earlier.prefetches);
        since
    }

    /// Returns the prefetch requests of clients.
    #[inline]
    pub fn prefetches(&self) -> u64 {
        self.prefetches
    }

    /// Returns the counts for every kind and tier, also those with 0 requests.
    pub fn ends(&self) -> impl Iterator<Item = OutcomeCounts> {
        let ends = Kind::ALL.into_iter().flat_map(|kind| Tier::ALL.into_iter().map(move |tier| (kind, tier)));
        ends.map(|(kind, tier)| {
            let end = end(kind, tier);
            OutcomeCounts { kind, tier, requests: self.requests[end], bytes: self.bytes[end] }
        })
    }

    /// Returns the reasons with at least one request, and their counts.
    pub fn reasons(&self) -> impl Iterator<Item = (Why, u64)> {
        let all = Why::ALL.iter().map(|why| (*why, self.reasons[*why as usize]));
        all.filter(|(_, requests)| *requests > 0)
    }

    /// Returns the counts by the names of `/stats`.
    pub fn totals(&self) -> Totals {
        let (origin_bytes, compressed, bytes_saved) = (self.origin_bytes, self.coded, self.saved);
        let client_prefetches = self.prefetches;
        let mut totals =
            Totals { origin_bytes, compressed, bytes_saved, client_prefetches, ..Totals::default() };
        self.ends().for_each(|ends| totals.add(&ends));
        let mut statuses = self.statuses;
        statuses[SUCCESS] = totals.requests.saturating_sub(statuses.iter().sum());
        Totals { statuses: Statuses(statuses), ..totals }
    }
}

impl Totals {
    fn add(&mut self, ends: &OutcomeCounts) {
        let OutcomeCounts { kind, tier, requests, bytes } = *ends;
        self.requests += requests;
        self.bytes_served += bytes;
        let (counter, from_cache) = match kind {
            Kind::Hit => (&mut self.hits, bytes),
            Kind::StaleHit => {
                self.stale += requests;
                (&mut self.hits, bytes)
            }
            Kind::Coalesced => {
                self.coalesced += requests;
                (&mut self.hits, bytes)
            }
            Kind::Revalidated => (&mut self.validated, bytes),
            Kind::Miss => (&mut self.misses, 0),
            Kind::Pass => return self.passes += requests,
            Kind::Refused => return self.refused += requests,
            Kind::Failed => return self.errors += requests,
        };
        *counter += requests;
        self.bytes_cacheable += bytes;
        self.bytes_from_cache += from_cache;
        match (kind, tier) {
            (Kind::Hit | Kind::StaleHit, Tier::Disk) => self.disk_hits += requests,
            (Kind::Hit | Kind::StaleHit, Tier::Engine) => self.engine_hits += requests,
            _ => {}
        }
    }

    /// Returns the ratios of these counts.
    #[inline]
    pub fn ratios(&self) -> Ratios {
        let Self { hits, validated, misses, bytes_cacheable, bytes_from_cache, .. } = *self;
        let counts = larder_stats::Counts { hits, validated, misses, ..Default::default() };
        Ratios::of(&larder_stats::Counts { bytes_cacheable, bytes_from_cache, ..counts })
    }
}

impl Ratios {
    /// Returns the ratios of counts.
    pub fn of(counts: &larder_stats::Counts) -> Self {
        Self {
            hit_ratio: counts.hit_ratio(),
            validated_hit_ratio: counts.validated_hit_ratio(),
            byte_hit_ratio: counts.byte_hit_ratio(),
        }
    }
}

/// Returns the index of the counters for this kind and tier.
#[inline]
fn end(kind: Kind, tier: Tier) -> usize {
    kind as usize * TIERS + tier as usize
}

fn zeros<const N: usize>() -> [AtomicU64; N] {
    array::from_fn(|_| AtomicU64::new(0))
}

fn sum(sums: &mut [u64], counters: &[AtomicU64]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.load(Ordering::Relaxed);
    }
}

/// Subtracts the counts of an earlier moment.
#[inline]
pub fn take(counts: &mut [u64], earlier: &[u64]) {
    for (count, earlier) in counts.iter_mut().zip(earlier) {
        *count = count.saturating_sub(*earlier);
    }
}

/// Adds `n` to a counter with a single writer, which needs no locked instruction.
#[inline]
pub fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use larder_stats::outcome::classify;

    use super::*;

    fn counted(outcome: Outcome, bytes: u64) -> Counts {
        let (counters, mut counts) = (Counters::default(), Counts::default());
        counters.record(&outcome, bytes);
        counts.add(&counters);
        counts
    }

    #[test]
    fn requests_count_here_as_they_do_in_the_statistics() {
        for kind in Kind::ALL {
            let totals = counted(Outcome::forwarded(kind, Why::Absent), 7).totals();
            let outcome = classify(kind.word()).expect("a known word");
            let counted = [totals.hits, totals.validated, totals.misses].map(|count| count == 1);
            assert_eq!(counted, [outcome.is_hit, outcome.is_validated, outcome.is_miss], "{kind:?}");
            assert_eq!(totals.bytes_from_cache == 7, outcome.from_cache, "{kind:?}");
            assert_eq!(totals.bytes_cacheable == 7, outcome.is_cacheable(), "{kind:?}");
        }
    }

    #[test]
    fn each_end_and_each_reason_has_a_place_of_its_own() {
        for kind in Kind::ALL {
            for tier in Tier::ALL {
                let counts = counted(Outcome::forwarded(kind, Why::Absent).from(tier), 7);
                let there: Vec<_> = counts.ends().filter(|ends| ends.requests > 0).collect();
                assert_eq!(there, [OutcomeCounts { kind, tier, requests: 1, bytes: 7 }]);
            }
        }
        for why in Why::ALL {
            let counts = counted(Outcome::forwarded(Kind::Miss, *why), 0);
            assert_eq!(counts.reasons().collect::<Vec<_>>(), [(*why, 1)]);
        }
    }

    #[test]
    fn counts_since_an_earlier_time_are_the_difference() {
        let (counters, mut then, mut now) = (Counters::default(), Counts::default(), Counts::default());
        counters.record(&Outcome::forwarded(Kind::Miss, Why::Absent), 7);
        then.add(&counters);
        counters.record(&Outcome::forwarded(Kind::Miss, Why::Absent), 5);
        counters.received(3);
        now.add(&counters);
        let since = now.since(&then);
        let totals = since.totals();
        assert_eq!((totals.misses, totals.bytes_served, totals.origin_bytes), (1, 5, 3));
        assert_eq!(since.reasons().collect::<Vec<_>>(), [(Why::Absent, 1)]);
        assert_eq!(now.since(&now).totals(), Totals::default());
    }
}
