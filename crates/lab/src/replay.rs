//! One trace through one policy at one capacity.
//!
//! The loop over the requests is compiled once for each policy, and once more for traces in which nothing but the
//! object differs: there a request reads four bytes.

use std::ops::Range;
use std::time::{Duration, Instant};

use larder_evict::{Alike, Attributes, Capacity, Policy, Replay, Request, Select, Spec};

use crate::trace::Trace;

/// How many requests pass between two calls to the watcher.
const STRETCH: usize = 1 << 20;

/// What to replay.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The requests.
    pub trace: &'a Trace,
    /// The policy.
    pub spec: &'a Spec,
    /// The cache's capacity. In a trace whose sizes are all alike, bytes are counted in whole objects.
    pub capacity: Capacity,
    /// How many requests at the beginning fill the cache without being counted.
    pub warmup: usize,
    /// Whether to count misses by object, for the error of a sample.
    pub by_object: bool,
    /// For the policy's randomness.
    pub seed: u64,
}

/// What happened after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Those of them that found their object.
    pub hits: u64,
    /// Bytes asked for.
    pub bytes: u128,
    /// Bytes asked for and found.
    pub hit_bytes: u128,
    /// Objects that had to leave for lack of room.
    pub evictions: u64,
    /// The sum over the objects of their misses squared; 0 if they were not counted by object.
    pub squared_misses: f64,
    /// How long all requests took, those of the warm-up too.
    pub elapsed: Duration,
    /// What the cache and its policy had allocated in the end, over the most objects there were at once.
    pub metadata_bytes_per_object: f64,
}

impl Run<'_> {
    /// Replays. `watch` is told now and then how many requests more are done, and says whether to go on; `None`
    /// if not.
    pub fn go(&self, watch: &dyn Fn(usize) -> bool) -> Option<Counts> {
        self.spec.select(Loop { run: self, watch })
    }
}

/// `capacity` as a replay of `trace` counts it: objects stand for one unit each where sizes do not differ.
pub(crate) fn in_units(trace: &Trace, capacity: Capacity) -> Capacity {
    if trace.is_empty() || trace.shape().sized {
        return capacity;
    }
    let each = capacity.weigh(trace.size(0));
    Capacity { amount: capacity.amount.checked_div(each).unwrap_or(u64::MAX), ..capacity }
}

struct Loop<'a> {
    run: &'a Run<'a>,
    watch: &'a dyn Fn(usize) -> bool,
}

impl Select for Loop<'_> {
    type Output = Option<Counts>;

    fn run<P: Policy>(self, params: P::Params) -> Option<Counts> {
        let Run { trace, by_object, seed, .. } = *self.run;
        let (capacity, shape) = (in_units(trace, self.run.capacity), trace.shape());
        let nexts = if P::OFFLINE { trace.nexts() } else { &[] };
        if shape.sized || shape.costed || by_object {
            let mut misses = if by_object { vec![0; shape.objects as usize] } else { Vec::new() };
            let cache = Replay::<P>::new(capacity, shape, params, seed);
            self.stretches(cache, &mut misses, |cache, range, misses| {
                whole(cache, trace, range, nexts, misses)
            })
        } else {
            let cache = Replay::<P, Alike>::of_alike(capacity, shape.objects, params, seed);
            self.stretches(cache, &mut [], |cache, range, _| {
                let hits = bare(cache, &trace.ids()[range.clone()], nexts.get(range).unwrap_or(&[]));
                Tally { hits, ..Tally::default() }
            })
        }
    }
}

/// What happened in some of the requests.
#[derive(Default)]
struct Tally {
    hits: u64,
    found: u128,
    asked: u128,
}

impl Loop<'_> {
    fn stretches<P: Policy, A: Attributes>(
        &self,
        mut cache: Replay<P, A>,
        misses: &mut [u32],
        replay: impl Fn(&mut Replay<P, A>, Range<usize>, &mut [u32]) -> Tally,
    ) -> Option<Counts> {
        let Run { trace, warmup, .. } = *self.run;
        let (mut counts, mut evictions) = (Counts::default(), 0);
        let start = Instant::now();
        let mut from = 0;
        while from < trace.len() {
            let end = if from < warmup { warmup.min(trace.len()) } else { trace.len() };
            let to = end.min(from + STRETCH);
            let tally = replay(&mut cache, from..to, misses);
            counts.hits += tally.hits;
            counts.hit_bytes += tally.found;
            counts.bytes += tally.asked;
            if to == warmup {
                (counts, evictions) = (Counts::default(), cache.evictions());
                misses.fill(0);
            }
            if !(self.watch)(to - from) {
                return None;
            }
            from = to;
        }
        counts.elapsed = start.elapsed();
        counts.requests = trace.len().saturating_sub(warmup) as u64;
        counts.evictions = cache.evictions() - evictions;
        counts.squared_misses = misses.iter().map(|&misses| f64::from(misses).powi(2)).sum();
        counts.metadata_bytes_per_object = cache.metadata_bytes() as f64 / cache.most().max(1) as f64;
        Some(counts.with_even_sizes(trace))
    }
}

// The loops stand apart: there the compiler sees that the cache's arrays are changed by nobody else, and does not
// look up where they are at every step.

/// Hits of requests that differ in nothing but the object; `nexts` is empty for a policy that does not look.
#[inline(never)]
fn bare<P: Policy>(cache: &mut Replay<P, Alike>, ids: &[u32], nexts: &[u32]) -> u64 {
    let request = |id, next| Request { id, size: 1, cost: 0, next };
    if P::OFFLINE {
        cache.requests(ids.iter().zip(nexts).map(|(&id, &next)| request(id, known(next))))
    } else {
        cache.requests(ids.iter().map(|&id| request(id, u64::MAX)))
    }
}

/// The same of requests that differ in more; `misses` counts by object unless it is empty.
#[inline(never)]
fn whole<P: Policy>(
    cache: &mut Replay<P>,
    trace: &Trace,
    range: Range<usize>,
    nexts: &[u32],
    misses: &mut [u32],
) -> Tally {
    let mut tally = Tally::default();
    for at in range {
        let next = if P::OFFLINE { known(nexts[at]) } else { u64::MAX };
        let request = Request { next, ..trace.request(at) };
        tally.asked += u128::from(request.size);
        if cache.request(request) {
            tally.hits += 1;
            tally.found += u128::from(request.size);
        } else if let Some(misses) = misses.get_mut(request.id as usize) {
            *misses += 1;
        }
    }
    tally
}

/// The number of the next request as a replay counts: the trace's "none" is never.
fn known(next: u32) -> u64 {
    if next == u32::MAX { u64::MAX } else { u64::from(next) }
}

impl Counts {
    /// Hits over requests; 0 without any.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits as f64, self.requests as f64)
    }

    /// Bytes found over bytes asked for; 0 without any.
    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes as f64, self.bytes as f64)
    }

    /// Where all objects have one size, the loop does not count bytes.
    fn with_even_sizes(mut self, trace: &Trace) -> Self {
        if !trace.shape().sized && self.requests > 0 {
            let each = u128::from(trace.size(0));
            (self.bytes, self.hit_bytes) = (u128::from(self.requests) * each, u128::from(self.hits) * each);
        }
        self
    }
}

/// `part` over `whole`; 0 of nothing.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
