//! One fetch, many readers: a response on its way in, read while it still arrives.
//!
//! The leader's task owns a [`Lead`]; everybody, the client that caused the fetch included, reads
//! through a [`Reader`]. So a client that goes away ends nothing, and whatever way the leader ends
//! (done, failed, panicked), dropping its `Lead` wakes every reader with the truth.
//!
//! A purge wins over a fill: [`Fills::cancel`] takes the fill out of the table and it publishes
//! nothing, though its readers still get their bytes.
//!
//! A body that turns out too large to store goes on as a window: the origin is read no further
//! than [`WINDOW`] ahead of the slowest reader, and what everybody has read is given back.

mod reader;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use larder_semantics::freshness::Freshness;
use larder_semantics::status::Why;
use tokio::sync::watch;

use crate::body::SENDFILE_FROM;
use crate::entry::Parts;
use crate::{Arena, Body, Entry, Extent, Lines, Memory};

pub use reader::{Piece, Reader};

/// How far an unstorable body may run ahead of its slowest reader, in bytes.
pub const WINDOW: u64 = 1 << 20;

/// The head of a response on its way in.
#[derive(Clone, Debug)]
pub struct Head {
    /// The status code.
    pub status: StatusCode,
    /// Field lines, as an entry keeps them.
    pub fields: Lines,
    /// The request fields it is selected by; empty without `Vary`.
    pub signature: Vec<u8>,
    /// When it was received and how long it is good for.
    pub freshness: Freshness,
    /// Bytes of content, if the origin said.
    pub length: Option<u64>,
}

/// What a fill turned out to be, for those who wait.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// A response that everybody whose request selects it may read as it arrives.
    Stream(Arc<Head>),
    /// The stored response is good (again): no content travelled.
    Stored(Entry),
    /// The origin failed, and this stored response may stand in where staleness is allowed.
    StandIn(Entry),
    /// Nothing to share; ask the origin yourself.
    Released,
    /// The origin could not be asked; the status and reason to tell clients.
    Failed(StatusCode, Why),
}

/// How the content ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All of it arrived.
    Complete,
    /// The origin stopped early.
    Truncated,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    verdict: Option<Verdict>,
    len: u64,
    ending: Option<Ending>,
}

#[derive(Debug)]
enum Buffer {
    Heap(Vec<u8>),
    File(Arc<Extent>),
    Entry(Entry),
}

/// A response on its way in.
#[derive(Debug)]
pub struct Fill {
    key: Box<[u8]>,
    signature: Box<[u8]>,
    joinable: bool,
    cancelled: AtomicBool,
    progress: watch::Sender<Progress>,
    buffer: Mutex<Buffer>,
    readers: Mutex<Readers>,
    moved: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Readers {
    next: u64,
    positions: HashMap<u64, u64>,
}

/// The fills under way, by key.
pub struct Fills {
    table: Box<[Mutex<Table>]>,
    memory: Arc<Memory>,
    arena: Arena,
    max_object: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    fills: HashMap<Box<[u8]>, Vec<Arc<Fill>>>,
    /// How often a key of this part was cancelled.
    cancelled: u64,
}

/// A moment, as far as purges are concerned: of a key, from [`Fills::now`].
#[derive(Clone, Copy, Debug)]
pub struct Moment(u64);

/// What [`Fills::join`] found.
pub enum Joined {
    /// Nobody fetches this yet: you do.
    Lead(Lead),
    /// Somebody does: read what they get.
    Follow(Reader),
}

/// The leader's end of a fill.
pub struct Lead {
    fill: Arc<Fill>,
    fills: Arc<Fills>,
    booked: u64,
    windowed: bool,
    settled: bool,
}

impl Fills {
    /// No fills yet. Bodies beyond `max_object` bytes are not stored.
    pub fn new(memory: Arc<Memory>, arena: Arena, max_object: u64) -> Self {
        let table = (0..64).map(|_| Mutex::default()).collect();
        Self { table, memory, arena, max_object: AtomicU64::new(max_object) }
    }

    /// Follows the fill of `key` and `signature` that is under way, or leads a new one.
    pub fn join(self: &Arc<Self>, key: &[u8], signature: &[u8]) -> Joined {
        let mut table = self.table(key);
        let under_way = table
            .fills
            .get(key)
            .and_then(|fills| fills.iter().find(|fill| fill.joinable && *fill.signature == *signature));
        match under_way {
            // Under the table's lock, so that nothing can have been given back before we read.
            Some(fill) => Joined::Follow(fill.reader()),
            None => Joined::Lead(self.register(&mut table, key, signature, true)),
        }
    }

    /// The moment at which a fetch of `key` begins that may turn out worth a fill of its own.
    pub fn now(&self, key: &[u8]) -> Moment {
        Moment(self.table(key).cancelled)
    }

    /// Leads a fill that nobody may follow: what it stores is reusable, but waiting for it is not
    /// (credentials, ranges, URLs whose answers are known not to be storable). Most of these store
    /// nothing in the end, so that they cost a fill only when they do: `began` says when the fetch
    /// began, and a purge since then (of this key, or rarely of another) wins over it.
    pub fn alone(self: &Arc<Self>, key: &[u8], began: Moment) -> Lead {
        let mut table = self.table(key);
        let lead = self.register(&mut table, key, &[], false);
        lead.fill.cancelled.store(table.cancelled != began.0, Ordering::Release);
        lead
    }

    /// Lets the fills of `key` publish nothing, and nobody join them any more.
    pub fn cancel(&self, key: &[u8]) {
        let mut table = self.table(key);
        table.cancelled += 1;
        for fill in table.fills.remove(key).into_iter().flatten() {
            fill.cancelled.store(true, Ordering::Release);
        }
    }

    /// Fills under way.
    pub fn under_way(&self) -> usize {
        self.table.iter().map(|table| locked(table).fills.values().map(Vec::len).sum::<usize>()).sum()
    }

    /// Changes the largest body stored.
    pub fn set_max_object(&self, bytes: u64) {
        self.max_object.store(bytes, Ordering::Relaxed);
    }

    /// Whether a body of this many bytes may be stored, if all else allows it.
    pub fn fits(&self, bytes: u64) -> bool {
        bytes <= self.max_object.load(Ordering::Relaxed)
    }

    /// The memory-backed files of large bodies.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    fn register(self: &Arc<Self>, table: &mut Table, key: &[u8], signature: &[u8], joinable: bool) -> Lead {
        let fill = Arc::new(Fill {
            key: key.into(),
            signature: signature.into(),
            joinable,
            cancelled: AtomicBool::new(false),
            progress: watch::Sender::default(),
            buffer: Mutex::new(Buffer::Heap(Vec::new())),
            readers: Mutex::default(),
            moved: watch::Sender::default(),
        });
        table.fills.entry(key.into()).or_default().push(Arc::clone(&fill));
        Lead { fill, fills: Arc::clone(self), booked: 0, windowed: false, settled: false }
    }

    fn forget(&self, fill: &Arc<Fill>) {
        let mut table = self.table(&fill.key);
        if let Some(fills) = table.fills.get_mut(&fill.key) {
            fills.retain(|other| !Arc::ptr_eq(other, fill));
            if fills.is_empty() {
                table.fills.remove(&fill.key);
            }
        }
    }

    fn table(&self, key: &[u8]) -> MutexGuard<'_, Table> {
        locked(&self.table[self.memory.hash(key) as usize % self.table.len()])
    }
}

impl Lead {
    /// The leading client's reader; to be made before the first byte is appended.
    pub fn reader(&self) -> Reader {
        self.fill.reader()
    }

    /// Announces the head of a response that is being stored. Readers start.
    ///
    /// A body known to find no room is carried as a window from the start; the answer says whether
    /// the response will be stored, as far as one can know.
    pub fn stream(&mut self, head: Head) -> bool {
        self.windowed = head.length.is_some_and(|length| !self.fills.fits(length) || !self.book(length));
        if self.windowed {
            // Who comes later finds nothing to read from the start.
            self.fills.forget(&self.fill);
        }
        self.announce(Verdict::Stream(Arc::new(head)));
        !self.windowed
    }

    /// Ends the fill with a verdict that needs no content.
    pub fn settle(mut self, verdict: Verdict) {
        self.fills.forget(&self.fill);
        self.announce(verdict);
    }

    /// Appends content. Waits only when the body is not going to be stored and every reader is
    /// more than [`WINDOW`] bytes behind.
    ///
    /// # Errors
    /// When memory cannot be had, or nobody reads a body that will not be stored.
    pub async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = self.fill.progress.borrow().len + bytes.len() as u64;
        if !self.windowed && (!self.fills.fits(len) || !self.book_up_to(len)) {
            self.windowed = true;
            self.fills.forget(&self.fill);
        }
        self.fill.write(bytes, &self.fills.arena, self.windowed)?;
        self.fill.progress.send_modify(|progress| progress.len = len);
        if self.windowed { self.fill.wait_for_readers(len).await } else { Ok(()) }
    }

    /// Publishes the response, complete, and ends the fill. `replaces` as in [`Memory::put`].
    ///
    /// Returns the stored entry, or `None` when it was not to be stored (too large, purged meanwhile).
    pub fn finish(mut self, replaces: Option<&Entry>) -> Option<Entry> {
        let entry = (!self.windowed).then(|| self.fill.entry()).flatten();
        if let Some(entry) = &entry {
            *locked(&self.fill.buffer) = Buffer::Entry(entry.clone());
        }
        let stored = entry.filter(|entry| self.put(entry, replaces));
        self.fills.forget(&self.fill);
        self.end(Ending::Complete);
        stored
    }

    /// Stores `entry`, unless what it is about was purged since the fetch began; `replaces` as in
    /// [`Memory::put`]. False when it was not stored.
    pub fn put(&self, entry: &Entry, replaces: Option<&Entry>) -> bool {
        let cancelled = || self.fill.cancelled.load(Ordering::Acquire);
        let stored = !cancelled() && self.fills.memory.put(entry.clone(), replaces);
        // A purge between the look and the put must win as well.
        if stored && cancelled() {
            self.fills.memory.remove(&self.fill.key);
            return false;
        }
        stored
    }

    /// The cache key this is stored under.
    pub fn key(&self) -> &[u8] {
        &self.fill.key
    }

    /// Bytes of content so far.
    pub fn len(&self) -> u64 {
        self.fill.progress.borrow().len
    }

    /// True before the first byte of content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The signature of the announced response.
    pub fn signature(&self) -> Option<Vec<u8>> {
        match &self.fill.progress.borrow().verdict {
            Some(Verdict::Stream(head)) => Some(head.signature.clone()),
            _ => None,
        }
    }

    /// Ends the fill, complete, without publishing anything.
    pub fn finish_unstored(mut self) {
        self.fills.forget(&self.fill);
        self.end(Ending::Complete);
    }

    fn announce(&mut self, verdict: Verdict) {
        self.settled = true;
        self.fill.progress.send_modify(|progress| {
            if !matches!(verdict, Verdict::Stream(_)) {
                progress.ending = Some(Ending::Complete);
            }
            progress.verdict = Some(verdict);
        });
    }

    fn end(&mut self, ending: Ending) {
        self.settled = true;
        self.fill.progress.send_if_modified(|progress| {
            let news = progress.ending.is_none();
            progress.ending.get_or_insert(ending);
            progress.verdict.get_or_insert(Verdict::Released);
            news
        });
    }

    fn book_up_to(&mut self, len: u64) -> bool {
        len <= self.booked || self.book((len - self.booked).max(16 << 10))
    }

    fn book(&mut self, bytes: u64) -> bool {
        // Bodies that are evicted while somebody still reads them are nobody's; they count here.
        let held = self.fills.arena.held().saturating_add(bytes);
        let booked = held <= self.fills.memory.most_held() && self.fills.memory.book(bytes);
        self.booked += if booked { bytes } else { 0 };
        booked
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.fills.memory.unbook(self.booked);
        self.fills.forget(&self.fill);
        self.end(Ending::Truncated);
    }
}

impl Fill {
    fn reader(self: &Arc<Self>) -> Reader {
        Reader::new(Arc::clone(self))
    }

    fn write(&self, bytes: &[u8], arena: &Arena, windowed: bool) -> io::Result<()> {
        let mut buffer = locked(&self.buffer);
        if let Buffer::Heap(heap) = &mut *buffer {
            if !windowed && heap.len() as u64 + (bytes.len() as u64) < SENDFILE_FROM {
                heap.extend_from_slice(bytes);
                return Ok(());
            }
            let extent = arena.extent(None)?;
            extent.append(heap)?;
            *buffer = Buffer::File(Arc::new(extent));
        }
        match &*buffer {
            Buffer::File(extent) => extent.append(bytes),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn entry(&self) -> Option<Entry> {
        let head = match &self.progress.borrow().verdict {
            Some(Verdict::Stream(head)) => Arc::clone(head),
            _ => return None,
        };
        let body = match &mut *locked(&self.buffer) {
            Buffer::Heap(heap) => Body::Heap(heap.as_slice().into()),
            Buffer::File(extent) => Body::File(Arc::clone(extent)),
            Buffer::Entry(_) => return None,
        };
        Entry::new(Parts {
            key: &self.key,
            signature: &head.signature,
            status: head.status,
            freshness: head.freshness,
            fields: &head.fields,
            body,
        })
    }

    fn copy(&self, from: u64, max: usize) -> io::Result<Bytes> {
        match &*locked(&self.buffer) {
            Buffer::Heap(heap) => {
                let from = (from as usize).min(heap.len());
                Ok(Bytes::copy_from_slice(&heap[from..heap.len().min(from.saturating_add(max))]))
            }
            Buffer::File(extent) => Body::File(Arc::clone(extent)).copy(from, max),
            Buffer::Entry(entry) => entry.body().copy(from, max),
        }
    }

    /// Holds the leader back until some reader is close, and gives back what all have read.
    async fn wait_for_readers(&self, len: u64) -> io::Result<()> {
        let mut moved = self.moved.subscribe();
        loop {
            let slowest = locked(&self.readers).positions.values().min().copied();
            let Some(slowest) = slowest else { return Err(io::ErrorKind::BrokenPipe.into()) };
            if let Buffer::File(extent) = &*locked(&self.buffer) {
                extent.discard(slowest.min(len));
            }
            if len.saturating_sub(slowest) <= WINDOW {
                return Ok(());
            }
            if moved.changed().await.is_err() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
