//! The work after a purge is in force: the entries that it reaches are counted, if a client waits for the count, and
//! freed.
//!
//! One thread sweeps memory and one sweeps the disks, each only while there is work. Purges that arrive meanwhile wait
//! and share the next sweep, however many they are. Entries that a purge reaches are freed even if their count is not
//! wanted; for a purge without a count, only the need for another sweep is kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use larder_semantics::purge::{Effect, Scope};
use larder_store::Generation;
use larder_store::reclaim::{Count, ReclaimCount};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::Cache;
use crate::base::clock;
use crate::base::schedule::Schedule;

/// The most purges that may wait for their counts. Further purges are in force and freed, but not counted.
const MOST: usize = 1_024;
/// The most of these that may wait for counts on the disks: each sweep holds some bytes for each response that it
/// reached.
const MOST_ON_DISKS: usize = 32;
/// The most purges that are counted by one sweep.
const BATCH: usize = 256;
/// The pause between two sweeps of memory if no count is wanted.
const REST: Duration = Duration::from_secs(1);

/// The sweeps that are due and in progress.
pub(crate) struct Reclaim {
    queue: Mutex<Queue>,
    /// Wakes a thread that pauses when there is work.
    changed: Condvar,
    room: Arc<Semaphore>,
    room_on_disks: Arc<Semaphore>,
    /// The objects on the disks that a sweep examines in a second.
    rate: AtomicU64,
    /// Whether the process ends: the next process frees the purged entries on the disks.
    ends: AtomicBool,
}

#[derive(Default)]
struct Queue {
    memory: SweepQueue,
    disks: SweepQueue,
    /// The earliest purge that is being counted in memory and will be counted on the disks.
    moving: Option<Generation>,
}

/// The sweeps of one tier.
#[derive(Default)]
struct SweepQueue {
    counts: VecDeque<CountWaiter>,
    /// Whether there are entries to free.
    is_due: bool,
    /// Whether a thread sweeps, or is about to.
    is_under_way: bool,
}

/// A client that waits for a count.
struct CountWaiter {
    count: Count,
    with_disks: bool,
    told: oneshot::Sender<ReclaimCount>,
    _permits: Permits,
}

/// Permits for one purge that waits, and for one that waits for the disks.
struct Permits {
    _any: OwnedSemaphorePermit,
    _on_disks: Option<OwnedSemaphorePermit>,
}

/// Lets later purges begin another sweep if one panics. The purges that waited for it get no count.
struct SweepGuard<'r> {
    reclaim: &'r Reclaim,
    looks: fn(&mut Queue) -> &mut SweepQueue,
}

impl Drop for SweepGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let mut queue = self.reclaim.queue.lock();
            queue.moving = None;
            *(self.looks)(&mut queue) = SweepQueue { is_due: true, ..SweepQueue::default() };
        }
    }
}

impl CountWaiter {
    fn generation(&self) -> Generation {
        self.count.ordered().generation()
    }

    fn tell(self) {
        // The client may have left.
        let _ = self.told.send(self.count.reached());
    }
}

/// The tiers in which a purge is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedTiers {
    Nowhere,
    InMemory,
    Everywhere,
}

impl Default for Reclaim {
    fn default() -> Self {
        let [room, room_on_disks] = [MOST, MOST_ON_DISKS].map(|most| Arc::new(Semaphore::new(most)));
        let (rate, ends) = (AtomicU64::new(Schedule::default().rate), AtomicBool::new(false));
        Self { queue: Mutex::default(), changed: Condvar::new(), room, room_on_disks, rate, ends }
    }
}

impl Reclaim {
    /// Limits sweeps of the disks to `rate` objects in a second from now on.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Ends sweeps of the disks when the process ends.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    fn permits(&self, with_disks: bool) -> Option<Permits> {
        let any = Arc::clone(&self.room).try_acquire_owned().ok()?;
        let on_disks = with_disks.then(|| Arc::clone(&self.room_on_disks).try_acquire_owned()).transpose();
        Some(Permits { _any: any, _on_disks: on_disks.ok()? })
    }

    /// Puts a purge in force, and has the entries that it reaches freed and counted as `counted` says. `None` for a
    /// purge that is not counted.
    pub(crate) fn enforce(
        &self,
        cache: &Arc<Cache>,
        scopes: Vec<Scope>,
        effect: Effect,
        counted: CountedTiers,
    ) -> Option<oneshot::Receiver<ReclaimCount>> {
        // Locked until the purge is queued for its count, so that no sweep passes its generation before.
        let mut queue = self.queue.lock();
        let with_disks = counted == CountedTiers::Everywhere && cache.store.has_near();
        let permits = (counted != CountedTiers::Nowhere).then(|| self.permits(with_disks)).flatten();
        let counts = if let Some(permits) = permits {
            let count = Count::of(cache.fills.enforce(scopes, effect, clock::now()), with_disks);
            let (told, counts) = oneshot::channel();
            queue.memory.counts.push_back(CountWaiter { count, with_disks, told, _permits: permits });
            Some(counts)
        } else {
            cache.fills.order(&scopes, effect, clock::now());
            None
        };
        self.free_with(queue, cache, effect == Effect::Remove);
        counts
    }

    /// Queues the count on the disks of a purge that is in force and was counted in memory. `None` if too many purges
    /// wait.
    pub(crate) fn count_on_disks(
        &self,
        cache: &Arc<Cache>,
        count: Count,
    ) -> Option<oneshot::Receiver<ReclaimCount>> {
        let permits = self.permits(true)?;
        let (told, counts) = oneshot::channel();
        self.queue.lock().disks.counts.push_back(CountWaiter {
            count,
            with_disks: true,
            told,
            _permits: permits,
        });
        self.start_on_disks(cache);
        Some(counts)
    }

    /// Has the entries freed that purges in force reach: in memory, and also on the disks if one of the purges
    /// `removes`.
    pub(crate) fn free(&self, cache: &Arc<Cache>, removes: bool) {
        self.free_with(self.queue.lock(), cache, removes);
    }

    /// [`free`](Self::free) on the disks only.
    pub(crate) fn free_on_disks(&self, cache: &Arc<Cache>) {
        self.queue.lock().disks.is_due = true;
        self.start_on_disks(cache);
    }

    fn free_with(&self, mut queue: MutexGuard<'_, Queue>, cache: &Arc<Cache>, removes: bool) {
        let on_disks = removes && cache.store.has_near();
        queue.memory.is_due = true;
        queue.disks.is_due |= on_disks;
        drop(queue);
        self.changed.notify_all();
        self.start(cache, "reclaim", |queue| &mut queue.memory, Self::look_through_memory);
        if on_disks {
            self.start_on_disks(cache);
        }
    }

    fn start_on_disks(&self, cache: &Arc<Cache>) {
        self.changed.notify_all();
        self.start(cache, "reclaim-disks", |queue| &mut queue.disks, Self::look_through_disks);
    }

    fn start(
        &self,
        cache: &Arc<Cache>,
        name: &str,
        looks: fn(&mut Queue) -> &mut SweepQueue,
        look: fn(&Self, &Arc<Cache>),
    ) {
        let mut queue = self.queue.lock();
        if looks(&mut queue).is_under_way {
            return;
        }
        let this = Arc::clone(cache);
        let thread = thread::Builder::new().name(name.to_owned());
        let run = move || {
            let ended = SweepGuard { reclaim: &this.reclaim, looks };
            look(&this.reclaim, &this);
            drop(ended);
        };
        match thread.spawn(run) {
            Ok(_) => looks(&mut queue).is_under_way = true,
            Err(error) => {
                // The purge is in force nevertheless, and the policy evicts the entries, since no request finds them.
                tracing::warn!("purged responses keep their space for now: {error}");
                looks(&mut queue).counts.clear();
            }
        }
    }

    fn look_through_memory(&self, cache: &Arc<Cache>) {
        while let Some((mut batch, until)) = self.next_in_memory(cache) {
            let mut counts: Vec<_> = batch.iter_mut().map(|waiting| &mut waiting.count).collect();
            cache.store.sweep_memory(&mut counts, until);
            let mut queue = self.queue.lock();
            queue.moving = None;
            let (on, done): (Vec<_>, Vec<_>) = batch.into_iter().partition(|waiting| waiting.with_disks);
            queue.disks.counts.extend(on);
            let (for_disks, rests) = (!queue.disks.counts.is_empty(), queue.memory.counts.is_empty());
            drop(queue);
            done.into_iter().for_each(CountWaiter::tell);
            if for_disks {
                self.start_on_disks(cache);
            }
            self.changed.notify_all();
            if rests {
                self.rest();
            }
        }
    }

    /// Waits until a count is wanted, or the pause between two sweeps of memory is over.
    fn rest(&self) {
        let is_idle = |queue: &mut Queue| queue.memory.counts.is_empty();
        self.changed.wait_while_for(&mut self.queue.lock(), is_idle, REST);
    }

    /// Returns the purges to be counted in memory next, and the generation up to which purges are applied. `None` if
    /// there is no work.
    fn next_in_memory(&self, cache: &Cache) -> Option<(Vec<CountWaiter>, Generation)> {
        let mut queue = self.queue.lock();
        let looks = &mut queue.memory;
        looks.counts.retain(|waiting| !waiting.told.is_closed());
        if looks.counts.is_empty() && !looks.is_due {
            looks.is_under_way = false;
            return None;
        }
        let batch: Vec<_> = looks.counts.drain(..looks.counts.len().min(BATCH)).collect();
        let now = cache.store.purges.now();
        // The waiting purges are in the order of their generations.
        let until = looks.counts.front().map_or(now, |next| next.generation().before());
        looks.is_due = until < now;
        queue.moving = batch.iter().filter(|waiting| waiting.with_disks).map(CountWaiter::generation).min();
        Some((batch, until))
    }

    fn look_through_disks(&self, cache: &Arc<Cache>) {
        while let Some((mut batch, until)) = self.next_on_disks(cache) {
            let rate = self.rate.load(Ordering::Relaxed);
            let mut counts: Vec<_> = batch.iter_mut().map(|waiting| &mut waiting.count).collect();
            let freed =
                cache.store.sweep_disks(&mut counts, until, rate, &mut || !self.ends.load(Ordering::Relaxed));
            let ReclaimCount { objects, bytes } = freed;
            tracing::info!("freed the space of purged objects on disk: {objects} objects, {bytes} bytes");
            for waiting in batch {
                cache.store.forget_pages(waiting.count.ordered());
                waiting.tell();
            }
        }
    }

    /// [`next_in_memory`](Self::next_in_memory) for the disks.
    fn next_on_disks(&self, cache: &Cache) -> Option<(Vec<CountWaiter>, Generation)> {
        let mut queue = self.queue.lock();
        loop {
            queue.disks.counts.retain(|waiting| !waiting.told.is_closed());
            let in_memory = queue.memory.counts.iter().filter(|waiting| waiting.with_disks);
            let coming = in_memory.map(CountWaiter::generation).chain(queue.moving).min();
            if !queue.disks.counts.is_empty() || (queue.disks.is_due && coming.is_none()) {
                let looks = &mut queue.disks;
                let batch: Vec<_> = looks.counts.drain(..looks.counts.len().min(BATCH)).collect();
                let now = cache.store.purges.now();
                let next = looks.counts.iter().map(CountWaiter::generation).chain(coming).min();
                let until = next.map_or(now, Generation::before);
                looks.is_due &= until < now;
                return Some((batch, until));
            }
            if !queue.disks.is_due {
                queue.disks.is_under_way = false;
                return None;
            }
            // Purges that are being counted in memory will join this sweep soon.
            self.changed.wait_for(&mut queue, REST);
        }
    }
}
