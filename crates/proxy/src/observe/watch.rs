//! The live log: requests as they end, for the watching clients.
//!
//! While no client watches, a request costs one comparison. Otherwise, each worker puts its ended requests into its own
//! bounded queue. [`Watch::pump`] empties the queues ten times per second and sends their content to all watchers.
//! Requests are numbered, including those dropped because a queue was full: so a watcher can compute the number of
//! missing requests from a gap.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::memo::{RequestRecord, RequestResult, Visit};
use crate::base::shown::cut;

/// Maximum of concurrent watchers.
pub const MOST: usize = 16;
/// Interval at which queues are emptied.
const EVERY: Duration = Duration::from_millis(100);
/// Maximum of requests in all queues together.
const PLACES: usize = 4096;
/// Capacity of a queue at least.
const LEAST_PLACES: usize = 64;
/// Maximum of batches that wait for a slow watcher.
const BATCHES: usize = 8;
/// Maximum of stored bytes of a URL.
const LONGEST_URL: usize = 2048;
/// Maximum of stored bytes of a method, and the replacement of a longer one.
const LONGEST_METHOD: usize = 32;
const LONG_METHOD: &[u8] = b"LONG-METHOD";

/// A request that has ended, with its reply.
#[derive(Clone, Debug)]
pub struct EndedRequest {
    pub(crate) memo: RequestRecord,
    pub(crate) ended: RequestResult,
    pub(crate) took: Duration,
}

/// The queue of one worker.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    seen: Vec<EndedRequest>,
    /// Requests that were dropped because the queue was full.
    dropped: u64,
}

/// The requests that ended within a tenth of a second, in the order of their arrival.
#[derive(Debug, Default)]
struct Batch {
    /// The number of the first request.
    first: u64,
    seen: Vec<EndedRequest>,
    dropped: u64,
}

impl Batch {
    fn end(&self) -> u64 {
        self.first + self.seen.len() as u64 + self.dropped
    }
}

/// Number of watching clients. Workers read it for every request, so no changing data may share its cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicUsize);

/// The state that watchers share.
#[derive(Debug)]
pub struct Watch {
    count: Arc<Count>,
    begun: Notify,
    batches: Sender<Arc<Batch>>,
    /// The last batches, for queries about a URL.
    last: Mutex<VecDeque<Arc<Batch>>>,
    seats: Arc<Semaphore>,
    /// The queues of all workers.
    queues: Mutex<Vec<Arc<Queue>>>,
}

impl Default for Watch {
    fn default() -> Self {
        let (count, begun, (batches, _)) = (Arc::default(), Notify::new(), channel(BATCHES));
        Self {
            count,
            begun,
            batches,
            last: Mutex::default(),
            seats: Arc::new(Semaphore::new(MOST)),
            queues: Mutex::default(),
        }
    }
}

impl Watch {
    /// Whether a client watches.
    pub(crate) fn is_on(&self) -> bool {
        self.count.0.load(Ordering::Relaxed) > 0
    }

    /// Takes a seat for a long-lived response; `None` if all seats are taken.
    pub fn seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.seats).try_acquire_owned().ok()
    }

    /// Passes the recent requests to `see`, the latest first, until it returns false. There are only requests from
    /// times with a watching client.
    pub(crate) fn last(&self, mut see: impl FnMut(&EndedRequest) -> bool) {
        let batches: Vec<_> = self.last.lock().iter().rev().cloned().collect();
        let _ = batches.iter().flat_map(|batch| batch.seen.iter().rev()).all(&mut see);
    }

    fn hand_out(&self, batch: Arc<Batch>) {
        let mut last = self.last.lock();
        if !batch.seen.is_empty() {
            last.push_back(Arc::clone(&batch));
        }
        while last.iter().map(|batch| batch.seen.len()).sum::<usize>() > PLACES {
            last.pop_front();
        }
        drop(last);
        // The watcher may have left.
        let _ = self.batches.send(batch);
    }

    /// Creates the queue of another worker.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        let queue = Arc::<Queue>::default();
        self.queues.lock().push(Arc::clone(&queue));
        queue
    }

    /// Starts to watch the requests that end from now on.
    pub fn begin(&self) -> Watcher {
        if !self.is_on() {
            // Discards outdated requests that were queued after the last watcher had left.
            self.collect();
        }
        let batches = self.batches.subscribe();
        self.count.0.fetch_add(1, Ordering::Relaxed);
        self.begun.notify_one();
        Watcher { count: Arc::clone(&self.count), batches, next: None, missed: 0 }
    }

    /// Sends the content of the queues to the watchers, until the process ends.
    pub async fn pump(&self) {
        let mut first = 0;
        loop {
            self.begun.notified().await;
            while self.is_on() {
                tokio::time::sleep(EVERY).await;
                let batch = Batch { first, ..self.collect() };
                first = batch.end();
                self.hand_out(Arc::new(batch));
            }
            self.last.lock().clear();
        }
    }

    fn collect(&self) -> Batch {
        let mut batch = Batch::default();
        for queue in &*self.queues.lock() {
            let QueueState { seen, dropped } = queue.take();
            batch.seen.extend(seen);
            batch.dropped += dropped;
        }
        batch.seen.sort_by_key(|seen| seen.memo.begun);
        batch
    }
}

impl Queue {
    /// Puts a request into the queue of one of `workers` workers.
    pub(crate) fn put(&self, mut memo: RequestRecord, ended: &RequestResult, took: Duration, workers: usize) {
        let mut queued = self.0.lock();
        if queued.seen.len() >= (PLACES / workers.max(1)).max(LEAST_PLACES) {
            queued.dropped += 1;
            return;
        }
        cut(&mut memo.target, LONGEST_URL);
        if memo.method.as_str().len() > LONGEST_METHOD {
            memo.method = Method::from_bytes(LONG_METHOD).unwrap_or_default();
        }
        // Only the access log needs these values, and clients may send long ones.
        memo.visit = Visit::default();
        queued.seen.push(EndedRequest { memo, ended: *ended, took });
    }

    fn take(&self) -> QueueState {
        std::mem::take(&mut *self.0.lock())
    }
}

/// A watching client.
pub struct Watcher {
    count: Arc<Count>,
    batches: Receiver<Arc<Batch>>,
    /// The number of the next request.
    next: Option<u64>,
    missed: u64,
}

impl Watcher {
    /// Waits for ended requests and passes them to `see`.
    pub async fn watch(&mut self, mut see: impl FnMut(&EndedRequest)) {
        loop {
            match self.batches.recv().await {
                Ok(batch) => {
                    let expected = self.next.unwrap_or(batch.first);
                    self.missed += batch.first - expected + batch.dropped;
                    self.next = Some(batch.end());
                    batch.seen.iter().for_each(&mut see);
                    if expected < batch.end() {
                        return;
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                // The sender lives as long as the process.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Returns the number of requests that ended since the first call and were not passed on.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.count.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::outcome::{Kind, Outcome};
    use crate::exchange::route::SiteNumber;
    use larder_semantics::status::Why;

    fn batch(first: u64, seen: usize, dropped: u64) -> Arc<Batch> {
        let memo = RequestRecord::unread(([127, 0, 0, 1], 1).into());
        let outcome = Outcome::forwarded(Kind::Miss, Why::Absent);
        let ended = RequestResult {
            status: 200,
            site: SiteNumber::NONE,
            hash: 0,
            outcome,
            age: None,
            bytes: 1,
            saved: None,
        };
        Arc::new(Batch {
            first,
            seen: vec![EndedRequest { memo, ended, took: Duration::ZERO }; seen],
            dropped,
        })
    }

    #[tokio::test]
    async fn a_watcher_counts_the_requests_that_it_missed() {
        let watch = Watch::default();
        assert!(!watch.is_on());
        let mut watcher = watch.begin();
        assert!(watch.is_on());
        let mut shown = 0;
        watch.batches.send(batch(7, 2, 1)).unwrap();
        watcher.watch(|_| shown += 1).await;
        assert_eq!((shown, watcher.missed()), (2, 1));
        // More batches than the maximum: the first ones are lost.
        for at in 0..2 * BATCHES as u64 {
            watch.batches.send(batch(10 + at, 1, 0)).unwrap();
        }
        for _ in 0..BATCHES {
            watcher.watch(|_| shown += 1).await;
        }
        assert_eq!((shown, watcher.missed()), (2 + BATCHES, 1 + BATCHES as u64));
        drop(watcher);
        assert!(!watch.is_on());
    }

    #[test]
    fn the_last_requests_are_at_hand_within_bounds() {
        let watch = Watch::default();
        for _ in 0..3 {
            watch.hand_out(batch(0, PLACES / 2, 0));
        }
        let mut shown = 0;
        watch.last(|_| {
            shown += 1;
            true
        });
        assert_eq!(shown, PLACES);
        watch.last(|_| {
            shown += 1;
            shown < PLACES + 2
        });
        assert_eq!(shown, PLACES + 2);
    }

    #[test]
    fn a_queue_has_an_end() {
        let queue = Queue::default();
        let ended = batch(0, 1, 0).seen[0].ended;
        for _ in 0..LEAST_PLACES + 5 {
            queue.put(RequestRecord::unread(([127, 0, 0, 1], 1).into()), &ended, Duration::ZERO, usize::MAX);
        }
        let QueueState { seen, dropped } = queue.take();
        assert_eq!((seen.len(), dropped), (LEAST_PLACES, 5));
    }

    #[test]
    fn overlong_words_of_clients_are_cut_or_dropped_before_they_queue() {
        let ended = batch(0, 1, 0).seen[0].ended;
        let mut memo = RequestRecord::unread(([127, 0, 0, 1], 1).into());
        memo.method = Method::from_bytes(&[b'A'; 9_000]).unwrap();
        memo.visit =
            Visit { agent: Some("a".repeat(9_000)), referer: Some("r".repeat(9_000)), ..Visit::default() };
        memo.target = "t".repeat(9_000);
        let queue = Queue::default();
        queue.put(memo, &ended, Duration::ZERO, 1);
        let RequestRecord { method, visit, target, .. } = &queue.take().seen[0].memo;
        assert!(method.as_str().len() <= LONGEST_METHOD && target.len() == LONGEST_URL);
        assert!(visit.agent.is_none() && visit.referer.is_none());
    }

    #[test]
    fn urls_are_cut_between_characters() {
        let mut url = "\u{e4}".repeat(LONGEST_URL);
        url.insert(0, 'a');
        cut(&mut url, LONGEST_URL);
        assert_eq!(url.len(), LONGEST_URL - 1);
    }
}
