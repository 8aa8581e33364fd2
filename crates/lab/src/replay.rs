//! One trace through one policy at one capacity.
//!
//! The loop over the requests is compiled once for each policy, and once more for traces in which only the object
//! differs: there a request reads four bytes.

use std::ops::Range;
use std::time::{Duration, Instant};

use larder_evict::{Attributes, Capacity, Policy, PolicyVisitor, Replay, Request, Spec, UnitAttributes};

use crate::trace::Trace;

/// The number of requests between two calls to the watcher.
const STRETCH: usize = 1 << 20;

/// The parameters of a replay.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The requests.
    pub trace: &'a Trace,
    /// The policy.
    pub spec: &'a Spec,
    /// The cache's capacity. If all sizes in a trace are equal, bytes are counted in whole objects.
    pub capacity: Capacity,
    /// The number of initial requests that fill the cache without being counted.
    pub warmup: usize,
    /// Whether to count misses by object, for the error of a sample.
    pub by_object: bool,
    /// The seed of the policy's randomness.
    pub seed: u64,
}

/// The counts after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Hits.
    pub hits: u64,
    /// Bytes requested.
    pub bytes: u128,
    /// Bytes of hits.
    pub hit_bytes: u128,
    /// Objects evicted for lack of room.
    pub evictions: u64,
    /// The sum of the objects' squared misses; 0 if misses were not counted by object.
    pub squared_misses: f64,
    /// The time of all requests, including the warm-up.
    pub elapsed: Duration,
    /// The final allocation of the cache and its policy over the largest number of objects at once, in bytes.
    pub metadata_bytes_per_object: f64,
}

impl Run<'_> {
    /// Replays the trace. `watch` is called at intervals with the number of further requests that are done, and returns
    /// whether to continue. Returns `None` if it stopped.
    pub fn go(&self, watch: &dyn Fn(usize) -> bool) -> Option<Counts> {
        self.spec.select(Loop { run: self, watch })
    }
}

/// Returns `capacity` in the units of a replay of `trace`: if sizes do not differ, each object counts as one unit.
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

impl PolicyVisitor for Loop<'_> {
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
            let cache = Replay::<P, UnitAttributes>::of_alike(capacity, shape.objects, params, seed);
            self.stretches(cache, &mut [], |cache, range, _| {
                let hits = bare(cache, &trace.ids()[range.clone()], nexts.get(range).unwrap_or(&[]));
                Tally { hits, ..Tally::default() }
            })
        }
    }
}

/// The counts of a part of the requests.
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

// The loops are separate functions: so the compiler sees that no other code changes the cache's arrays, and does not
// reload their addresses at every step.

/// Returns the hits of requests that differ only in the object; `nexts` is empty for an online policy.
#[inline(never)]
fn bare<P: Policy>(cache: &mut Replay<P, UnitAttributes>, ids: &[u32], nexts: &[u32]) -> u64 {
    let request = |id, next| Request { id, size: 1, cost: 0, next };
    if P::OFFLINE {
        cache.requests(ids.iter().zip(nexts).map(|(&id, &next)| request(id, known(next))))
    } else {
        cache.requests(ids.iter().map(|&id| request(id, u64::MAX)))
    }
}

/// Returns the hits of requests that differ in more properties; `misses` counts by object unless it is empty.
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

/// Returns the number of the next request in a replay's scale: the trace's "none" becomes never.
fn known(next: u32) -> u64 {
    if next == u32::MAX { u64::MAX } else { u64::from(next) }
}

impl Counts {
    /// Returns hits over requests; 0 if there are none.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits as f64, self.requests as f64)
    }

    /// Returns bytes of hits over bytes requested; 0 if there are none.
    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes as f64, self.bytes as f64)
    }

    /// Adds the bytes if all objects have the same size, since the loop does not count them then.
    fn with_even_sizes(mut self, trace: &Trace) -> Self {
        if !trace.shape().sized && self.requests > 0 {
            let each = u128::from(trace.size(0));
            (self.bytes, self.hit_bytes) = (u128::from(self.requests) * each, u128::from(self.hits) * each);
        }
        self
    }
}

/// Returns `part` over `whole`; 0 if `whole` is 0.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
