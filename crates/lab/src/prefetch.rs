//! One trace through one policy with prefetching, by the proxy's decision code (`larder-predict`).
//!
//! A prefetch is stored immediately. Its response is in time for a client to the extent that the fetch was complete
//! before the client's request. A trace contains only storable responses, so that no prefetch is refused; objects that
//! it never requests do not exist.
//!
//! Outside this module: lifetimes, ranges, and the number of concurrent prefetches.

use hashbrown::HashMap;
use larder_evict::{AnyPolicy, Capacity, Replay, Request, Spec, spread};
use larder_predict::budget::Share;
use larder_predict::{Answer, Candidate, ClientRequest, Planner, Predictor, Predictors, PrefetchResult};

use crate::parallel::in_parallel;
use crate::replay::{Run, in_units, ratio};
use crate::subject::Subject;
use crate::sweep::{self, Watch};
use crate::trace::Trace;

/// The milliseconds between two requests, if the trace has no times.
pub const STEP: u64 = 100;
/// The size of all objects if the trace has no different sizes, in bytes.
const ALIKE: u64 = 64 << 10;
/// The number of requests between two calls to the watcher.
const STRETCH: usize = 1 << 16;

/// The simulation to run over a trace.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The policies, and how they run. Offline policies are excluded: prefetches change the future.
    pub base: sweep::Plan,
    /// The enabled predictors.
    pub kinds: Predictors,
    /// The share of the traffic that may be useless.
    pub share: Share,
}

/// One policy at one capacity.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The trace's name.
    pub trace: String,
    /// The policy.
    pub spec: Spec,
    /// The capacity.
    pub capacity: Capacity,
    /// The enabled predictors.
    pub kinds: Predictors,
    /// The share of the traffic that might be useless.
    pub share: Share,
    /// The counts.
    pub counts: Counts,
}

/// The counts after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Hits.
    pub hits: u64,
    /// Hits without prefetching.
    pub plain_hits: u64,
    /// Bytes that clients requested.
    pub bytes: u128,
    /// Prefetched objects.
    pub prefetches: u64,
    /// Prefetches whose object a client requested in time, as the proxy measures it.
    pub used: u64,
    /// Useless prefetches, as the proxy measures them.
    pub unused: u64,
    /// Requests that found an object which was stored only because of a prefetch.
    pub early: u64,
    /// Bytes of prefetched objects.
    pub prefetched_bytes: u128,
    /// Bytes of the objects that the `early` requests found.
    pub early_bytes: u128,
    /// The waiting time that these requests saved, in microseconds, if the trace has costs.
    pub saved: u128,
    /// Whether the trace has costs.
    pub has_costs: bool,
}

impl Counts {
    /// Returns the used prefetches over those whose use is known; `None` if there are none.
    pub fn precision(&self) -> Option<f64> {
        let known = self.used + self.unused;
        (known > 0).then(|| self.used as f64 / known as f64)
    }

    /// Returns the share of the requests that found an object because of a prefetch.
    pub fn early_ratio(&self) -> f64 {
        ratio(self.early as f64, self.requests as f64)
    }

    /// Returns the requests to the origin that were useless for all clients.
    pub fn extra_requests(&self) -> u64 {
        self.prefetches.saturating_sub(self.early)
    }

    /// Returns the bytes that were useless for all clients.
    pub fn extra_bytes(&self) -> u128 {
        self.prefetched_bytes.saturating_sub(self.early_bytes)
    }

    /// Returns hits over requests.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits as f64, self.requests as f64)
    }

    /// Returns the hit ratio without prefetching.
    pub fn plain_hit_ratio(&self) -> f64 {
        ratio(self.plain_hits as f64, self.requests as f64)
    }

    /// Returns the saved waiting time of a request on average, in microseconds; `None` if the trace has no costs.
    pub fn saved_per_request(&self) -> Option<f64> {
        self.has_costs.then(|| ratio(self.saved as f64, self.requests as f64))
    }
}

impl Plan {
    /// Runs every policy at each of `capacities`. `watch` is called from several threads with the number of further
    /// requests that are done, and returns whether to continue. Cells that it stopped are omitted; the others are in
    /// the order of capacity, then policy.
    pub fn run(&self, subject: &Subject, capacities: &[Capacity], watch: &Watch<'_>) -> Vec<Cell> {
        let jobs = self.base.cells(capacities);
        let objects = Objects::new(&subject.trace, self.kinds);
        in_parallel(&jobs, self.base.threads, |&(capacity, spec)| {
            let counts = self.counts(&subject.trace, &objects, spec, capacity, watch)?;
            let (trace, spec) = (subject.name.clone(), spec.clone());
            Some(Cell { trace, spec, capacity, kinds: self.kinds, share: self.share, counts })
        })
    }

    /// Returns the number of cells at each capacity.
    pub fn cells(&self) -> usize {
        self.base.specs.len()
    }

    fn counts(
        &self,
        trace: &Trace,
        objects: &Objects<'_>,
        spec: &Spec,
        capacity: Capacity,
        watch: &dyn Fn(usize) -> bool,
    ) -> Option<Counts> {
        let warmup = self.base.first_counted(trace);
        let run = Run { trace, spec, capacity, warmup, by_object: false, seed: self.base.seed };
        let plain = run.go(&|_| watch(0))?;
        let cache =
            Replay::<AnyPolicy>::new(in_units(trace, capacity), trace.shape(), spec.clone(), self.base.seed);
        let (planner, early, counts) = <_>::default();
        let mut world = World { plan: self, trace, objects, cache, planner, early, counts, now: 0 };
        let mut before = [0; 2];
        for at in 0..trace.len() {
            if at == warmup {
                (world.counts, before) = (Counts::default(), world.known());
            }
            world.request(at);
            if (at + 1) % STRETCH == 0 && !watch(STRETCH) {
                return None;
            }
        }
        if !watch(trace.len() % STRETCH) {
            return None;
        }
        let [used, unused] = world.known();
        Some(Counts {
            requests: trace.len().saturating_sub(warmup) as u64,
            plain_hits: plain.hits,
            has_costs: trace.costs().is_some() && trace.times().is_some(),
            used: used - before[0],
            unused: unused - before[1],
            ..world.counts
        })
    }
}

/// The properties of a trace's objects.
struct Objects<'t> {
    by_url: HashMap<u64, u32>,
    by_name: HashMap<&'t str, u32>,
    /// The size of each at its first request, in bytes.
    sizes: Vec<u64>,
}

impl<'t> Objects<'t> {
    fn new(trace: &'t Trace, kinds: Predictors) -> Self {
        let objects = trace.shape().objects;
        let mut sizes = Vec::with_capacity(objects as usize);
        for (at, &id) in trace.ids().iter().enumerate() {
            if id as usize == sizes.len() {
                sizes.push(trace.size(at));
            }
        }
        let names = (0..objects).filter_map(|id| Some((trace.name(id)?, id)));
        Self {
            by_url: (0..objects).map(|id| (spread(id), id)).collect(),
            by_name: if kinds.sequence { names.collect() } else { HashMap::new() },
            sizes,
        }
    }

    /// Returns the object of a wish; `None` if it does not exist.
    fn find(&self, wish: &Candidate) -> Option<u32> {
        match wish.target {
            Some(url) => self.by_url.get(&url).copied(),
            None => self.by_name.get(&*wish.url).copied(),
        }
    }
}

/// The state of the cache and the planner.
struct World<'a> {
    plan: &'a Plan,
    trace: &'a Trace,
    objects: &'a Objects<'a>,
    cache: Replay<AnyPolicy>,
    planner: Planner,
    /// Objects that are stored because of a prefetch, with the start of the prefetch in microseconds.
    early: HashMap<u32, u64>,
    counts: Counts,
    /// The time in milliseconds.
    now: u64,
}

impl World<'_> {
    fn request(&mut self, at: usize) {
        let (trace, request) = (self.trace, self.trace.request(at));
        let time = if trace.times().is_some() { trace.time(at) / 1_000 } else { at as u64 * STEP };
        self.now = self.now.max(time);
        let name = trace.name(request.id).unwrap_or_default();
        let ask = ClientRequest {
            now: self.now,
            client: trace.client(at).into(),
            site: 0,
            host: host(name),
            url: spread(request.id),
            text: name,
            range: None,
            kinds: self.plan.kinds,
            share: self.plan.share,
        };
        let mut wishes = Vec::new();
        self.planner.asked(&ask, &mut wishes);
        let is_hit = self.cache.request(request);
        self.count(request, is_hit, trace.time(at));
        let bytes = Some(self.bytes(request.size));
        let answer = Answer { by_cache: is_hit, is_stored: true, bytes, complete: None };
        self.planner.answered(&ask, &answer);
        wishes.iter().for_each(|wish| self.prefetch(wish, trace.time(at)));
    }

    fn count(&mut self, request: Request, is_hit: bool, time: u64) {
        self.counts.bytes += u128::from(request.size);
        self.counts.hits += u64::from(is_hit);
        let Some(begun) = self.early.remove(&request.id).filter(|_| is_hit) else { return };
        self.counts.early += 1;
        self.counts.early_bytes += u128::from(request.size);
        self.counts.saved += u128::from(time.saturating_sub(begun).min(request.cost.into()));
    }

    fn prefetch(&mut self, wish: &Candidate, time: u64) {
        let found = self.objects.find(wish);
        if found.is_some_and(|id| self.cache.contains(id)) {
            return;
        }
        let target = found.map_or_else(|| hash(&wish.url), spread);
        let Some(ticket) = self.planner.start(wish, target, 0, self.now) else { return };
        self.counts.prefetches += 1;
        let Some(id) = found else { return self.planner.ended(ticket, PrefetchResult::Failed(0), self.now) };
        let size = self.objects.sizes[id as usize];
        let bytes = self.bytes(size).min(ticket.most());
        self.counts.prefetched_bytes += u128::from(size.min(ticket.most()));
        if self.bytes(size) <= ticket.most() {
            self.cache.request(Request { id, size, cost: 0, next: u64::MAX });
        }
        let is_stored = self.cache.contains(id);
        if is_stored {
            self.early.insert(id, time);
        }
        let ending = if is_stored { PrefetchResult::Stored(bytes) } else { PrefetchResult::Failed(bytes) };
        self.planner.ended(ticket, ending, self.now);
    }

    /// Returns the size of an object for the budget, in bytes; all objects count the same if the trace has no sizes.
    fn bytes(&self, size: u64) -> u64 {
        if self.trace.shape().sized { size } else { ALIKE }
    }

    /// Returns the prefetches that are known to be used, and those known to be unused.
    fn known(&mut self) -> [u64; 2] {
        let figures = Predictor::ALL.map(|kind| self.planner.figures(kind, self.now));
        [figures.iter().map(|figures| figures.used).sum(), figures.iter().map(|figures| figures.unused).sum()]
    }
}

/// Returns a number for scheme and host of a URL.
fn host(url: &str) -> u64 {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    hash(&url[..end])
}

/// Returns the FNV-1a hash.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
