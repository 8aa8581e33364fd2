//! Carries the content of an answer into the cache. Content that arrived whole with its head is stored at once. Other
//! content is carried by a separate task, so that the client that caused the fetch may leave without ending it for
//! others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use http::StatusCode;
use larder_packages::PackCheck;
use larder_semantics::range::ContentRange;
use larder_semantics::status::Why;
use larder_store::fill::{FillWriter, Reader, StoreRefusal};
use larder_store::{Body, Entry};

use crate::base::{clock, in_place};
use crate::exchange::plan::Plan;
use crate::exchange::target;
use crate::flow::combine;
use crate::flow::worker::Worker;
use crate::origin::{Chunk, Download};

/// The interval between checks whether a disk has written its waiting data.
const PAUSE: Duration = Duration::from_millis(2);
/// The time without any written byte after which the fill stops writing to the disk.
const STUCK: Duration = Duration::from_secs(2);

/// Carries content into a fill.
pub(crate) struct FillTask {
    pub(crate) writer: FillWriter,
    /// For a part: its range, to check its length.
    pub(crate) expected: Option<ContentRange>,
    /// For a part that completes another: the length of both together, in bytes.
    pub(crate) whole: Option<u64>,
    /// The stored response that the new one replaces.
    pub(crate) replaces: Option<Entry>,
    /// The limit on the content of a response that no client has requested.
    pub(crate) allowance: Option<Arc<Allowance>>,
    /// For a pack of git, which is published only if it is whole.
    pub(crate) pack: Option<PackCheck>,
    pub(crate) worker: Arc<Worker>,
}

/// A limit on the bytes that may arrive without a reader, and the count of those that have arrived.
pub(crate) struct Allowance {
    most: u64,
    arrived: AtomicU64,
}

impl Allowance {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, arrived: AtomicU64::new(0) })
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Whether more bytes have arrived than the limit.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.arrived() > self.most
    }

    /// Records that `arrived` bytes have arrived, and returns whether that exceeds the limit.
    fn is_exceeded_by(&self, arrived: u64) -> bool {
        self.arrived.store(arrived, Ordering::Relaxed);
        self.is_exceeded()
    }
}

/// The start of the period without readers, and the bytes that had arrived by then.
#[derive(Default)]
struct ReaderlessTime(Option<(Instant, u64)>);

impl ReaderlessTime {
    /// Whether the answer has had no reader for the `stall` timeout, and arrived more slowly than `unread_rate` since.
    fn is_too_slow(&mut self, writer: &FillWriter, worker: &Worker) -> bool {
        if !writer.is_unread() {
            self.0 = None;
            return false;
        }
        let (since, from) = *self.0.get_or_insert_with(|| (Instant::now(), writer.len()));
        let timeouts = &worker.plan().settings.timeouts;
        let elapsed = since.elapsed();
        elapsed >= timeouts.stall && {
            let due = u128::from(timeouts.unread_rate) * elapsed.as_millis() / 1000;
            u128::from(writer.len() - from) < due
        }
    }
}

impl FillTask {
    /// A task for an answer that is stored by itself, and not joined with another part.
    pub(crate) fn new(worker: &Arc<Worker>, writer: FillWriter) -> Self {
        let (expected, whole, replaces, allowance, pack) = <_>::default();
        Self { writer, expected, whole, replaces, allowance, pack, worker: Arc::clone(worker) }
    }

    /// Begins to carry `download`, after the content of `prefix`, and publishes it when it is complete. If the content
    /// arrived whole with its head, it is stored when this returns, unless a disk has to be waited for.
    pub(crate) fn start(self, download: Box<Download>, prefix: Option<Entry>) {
        if prefix.is_some() || !download.is_here() {
            tokio::spawn(self.carry(download, prefix));
            return;
        }
        let mut carrying = in_place::pinned(|| self.carry(download, prefix));
        if carrying.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(carrying);
        }
    }

    pub(super) async fn carry(mut self, mut download: Box<Download>, prefix: Option<Entry>) {
        self.writer.keep().await;
        let (was_stored, mut unread) = (self.writer.unstored().is_none(), ReaderlessTime::default());
        if let Some(prefix) = prefix
            && self.copy(prefix.body(), &mut download).await.is_err()
        {
            return;
        }
        loop {
            let appended = match download.next().await {
                Ok(Some(Chunk::Data(data))) => {
                    self.pack.iter_mut().for_each(|pack| pack.update(data));
                    self.writer.append(data).await
                }
                // RFC 9111 section 3: trailers may be discarded when a response is stored.
                Ok(Some(Chunk::Trailers(_))) => continue,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!("content truncated: {error}");
                    if !download.is_refused() {
                        self.publish_beginning().await;
                    }
                    return;
                }
            };
            if let Err(error) = appended {
                tracing::debug!("fetch abandoned: {error}");
                return;
            }
            self.wait_for_disk().await;
            let arrived = self.writer.len();
            if self.whole.is_some_and(|whole| arrived > whole) {
                tracing::warn!("a partial response is longer than its content-range says");
                return;
            }
            let is_too_much =
                self.allowance.as_ref().is_some_and(|allowance| allowance.is_exceeded_by(arrived));
            if is_too_much && self.writer.give_up_unread() {
                return self.publish_beginning().await;
            }
            if unread.is_too_slow(&self.writer, &self.worker) && self.writer.give_up_unread() {
                tracing::debug!("fetch abandoned: it is slow and has no reader");
                return self.publish_beginning().await;
            }
        }
        self.note_unstored(was_stored);
        if self.whole.is_some_and(|whole| whole != self.writer.len()) {
            tracing::warn!("a partial response is not as long as its content-range says");
            return;
        }
        if let Some(error) = self.writer.refused() {
            tracing::warn!(
                "not kept in memory: {error} (memory file); is there a limit of file sizes (ulimit -f)?"
            );
        }
        match self.expected {
            None if self.pack.take().is_some_and(|pack| !pack.is_whole()) => self.writer.finish_unstored(),
            None => drop(self.finish()),
            Some(range) => self.publish_part(&range).await,
        }
    }

    /// Publishes the complete response, and records if the policy of the memory does not admit it.
    fn finish(self) -> Option<Entry> {
        let Self { writer, replaces, worker, .. } = self;
        let (head, hash) = (writer.head(), writer.hash());
        let finished = writer.finish(replaces.as_ref());
        if let (Err(StoreRefusal::NotAdmitted), Some(head)) = (&finished, head) {
            let answer = Some((head.status, &head.fields.view()));
            worker.shared.observers.verdicts.note(hash, Why::NotAdmitted, answer, &[]);
        }
        finished.ok()
    }

    /// Waits while the disk has much data to write and no other tier stores the response. This applies backpressure to
    /// the origin: clients that read faster than the disk writes get the response at the disk's pace. A disk that
    /// writes nothing for `STUCK` is given up.
    async fn wait_for_disk(&mut self) {
        let mut last = None;
        while let Some(written) = self.writer.disk_behind() {
            match last {
                Some((then, since)) if then == written => {
                    if Instant::elapsed(&since) >= STUCK {
                        return self.writer.give_up_disk();
                    }
                }
                _ => last = Some((written, Instant::now())),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Records why the response is not stored, although the reply to its client said that it would be: memory took only
    /// its beginning, or the disk did not take it.
    fn note_unstored(&self, was_stored: bool) {
        let Some((unstored, head)) = self.writer.unstored().zip(self.writer.head()) else { return };
        let (shared, is_lost) = (&self.worker.shared, self.writer.is_lost_by_disk());
        if !was_stored && !is_lost {
            return;
        }
        let Some(why) = (if is_lost { Some(Why::NotWritten) } else { self::unstored(unstored) }) else {
            return;
        };
        let hash = self.writer.hash();
        shared.observers.verdicts.note(hash, why, Some((head.status, &head.fields.view())), &[]);
        if is_lost {
            let whole = || {
                let (url, len) = (logged_url(&self.worker, self.writer.key()), self.writer.len());
                format!("{url} ({len} bytes) is not stored: {}", why.explanation())
            };
            shared.observers.repeats.warn(why.explanation(), whole);
        }
    }

    /// Copies `body`, which precedes the content of `download`.
    async fn copy(&mut self, body: &Body, download: &mut Download) -> std::io::Result<()> {
        let mut at = 0;
        while at < body.len() {
            let piece = body.load(at, 256 << 10).await?;
            at += piece.len() as u64;
            download.precede(&piece);
            self.writer.append(&piece).await?;
        }
        Ok(())
    }

    /// Publishes a part, unless the whole is stored and fresh. If another stored part is adjacent, the two are joined.
    async fn publish_part(self, range: &ContentRange) {
        if self.writer.len() != range.length() {
            tracing::warn!("a partial response is not as long as its content-range says");
            return;
        }
        let fresh = self.held().await;
        if fresh.as_ref().is_some_and(|held| held.status() == StatusCode::OK) {
            return self.writer.finish_unstored();
        }
        // This fill begins before the part is published, so that it notices a purge in between.
        let fills = &self.worker.cache.fills;
        let joining = fills.alone(self.writer.key(), fills.epoch(self.writer.key()));
        let worker = Arc::clone(&self.worker);
        let part = Self { replaces: None, ..self }.finish();
        let memory = &worker.cache.store.memory;
        if let Some(joined) = part.zip(fresh).and_then(|(new, old)| combine::join(memory, &new, &old)) {
            joining.put(&joined, None);
        }
    }

    /// Publishes the beginning of a response that broke off. It answers requests for ranges of it, and may be completed
    /// (RFC 9111 sections 3.3 and 3.4).
    async fn publish_beginning(self) {
        let is_whole = self.expected.is_none() && self.whole.is_none() && self.pack.is_none();
        let Some(head) = self.writer.head().filter(|_| is_whole && !self.writer.is_empty()) else { return };
        let memory = &self.worker.cache.store.memory;
        let Some(part) = combine::beginning(memory, &head, self.writer.len()) else { return };
        if self.held().await.is_none() {
            self.writer.break_off(&part);
        }
    }

    /// Returns the stored response for the variant that arrives, if it is fresh.
    async fn held(&self) -> Option<Entry> {
        let (shared, key) = (&self.worker.shared, self.writer.key());
        let signature = self.writer.head()?.signature.clone();
        let resident = shared.cache.store.memory.peek(key, shared.cache.store.memory.hash(key));
        let variants = resident.as_ref().map_or(&[][..], |resident| resident.variants());
        let held = match variants.iter().find(|entry| entry.signature() == signature) {
            Some(entry) => shared.cache.store.current(entry.clone()),
            None => {
                let found = shared.cache.fills.recall(key, |_| signature.clone(), clock::now()).await;
                found.map(|(entry, _)| entry)
            }
        };
        held.filter(|held| held.freshness().is_fresh(clock::now()))
    }
}

/// Returns the URL of a cache key in the form for logs.
fn logged_url(worker: &Worker, key: &[u8]) -> String {
    let url = target::url(key).unwrap_or_default();
    worker.plan().settings.statistics.query.kept(&url).to_owned()
}

/// Returns the reason as `Cache-Status` names it; `None` for those that it does not name.
pub(crate) fn unstored(unstored: StoreRefusal) -> Option<Why> {
    match unstored {
        StoreRefusal::Unwanted => Some(Why::OwnedElsewhere),
        StoreRefusal::NoRoom => Some(Why::FillBudget),
        StoreRefusal::NotWritten => Some(Why::NotWritten),
        StoreRefusal::TooLarge | StoreRefusal::Refused => Some(Why::TooLarge),
        StoreRefusal::NotAdmitted => Some(Why::NotAdmitted),
        StoreRefusal::OnDisk | StoreRefusal::Outdated => None,
    }
}

/// Whether the response of `reader` is stored, as far as is known (RFC 9211 section 2.5); `is_expected`: unless the
/// memory's filter refuses it, which it decides when the content is complete.
pub(crate) fn is_stored(plan: &Plan, reader: &Reader, is_expected: bool) -> bool {
    match reader.result() {
        Some(result) => matches!(result, Ok(()) | Err(StoreRefusal::OnDisk)),
        None => is_expected && plan.settings.memory.policy.filter().is_none(),
    }
}
