//! What shadow caches need of each request, on its way to another thread.
//!
//! A hit pays three comparisons and a subtraction: whether its key is in the sample, whether it is one of the heaviest keys,
//! whether its response is large, and whether it is the next of a few requests chosen at random, by which the heaviest keys are
//! found. Each worker has a bounded queue. If it is full, requests are dropped and counted. Once the sample lacks keys, hits of one of
//! the heaviest keys within some milliseconds are queued together, and so are requests for it that no cache can store.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use larder_advise::{Heavy, Sample};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::{Flags, Freshness};
use larder_semantics::status::Why;
use parking_lot::Mutex;

use super::memo::RequestResult;
use crate::base::clock;
use crate::base::outcome::{Kind, Outcome, Tier};
use crate::counts::counters::add;
use crate::exchange::reply::{Reply, Source};

/// The places for the heaviest keys, each for keys with the same low bits.
const PLACES: usize = 256;
/// The requests for a heavy key that are queued together, and the milliseconds within which. Shadows take them for consecutive,
/// although a small cache may have evicted a large object between two of them.
const BATCH: u64 = 128;
const BATCH_MILLIS: u64 = 64;
/// The most requests in all queues, which are emptied several times a second, and the least limit of one.
const QUEUED: usize = 8_192;
const LEAST_QUEUED: usize = 128;

/// Which requests the workers queue.
#[repr(align(128))]
pub(crate) struct Selection {
    multiplier: u64,
    /// The largest [mark](Sample::mark) of a key in the sample.
    limit: AtomicU64,
    /// The bytes sent from which a request is selected for any key.
    large: AtomicU64,
    /// The most requests in the queue of a worker.
    queued: AtomicUsize,
    /// The heaviest keys; 0 for none.
    heavy: [AtomicU64; PLACES],
    taps: Mutex<Vec<Arc<TapState>>>,
}

/// The tap of one worker.
pub(crate) struct Tap {
    selection: Arc<Selection>,
    state: Arc<TapState>,
}

#[repr(align(128))]
struct TapState {
    /// The steps until the next request that is chosen at random.
    left: AtomicU32,
    /// By place: hits, and requests for responses that may not be stored.
    hits: [Batch; PLACES],
    unstorable: [Batch; PLACES],
    queue: Mutex<Queue>,
}

/// Requests for a heavy key that wait, and when those before were queued, in [milliseconds](clock::millis).
#[derive(Default)]
struct Batch {
    requests: AtomicU64,
    bytes: AtomicU64,
    queued: AtomicU64,
    /// The time is read if these bits of the number of requests are 0. There are such bits after many requests in the last batch:
    /// reading it for each hit would take longer than the rest.
    unclocked: AtomicU64,
}

/// What one worker has seen.
#[derive(Default)]
pub(crate) struct Queue {
    /// Requests of the sample, or for the heaviest keys.
    pub(crate) seen: Vec<SeenRequest>,
    /// The keys and bytes of requests that were chosen at random.
    pub(crate) chosen: Vec<(u64, u64)>,
    /// Requests that were dropped, since the queue was full.
    pub(crate) lost: u64,
}

/// One or more requests for a key with the same outcome.
pub(crate) struct SeenRequest {
    pub(crate) key: u64,
    pub(crate) kind: Kind,
    pub(crate) why: Why,
    /// The time of the last one (UNIX seconds), and its place among those of all workers.
    pub(crate) now: u32,
    pub(crate) ended: Instant,
    /// The tier that answered a hit.
    pub(crate) tier: Tier,
    pub(crate) requests: u32,
    pub(crate) bytes: u64,
    /// The response, if it is stored or may be.
    pub(crate) response: Option<SeenResponse>,
}

/// A response that may be stored. The response itself is not kept here: it would take memory beyond the budget.
pub(crate) struct SeenResponse {
    /// Bytes of content; of a response that is stored by slices, those of the slices that the reply needed.
    pub(crate) length: u64,
    pub(crate) freshness: Freshness,
    /// The cost of fetching it, in microseconds.
    pub(crate) cost: u32,
}

impl Selection {
    pub(crate) fn new(sample: Sample) -> Arc<Self> {
        Arc::new(Self {
            multiplier: sample.multiplier(),
            limit: AtomicU64::new(sample.limit()),
            large: AtomicU64::new(u64::MAX),
            queued: AtomicUsize::new(QUEUED),
            heavy: [const { AtomicU64::new(0) }; PLACES],
            taps: Mutex::default(),
        })
    }

    /// Returns the tap of another worker.
    pub(crate) fn tap(self: &Arc<Self>) -> Tap {
        let state = Arc::new(TapState {
            left: AtomicU32::new(Heavy::DISTANCE),
            hits: std::array::from_fn(|_| Batch::default()),
            unstorable: std::array::from_fn(|_| Batch::default()),
            queue: Mutex::default(),
        });
        let mut taps = self.taps.lock();
        taps.push(Arc::clone(&state));
        self.queued.store((QUEUED / taps.len()).max(LEAST_QUEUED), Ordering::Relaxed);
        drop(taps);
        Tap { selection: Arc::clone(self), state }
    }

    /// Returns the sample of all keys.
    pub(crate) fn all(&self) -> Sample {
        Sample::all(self.multiplier)
    }

    /// Selects the keys of this sample from now on, and requests for which at least `large` bytes were sent.
    pub(crate) fn set_sample(&self, sample: Sample, large: u64) {
        self.limit.store(sample.limit(), Ordering::Relaxed);
        self.large.store(large, Ordering::Relaxed);
    }

    /// Puts the heaviest keys into their places, of two for the same place the latter. Returns those that have one.
    pub(crate) fn set_heavy(&self, keys: &[u64]) -> Vec<u64> {
        let mut places = [0; PLACES];
        keys.iter().for_each(|key| places[place(*key)] = *key);
        self.heavy.iter().zip(places).for_each(|(place, key)| place.store(key, Ordering::Relaxed));
        places.into_iter().filter(|key| *key != 0).collect()
    }

    /// Empties the queues of all workers.
    pub(crate) fn take(&self) -> Vec<Queue> {
        self.taps.lock().iter().map(|tap| mem::take(&mut *tap.queue.lock())).collect()
    }
}

/// Whether a cache could have answered such a request.
fn is_cacheable(kind: Kind) -> bool {
    !matches!(kind, Kind::Pass | Kind::Refused | Kind::Failed)
}

fn place(key: u64) -> usize {
    key as usize % PLACES
}

impl Tap {
    /// Notes a request that ended, if it is selected.
    #[inline]
    pub(crate) fn note(&self, reply: &Reply, ended: &RequestResult) {
        let Self { selection, state } = self;
        let is_in_sample = ended.hash.wrapping_mul(selection.multiplier)
            <= selection.limit.load(Ordering::Relaxed)
            || ended.bytes >= selection.large.load(Ordering::Relaxed);
        let is_heavy = selection.heavy[place(ended.hash)].load(Ordering::Relaxed) == ended.hash;
        let left = state.left.load(Ordering::Relaxed);
        let step = Heavy::step(ended.bytes);
        let is_chosen = left < step;
        state.left.store(left.wrapping_sub(step), Ordering::Relaxed);
        if is_in_sample || is_heavy || is_chosen {
            let most = selection.queued.load(Ordering::Relaxed);
            // If all keys are in the sample, there are few requests.
            let is_batched =
                is_heavy && ended.hash != 0 && selection.limit.load(Ordering::Relaxed) < u64::MAX;
            let batch = is_batched.then(|| state.batch(reply, ended)).flatten();
            let waits = batch.is_some_and(|batch| batch.add(ended.bytes));
            if !waits || is_chosen {
                state.put(reply, ended, (is_in_sample || is_heavy, is_batched, is_chosen), most);
            }
        }
    }
}

impl TapState {
    /// Returns the batch of a request for a heavy key; `None` for one that is queued by itself, as any miss that may be stored.
    fn batch(&self, reply: &Reply, ended: &RequestResult) -> Option<&Batch> {
        let at = place(ended.hash);
        match ended.outcome.is_hit() {
            true => Some(&self.hits[at]),
            false if is_cacheable(ended.outcome.kind) && SeenResponse::is_unstorable(reply) => {
                Some(&self.unstorable[at])
            }
            false => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn put(
        &self,
        reply: &Reply,
        ended: &RequestResult,
        (is_selected, is_batched, is_chosen): (bool, bool, bool),
        most: usize,
    ) {
        if is_chosen {
            self.left.store(fastrand::u32(..2 * Heavy::DISTANCE), Ordering::Relaxed);
        }
        if !is_cacheable(ended.outcome.kind) || ended.hash == 0 {
            return;
        }
        let (mut requests, mut bytes) = (1, ended.bytes);
        let mut is_complete = is_selected;
        if is_batched {
            let batch = self.batch(reply, ended);
            // A miss that may be stored ends the batch of hits before it.
            let taken = batch.unwrap_or_else(|| {
                let hits = &self.hits[place(ended.hash)];
                hits.add(bytes);
                hits
            });
            match taken.take(batch.is_some(), clock::millis()) {
                Some(complete) => (requests, bytes) = complete,
                None => is_complete = false,
            }
        }
        if !is_complete && !is_chosen {
            return;
        }
        let mut queue = self.queue.lock();
        if is_chosen && queue.chosen.len() < most {
            queue.chosen.push((ended.hash, ended.bytes));
        }
        if !is_complete {
            return;
        }
        if queue.seen.len() >= most {
            queue.lost += requests;
            return;
        }
        let response = SeenResponse::of(reply, ended.bytes);
        let requests = requests.try_into().unwrap_or(u32::MAX);
        let (key, Outcome { kind, why, tier, .. }) = (ended.hash, ended.outcome);
        queue.seen.push(SeenRequest {
            key,
            kind,
            why,
            tier,
            now: clock::now(),
            ended: Instant::now(),
            requests,
            bytes,
            response,
        });
    }
}

impl Batch {
    /// Adds a request. Returns whether it may wait without a look at the time.
    #[inline]
    fn add(&self, sent: u64) -> bool {
        add(&self.requests, 1);
        add(&self.bytes, sent);
        self.requests.load(Ordering::Relaxed) & self.unclocked.load(Ordering::Relaxed) != 0
    }

    /// Returns the requests that are queued now, and their bytes: all of them if the last one may not wait.
    fn take(&self, may_wait: bool, now: u64) -> Option<(u64, u64)> {
        let requests = self.requests.load(Ordering::Relaxed);
        let waited = now.saturating_sub(self.queued.load(Ordering::Relaxed));
        if may_wait && requests < BATCH && waited < BATCH_MILLIS {
            return None;
        }
        self.unclocked.store((requests / 16).next_power_of_two() - 1, Ordering::Relaxed);
        self.requests.store(0, Ordering::Relaxed);
        self.queued.store(now, Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        Some((requests, bytes))
    }
}

impl SeenResponse {
    fn of(reply: &Reply, bytes: u64) -> Option<Self> {
        match &reply.fields {
            Source::Entry(entry) | Source::NotModified(entry) => {
                let length = match entry.body().slices() {
                    Some(sliced) => sliced.len_of_slices(bytes),
                    None => entry.body().len(),
                };
                Some(Self { length, freshness: entry.freshness(), cost: entry.cost() })
            }
            Source::Fill(head) => {
                let length = head.length.or(reply.length).unwrap_or(bytes);
                Some(Self { length, freshness: head.freshness, cost: head.cost })
            }
            Source::Answer(lines) => Self::forwarded(reply, bytes, &**lines),
            Source::Fields(fields) => Self::forwarded(reply, bytes, &**fields),
        }
    }

    /// Whether no cache may store the response.
    fn is_unstorable(reply: &Reply) -> bool {
        let is_forwarded = matches!(&reply.fields, Source::Answer(_) | Source::Fields(_));
        is_forwarded && !reply.outcome.may_be_stored() && reply.outcome.why != Why::TooLarge
    }

    /// Returns a response whose `fields` were forwarded, if a cache, or a larger one, may store it.
    fn forwarded(reply: &Reply, bytes: u64, fields: &impl Fields) -> Option<Self> {
        if Self::is_unstorable(reply) {
            return None;
        }
        let outcome = &reply.outcome;
        let lifetime = outcome.ttl.and_then(|ttl| ttl.try_into().ok()).unwrap_or(0);
        let has_validator = reply.status.is_success() && fields.contains_any(&["etag", "last-modified"]);
        let flags = if has_validator { Flags::VALIDATOR } else { Flags::default() };
        let cost = outcome.origin_time.map_or(0, |time| time.as_micros());
        Some(Self {
            length: reply.length.unwrap_or(bytes),
            freshness: Freshness { received: clock::now(), lifetime, flags, ..Freshness::default() },
            cost: cost.try_into().unwrap_or(u32::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn hits_of_a_heavy_key_are_queued_together_up_to_a_miss() {
        let batch = Batch::default();
        let hits = |count, now| -> Vec<_> {
            let hit = |_| if batch.add(10) { None } else { batch.take(true, now) };
            (0..count).filter_map(hit).collect()
        };
        assert_eq!(hits(129, 1_000), [(1, 10), (128, 1_280)]);
        // Now the time is read for every eighth one.
        assert_eq!(hits(15, 2_000), [(8, 80)]);
        assert_eq!(hits(2, 3_000), [(8, 80)]);
        assert_eq!(hits(3, 3_010), []);
        batch.add(10);
        assert_eq!(batch.take(false, 3_011), Some((5, 50)));
    }

    #[test]
    fn only_misses_that_no_cache_can_store_wait_in_a_batch() {
        let tap = Selection::new(Sample::all(1)).tap();
        let batch_of = |kind, why, ttl| {
            let reply = Reply::text(StatusCode::OK, "page".to_owned(), Outcome::forwarded(kind, why));
            let reply = Reply { hash: 7, outcome: Outcome { ttl, ..reply.outcome }, ..reply };
            let batch = tap.state.batch(&reply, &RequestResult::by(&reply, 4))?;
            Some(if std::ptr::eq(batch, &raw const tap.state.hits[7]) { "hits" } else { "unstorable" })
        };
        assert_eq!(batch_of(Kind::Hit, Why::Fresh, Some(9)), Some("hits"));
        assert_eq!(batch_of(Kind::Miss, Why::Absent, None), Some("unstorable"));
        assert_eq!(batch_of(Kind::Pass, Why::Method, None), None, "no cache could answer");
        assert_eq!(batch_of(Kind::Miss, Why::Absent, Some(9)), None, "it may be stored");
        assert_eq!(batch_of(Kind::Miss, Why::TooLarge, None), None, "a larger cache stores it");
    }

    #[test]
    fn requests_beyond_a_full_queue_are_dropped_and_counted() {
        let selection = Selection::new(Sample::all(1));
        let taps = [(); 65].map(|()| selection.tap());
        let hit = Outcome::hit(Kind::Hit, Why::Fresh, 0);
        let reply = Reply { hash: 7, ..Reply::text(StatusCode::OK, "page".to_owned(), hit) };
        let ended = RequestResult::by(&reply, 4);
        let ask = |times| {
            (0..times).for_each(|_| taps[0].note(&reply, &ended));
            let queues = selection.take();
            let queue = queues.iter().find(|queue| !queue.seen.is_empty()).expect("a request");
            (queue.seen.len(), queue.lost)
        };
        assert_eq!(ask(130), (LEAST_QUEUED, 2));
        assert_eq!(ask(1), (1, 0));
    }
}
