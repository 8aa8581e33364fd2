//! The writing end of a fill. Its owner decides how the fill ends; [`publish`] stores the response.

mod publish;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use larder_semantics::freshness::Freshness;
use larder_semantics::stored_head::StoredHead;

use super::{ContentEnd, Fill, Fills, Head, Reader, StoreRefusal, Verdict, WINDOW};
use crate::disks::DiskWrite;
use crate::entry::Parts;
use crate::memory::Purpose;
use crate::purges::Generation;
use crate::tier::{FetchStart, Room};
use crate::{Body, Entry, Extent, LinesRef};

/// Bytes that are booked ahead for a response that will be stored.
const AHEAD: u64 = 64 << 10;
/// The same while the length of the body is not known.
const STEP: u64 = 16 << 10;
/// The lead in bytes that a body which is not stored may have over its slowest reader even if the budget is used up.
const NARROW: u64 = 64 << 10;

/// The leader's end of a fill.
pub struct FillWriter {
    pub(super) fill: Arc<Fill>,
    pub(super) fills: Arc<Fills>,
    /// The disk that the content is written to as well.
    disk: Option<DiskWrite>,
    /// A disk should have stored it, and has stopped taking it.
    lost_by_disk: bool,
    kept: StoragePlace,
    booked: u64,
    /// Bytes of content, if the origin named their number.
    length: Option<u64>,
    /// The reason why memory does not store it; the body continues as a window then.
    unstored: Option<StoreRefusal>,
    /// The error, if the kernel refused to extend a memory file.
    refused: Option<io::Error>,
    /// Whether the stored response is the origin's answer to a request sent since this fill began.
    asks_origin: bool,
    /// The beginning of the fetch, for the far tiers that may keep its response.
    start: FetchStart,
}

/// Where a complete response is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoragePlace {
    /// In memory and on a disk, as far as these take it.
    Everywhere,
    /// In memory, if the budget allows.
    InMemory,
    /// In no tier: only the waiting requests read it.
    Nowhere,
}

impl FillWriter {
    /// Returns the writer of a fill that publishes nothing if it was cancelled before it began.
    pub(super) fn new(fill: Arc<Fill>, fills: Arc<Fills>) -> Self {
        Self {
            fill,
            fills,
            disk: None,
            lost_by_disk: false,
            kept: StoragePlace::Everywhere,
            booked: 0,
            length: None,
            unstored: None,
            refused: None,
            asks_origin: false,
            start: FetchStart::default(),
        }
    }

    /// Forbids requests to follow it. If it `is_cancelled` already, it publishes nothing.
    pub(super) fn keep_alone(&self, is_cancelled: bool) {
        self.fill.joinable.store(false, Ordering::Release);
        self.fill.cancelled.store(is_cancelled, Ordering::Release);
    }

    /// Returns the generation that was in force before the request was sent; the response belongs to that generation.
    pub fn born(&self) -> Generation {
        self.fill.born
    }

    /// Returns the leading client's reader. To be called before the first byte is appended.
    pub fn reader(&self) -> Reader {
        self.fill.reader()
    }

    /// Sets whether the stored response is the origin's answer to a request that was sent since this fill began. The
    /// default is false. Only such a response may answer requests for other URLs (`No-Vary-Search`).
    pub fn asks_origin(&mut self, asks_origin: bool) {
        self.asks_origin = asks_origin;
    }

    /// Sets the beginning of the fetch whose response the far tiers may keep; the default is none.
    pub fn set_start(&mut self, start: FetchStart) {
        self.start = start;
    }

    /// Limits the near tiers that store the complete response; the default is all. To be called before
    /// [`stream`](Self::stream).
    pub fn limit(&mut self, kept: StoragePlace) {
        self.kept = kept;
    }

    /// Announces the head of a response that is being stored. Readers start.
    ///
    /// A body that is known not to fit into memory is a window from the start. Returns whether the response
    /// will be stored, in memory or on a disk, as far as is known.
    pub fn stream(&mut self, head: impl Into<Arc<Head>>) -> bool {
        let head = head.into();
        self.fills.store.purges.know(&self.fill.key, Some(&head.fields.special()), self.fill.born);
        let (disks, key) = (&self.fills.store.disks, &self.fill.key);
        let fits_disk = self.kept == StoragePlace::Everywhere && disks.takes(key, head.length);
        let on_disk = fits_disk && disks.is_writing(key);
        self.length = head.length;
        let unstored = match head.length {
            _ if self.kept == StoragePlace::Nowhere => Some(StoreRefusal::Unwanted),
            Some(length) => self.make_room(0, length),
            None => None,
        };
        if let Some(unstored) = unstored {
            self.go_unstored(if fits_disk && !on_disk { StoreRefusal::NotWritten } else { unstored });
        }
        let is_stored = self.unstored.is_none() || on_disk;
        self.fill.shared.store(is_stored || self.kept == StoragePlace::Nowhere, Ordering::Release);
        self.announce(Verdict::Stream(head));
        is_stored
    }

    /// Starts to write the content to a disk, if there is one. To be called after [`stream`](Self::stream),
    /// and before the first byte.
    pub async fn keep(&mut self) {
        let takes = self.kept == StoragePlace::Everywhere && self.fills.store.has_near();
        if !takes || self.is_cancelled() {
            return;
        }
        let Some(head) = self.head() else { return };
        self.fills.store.purges.note(head.freshness.received);
        self.disk = self.fills.store.disks.begin(&self.fill.key, &head).await;
        self.lost_by_disk = self.disk.is_none() && self.fills.store.disks.takes(&self.fill.key, head.length);
    }

    /// Returns the bytes that the disk has written so far, if many bytes wait for it, and only the disk
    /// stores this response: then bytes that arrive faster than the disk writes are lost.
    pub fn disk_behind(&self) -> Option<u64> {
        self.unstored.and_then(|_| self.disk.as_ref()?.behind())
    }

    /// Stops storing the response on the disk.
    pub fn give_up_disk(&mut self) {
        self.lost_by_disk |= self.disk.take().is_some();
    }

    /// Whether a disk should have stored it, and has stopped taking it.
    pub fn is_lost_by_disk(&self) -> bool {
        self.lost_by_disk || self.disk.as_ref().is_some_and(DiskWrite::is_given_up)
    }

    /// Returns an identifier of the fetch, unique among those in progress.
    pub fn fetch(&self) -> usize {
        Arc::as_ptr(&self.fill).addr()
    }

    /// Ends the fill with a verdict that needs no content.
    pub fn settle(self, verdict: Verdict) {
        self.fills.forget(&self.fill);
        self.announce(verdict);
    }

    /// Appends content. Waits only when the body does not fit into memory and the slowest reader is more than
    /// [`WINDOW`](super::WINDOW) bytes behind.
    ///
    /// # Errors
    /// When a body that will not be stored has no reader.
    pub async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = self.len() + bytes.len() as u64;
        if self.unstored.is_none()
            && let Some(unstored) = self.make_room(len, self.length.unwrap_or(len).max(len))
        {
            self.go_unstored(unstored);
        }
        let appended = self.fill.buffer.lock().append(bytes, self.length, &self.fills.arena);
        if let Err(error) = appended {
            self.fills.arena.note_refusal();
            self.refused = Some(error);
            self.go_unstored(StoreRefusal::Refused);
        }
        self.lost_by_disk |= self.disk.take_if(|disk| !disk.write(bytes)).is_some();
        self.fill.advance(|progress| progress.len = len);
        if self.unstored.is_none() {
            return Ok(());
        }
        self.wait_for_readers(len).await
    }

    /// Makes the leader wait until the slowest reader is close, and frees the bytes that all readers have read. Fails
    /// when there is no reader, and no disk stores the body.
    async fn wait_for_readers(&mut self, len: u64) -> io::Result<()> {
        let fill = Arc::clone(&self.fill);
        loop {
            let moved = fill.moved.notified();
            let slowest = match fill.slowest() {
                None if self.disk.is_none() => return Err(io::ErrorKind::BrokenPipe.into()),
                slowest => slowest.unwrap_or(len).min(len),
            };
            fill.buffer.lock().discard(slowest);
            let held = len - slowest;
            let is_booked = self.book_window(held);
            if held <= NARROW || (held <= WINDOW && is_booked) {
                return Ok(());
            }
            moved.await;
        }
    }

    /// Books exactly `held` bytes; returns false if the budget does not allow it.
    fn book_window(&mut self, held: u64) -> bool {
        if held <= self.booked {
            self.fills.store.memory.filling().unbook(self.booked - held);
            self.booked = held;
            return true;
        }
        self.book(held - self.booked, Purpose::Window)
    }

    /// Stops storing it in memory: it continues as a window, and later requests cannot read it from the start.
    fn go_unstored(&mut self, why: StoreRefusal) {
        self.unstored.get_or_insert(why);
        self.fills.close(&self.fill);
    }

    /// Returns the reason why memory does not store it, as far as is known.
    pub fn unstored(&self) -> Option<StoreRefusal> {
        self.unstored
    }

    /// Whether all its readers have left.
    pub fn is_unread(&self) -> bool {
        self.fill.readers.lock().positions.is_empty()
    }

    /// Forbids requests to follow a fill without readers; returns false if it has a reader.
    pub fn give_up_unread(&self) -> bool {
        self.fills.close_unread(&self.fill)
    }

    fn is_cancelled(&self) -> bool {
        self.fill.cancelled.load(Ordering::Acquire)
    }

    /// Returns the cache key that the response is stored under.
    pub fn key(&self) -> &[u8] {
        &self.fill.key
    }

    /// Returns the hash of that key.
    pub fn hash(&self) -> u64 {
        self.fill.hash
    }

    /// Returns the bytes of content so far.
    pub fn len(&self) -> u64 {
        self.fill.progress.lock().len
    }

    /// Returns the kernel's error if a memory file did not take all of the content; memory does not store it then.
    pub fn refused(&self) -> Option<&io::Error> {
        self.refused.as_ref()
    }

    /// Whether no content has arrived yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the head of the announced response.
    pub fn head(&self) -> Option<Arc<Head>> {
        self.fill.head()
    }

    /// Waits until this fill has no follower.
    pub async fn deserted(&self) {
        loop {
            let moved = self.fill.moved.notified();
            if self.fill.readers.lock().positions.is_empty() {
                return;
            }
            moved.await;
        }
    }

    fn announce(&self, verdict: Verdict) {
        self.fill.advance(|progress| {
            if !matches!(verdict, Verdict::Stream(_)) {
                progress.ending = Some(ContentEnd::Complete);
            }
            progress.verdict = Some(verdict);
        });
    }

    fn end(&self, ending: ContentEnd) {
        if self.fill.progress.lock().ending.is_some() {
            return;
        }
        self.fill.advance(|progress| {
            progress.ending = Some(ending);
            progress.verdict.get_or_insert(Verdict::Abandoned);
        });
    }

    /// Books room for the first `len` bytes of `whole`, and some more; returns the reason if there is no room.
    fn make_room(&mut self, len: u64, whole: u64) -> Option<StoreRefusal> {
        let purpose = Purpose::of(whole);
        if !self.fills.takes(whole) {
            return Some(StoreRefusal::TooLarge);
        }
        if self.booked > 0 && len <= self.booked {
            return None;
        }
        let ahead = if self.length.is_none() { STEP } else { AHEAD.min(whole - len) };
        (!self.book(len + ahead - self.booked, purpose)).then_some(StoreRefusal::NoRoom)
    }

    fn book(&mut self, bytes: u64, purpose: Purpose) -> bool {
        // Bodies evicted while they have readers belong to no entry; they are counted here.
        let memory = &self.fills.store.memory;
        let held = self.fills.arena.held().saturating_add(bytes);
        let booked = held <= memory.most_held() && memory.filling().book(bytes, purpose);
        self.booked += if booked { bytes } else { 0 };
        booked
    }
}

impl Room for FillWriter {
    fn takes(&mut self, len: u64) -> bool {
        self.make_room(len, len).is_none()
    }

    fn extent(&self, len: u64) -> io::Result<Extent> {
        self.fills.arena.extent(Some(len))
    }

    fn entry(&self, head: &StoredHead<'_>, freshness: Freshness, body: Body) -> Option<Entry> {
        let StoredHead { key, signature, status, cost, shared, own, .. } = *head;
        let fields = LinesRef::written(shared, own).to_map();
        let fields = &self.fills.store.memory.keep(&fields, freshness.date);
        Entry::new(Parts { key, signature, status, freshness, cost, born: self.fill.born, fields, body })
    }
}

impl Drop for FillWriter {
    fn drop(&mut self) {
        self.fills.store.memory.filling().unbook(self.booked);
        self.fills.forget(&self.fill);
        self.end(ContentEnd::Truncated);
    }
}
