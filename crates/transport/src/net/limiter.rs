//! Counts requests against a limit: tokens in a bucket for each holder, and concurrent requests.
//!
//! A bucket is stored as the moment at which it is full again (the generic cell rate algorithm), so it needs no timer,
//! and a full bucket needs no memory. There are at most 65,536 buckets of 16 bytes each. When a shard has no room, it
//! drops its fullest bucket, whose holder gains the least from that.

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_store::HashKeys;
use parking_lot::{Mutex, MutexGuard};

use crate::base::settings::{Limit, Rate};

const SHARDS: usize = 256;
/// Maximum of buckets in a shard.
const OF_A_SHARD: usize = 256;

/// The rate of a limit, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refill {
    /// The time until the next token.
    interval: u64,
    /// The time in which an empty bucket becomes full.
    depth: u64,
}

/// A limit and the state of its holders; shared by all workers.
#[derive(Debug)]
pub struct Limiter {
    /// The limit.
    pub limit: Limit,
    refill: Option<Refill>,
    /// A keyed hash: a client must not be able to choose a value that falls into another holder's bucket.
    keys: HashKeys,
    epoch: Instant,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Debug, Default)]
struct Shard {
    buckets: Vec<Bucket>,
    /// Holders with requests in progress, and the number of these requests.
    in_progress: Vec<(Holder, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    holder: Holder,
    /// The moment at which the bucket is full, in nanoseconds since the limiter's epoch.
    full_at: u64,
}

/// The identity of the requests that share a bucket, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(u64);

/// A request in progress that counts against a limit until this value is dropped.
#[derive(Debug)]
pub struct LimitEntry {
    limiter: Arc<Limiter>,
    holder: Holder,
}

/// The part of a limit that a request exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// The rate; the next token is available after this duration.
    Rate(Duration),
    /// The number of concurrent requests.
    Concurrent,
}

impl Refill {
    /// Creates the rate of a limit.
    #[inline]
    pub fn new(rate: Rate) -> Self {
        let period = u64::try_from(rate.period.as_nanos()).unwrap_or(u64::MAX);
        let interval = period.div_ceil(u64::from(rate.requests.max(1))).max(1);
        Self { interval, depth: interval.saturating_mul(u64::from(rate.burst.max(1))) }
    }

    /// Returns the moment at which a bucket that is full at `full_at` will be full again if a token is taken at `now`.
    /// Errors: the time until the next token, if the bucket is empty.
    pub fn take(self, full_at: u64, now: u64) -> Result<u64, u64> {
        let full_at = full_at.max(now).saturating_add(self.interval);
        match (full_at - now).saturating_sub(self.depth) {
            0 => Ok(full_at),
            wait => Err(wait),
        }
    }
}

impl Limiter {
    /// Creates the state of a limit, without holders.
    pub fn new(limit: Limit) -> Self {
        Self {
            refill: limit.rate.map(Refill::new),
            limit,
            keys: HashKeys::default(),
            epoch: Instant::now(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the holder with this key.
    pub fn holder(&self, key: impl Hash) -> Holder {
        Holder(self.keys.hash_one(key))
    }

    /// Counts a request of `holder`. Returns a guard for the time that the request is in progress, if concurrent
    /// requests are limited. Errors: the part of the limit that the request exceeds. Such a request does not count.
    pub fn enter(self: &Arc<Self>, holder: Holder, at: Instant) -> Result<Option<LimitEntry>, ExceededLimit> {
        let now = self.elapsed(at);
        let mut shard = self.shard(holder);
        let most = self.limit.concurrent;
        if most.is_some_and(|most| shard.in_progress_of(holder) >= most) {
            return Err(ExceededLimit::Concurrent);
        }
        if let Some(refill) = self.refill {
            shard
                .take(refill, holder, now)
                .map_err(|wait| ExceededLimit::Rate(Duration::from_nanos(wait)))?;
        }
        Ok(most.map(|_| {
            shard.begin(holder);
            LimitEntry { limiter: Arc::clone(self), holder }
        }))
    }

    /// Returns a token to the bucket of `holder`.
    pub fn give_back(&self, holder: Holder) {
        let Some(refill) = self.refill else { return };
        let mut shard = self.shard(holder);
        if let Some(bucket) = shard.buckets.iter_mut().find(|bucket| bucket.holder == holder) {
            bucket.full_at = bucket.full_at.saturating_sub(refill.interval);
        }
    }

    /// Returns a copy of the buckets at `at`, for the next process: the keys of the hash (16 bytes), and for each bucket
    /// its holder and the time until it is full, in nanoseconds (8 bytes each, little-endian).
    pub fn copy(&self, at: Instant) -> Vec<u8> {
        let now = self.elapsed(at);
        let mut copy = self.keys.get().map(u64::to_le_bytes).as_flattened().to_vec();
        for shard in &self.shards {
            for bucket in shard.lock().buckets.iter().filter(|bucket| bucket.full_at > now) {
                copy.extend([bucket.holder.0, bucket.full_at - now].map(u64::to_le_bytes).as_flattened());
            }
        }
        copy
    }

    /// Restores the buckets of a copy at `at`. To be called before any request is counted. Returns `None`, and changes
    /// nothing, if the copy is malformed.
    pub fn restore(&self, copy: &[u8], at: Instant) -> Option<()> {
        let (words, []) = copy.as_chunks() else { return None };
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (keys, now) = ([words.next()?, words.next()?], self.elapsed(at));
        let buckets: Vec<_> = words.collect();
        let (buckets, []) = buckets.as_chunks() else { return None };
        self.keys.set(keys);
        let depth = self.refill.map_or(0, |refill| refill.depth);
        for [holder, left] in buckets {
            let bucket = Bucket { holder: Holder(*holder), full_at: now + (*left).min(depth) };
            let mut shard = self.shard(bucket.holder);
            if shard.buckets.len() < OF_A_SHARD {
                shard.buckets.push(bucket);
            }
        }
        Some(())
    }

    fn elapsed(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_nanos() as u64
    }

    fn shard(&self, holder: Holder) -> MutexGuard<'_, Shard> {
        self.shards[holder.0 as usize % SHARDS].lock()
    }
}

impl Shard {
    fn take(&mut self, refill: Refill, holder: Holder, now: u64) -> Result<(), u64> {
        if let Some(bucket) = self.buckets.iter_mut().find(|bucket| bucket.holder == holder) {
            bucket.full_at = refill.take(bucket.full_at, now)?;
            return Ok(());
        }
        let bucket = Bucket { holder, full_at: refill.take(now, now)? };
        let is_crowded = self.buckets.len() >= OF_A_SHARD;
        match self.buckets.iter_mut().min_by_key(|bucket| bucket.full_at) {
            Some(fullest) if is_crowded || fullest.full_at <= now => *fullest = bucket,
            _ => self.buckets.push(bucket),
        }
        Ok(())
    }

    fn in_progress_of(&self, holder: Holder) -> u32 {
        self.in_progress.iter().find(|(of, _)| *of == holder).map_or(0, |(_, count)| *count)
    }

    fn begin(&mut self, holder: Holder) {
        match self.in_progress.iter_mut().find(|(of, _)| *of == holder) {
            Some((_, count)) => *count += 1,
            None => self.in_progress.push((holder, 1)),
        }
    }

    fn end(&mut self, holder: Holder) {
        let Some(at) = self.in_progress.iter().position(|(of, _)| *of == holder) else { return };
        self.in_progress[at].1 -= 1;
        if self.in_progress[at].1 == 0 {
            self.in_progress.swap_remove(at);
        }
    }
}

impl Drop for LimitEntry {
    fn drop(&mut self) {
        self.limiter.shard(self.holder).end(self.holder);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::settings::{CountedRequests, LimitBy};

    const BUCKETS: usize = SHARDS * OF_A_SHARD;

    fn rate(requests: u32, period: Duration, burst: u32) -> Rate {
        Rate { requests, period, burst }
    }

    fn limiter(rate: Option<Rate>, concurrent: Option<u32>) -> Arc<Limiter> {
        Arc::new(Limiter::new(Limit { rate, concurrent, by: LimitBy::Client, counted: CountedRequests::All }))
    }

    #[test]
    fn a_burst_passes_and_then_one_in_each_interval() {
        let limiter = limiter(Some(rate(10, Duration::from_secs(1), 3)), None);
        let (holder, start) = (limiter.holder("a"), limiter.epoch);
        let at = |millis| limiter.enter(holder, start + Duration::from_millis(millis)).map(drop);
        let wait = |millis| Err(ExceededLimit::Rate(Duration::from_millis(millis)));
        assert_eq!([at(0), at(0), at(0), at(0)], [Ok(()), Ok(()), Ok(()), wait(100)]);
        assert_eq!([at(99), at(100), at(150), at(300)], [wait(1), Ok(()), wait(50), Ok(())]);
        assert_eq!(limiter.enter(limiter.holder("b"), start).map(drop), Ok(()), "others have their own");
        limiter.give_back(holder);
        assert_eq!(limiter.enter(holder, start + Duration::from_millis(300)).map(drop), Ok(()));
    }

    #[test]
    fn an_empty_bucket_is_still_empty_in_the_next_process() {
        let new = || limiter(Some(rate(10, Duration::from_secs(60), 3)), None);
        let (old, next) = (new(), new());
        let enter = |limiter: &Arc<Limiter>, who: &str, at| limiter.enter(limiter.holder(who), at).is_ok();
        let cut = old.epoch + Duration::from_secs(1_000);
        assert!((0..3).all(|_| enter(&old, "greedy", cut)) && enter(&old, "modest", cut));
        let copy = old.copy(cut);
        assert_eq!(next.restore(&copy, next.epoch), Some(()));
        assert!(!enter(&next, "greedy", next.epoch) && enter(&next, "modest", next.epoch));
        assert!(enter(&next, "greedy", next.epoch + Duration::from_secs(6)), "but then");
        assert_eq!(new().restore(&copy[..copy.len() - 8], cut), None);
        assert_eq!(new().restore(&copy[..copy.len() - 1], cut), None);
    }

    #[test]
    fn a_limiter_refuses_requests_of_a_holder_beyond_its_concurrent_limit() {
        let limiter = limiter(None, Some(2));
        let (holder, now) = (limiter.holder("a"), Instant::now());
        let mut held = [limiter.enter(holder, now), limiter.enter(holder, now)];
        assert_eq!(limiter.enter(holder, now).map(drop), Err(ExceededLimit::Concurrent));
        assert!(limiter.enter(limiter.holder("b"), now).is_ok());
        held[0] = Ok(None);
        assert!(limiter.enter(holder, now).is_ok());
        drop(held);
        assert!(limiter.shards.iter().all(|shard| shard.lock().in_progress.is_empty()));
    }

    #[test]
    fn memory_is_bounded_and_the_emptiest_buckets_stay() {
        let limiter = limiter(Some(rate(1, Duration::from_secs(60), 5)), None);
        let (greedy, start) = (limiter.holder("greedy"), limiter.epoch);
        (0..5).for_each(|_| assert!(limiter.enter(greedy, start).is_ok()));
        for number in 0..2 * BUCKETS {
            assert!(limiter.enter(limiter.holder(number), start).is_ok());
        }
        let buckets = || limiter.shards.iter().map(|shard| shard.lock().buckets.len());
        assert!(buckets().all(|count| count <= OF_A_SHARD));
        assert!(limiter.enter(greedy, start).is_err(), "it is still empty");
        // Full buckets are replaced: the limiter needs no more memory.
        let (before, later) = (buckets().sum::<usize>(), start + Duration::from_secs(3_600));
        (0..BUCKETS).for_each(|number| drop(limiter.enter(limiter.holder((number, 1)), later)));
        assert!(buckets().sum::<usize>() <= before.max(BUCKETS));
    }

    proptest! {
        #[test]
        fn in_any_window_no_more_pass_than_the_burst_and_the_rate(
            requests in 1u32..1_000, period in 1u64..10_000_000, burst in 1u32..50,
            pauses in prop::collection::vec(0u64..50_000, 1..400),
        ) {
            let refill = Refill::new(rate(requests, Duration::from_nanos(period), burst));
            let (mut now, mut full_at, mut passed) = (0, 0, Vec::new());
            for pause in pauses {
                now += pause;
                match refill.take(full_at, now) {
                    Ok(next) => {
                        full_at = next;
                        passed.push(now);
                    }
                    Err(wait) => {
                        prop_assert!(refill.take(full_at, now + wait - 1).is_err(), "not before");
                        prop_assert!(refill.take(full_at, now + wait).is_ok(), "but then");
                    }
                }
            }
            for (first, from) in passed.iter().enumerate() {
                for (last, to) in passed.iter().enumerate().skip(first) {
                    let by_rate = u128::from(to - from) * u128::from(requests) / u128::from(period);
                    prop_assert!((last - first + 1) as u128 <= u128::from(burst) + by_rate);
                }
            }
        }
    }
}
