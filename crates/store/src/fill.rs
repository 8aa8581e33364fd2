//! One fetch, many readers: a response on its way in, read while it still arrives.
//!
//! The leader's task owns a [`Lead`]; everybody, the client that caused the fetch included, reads
//! through a [`Reader`]. So a client that goes away ends nothing, and whatever way the leader ends
//! (done, failed, panicked), dropping its `Lead` wakes every reader with the truth.
//!
//! A purge wins over a fill: [`Fills::cancel`] takes the fill out of the table and it publishes
//! nothing, though its readers still get their bytes.
//!
//! A body that turns out too large for memory goes on as a window: the origin is read no further
//! than [`WINDOW`] ahead of the slowest reader, and what everybody has read is given back. A disk may
//! keep it all the same: it takes what arrives, whatever its size.

mod lead;
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
use crate::purges::{Effect, Generation, Reach, Scope, Since};
use crate::{Arena, Body, Entry, Extent, Lines, LinesRef, Store};

pub use lead::{Kept, Lead};
pub use reader::{Piece, Reader};

/// How far a body too large for memory may run ahead of its slowest reader, in bytes.
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
    /// What fetching it took up to here, in microseconds.
    pub cost: u32,
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
    /// In force before its request was sent.
    born: Generation,
    joinable: AtomicBool,
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
    store: Arc<Store>,
    arena: Arena,
    max_object: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    fills: HashMap<Box<[u8]>, Vec<Arc<Fill>>>,
    now: Moment,
}

/// A moment, as far as what is stored is concerned: of a key, from [`Fills::now`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// How often a key of this part of the table was cancelled.
    cancelled: u64,
    /// How often something was stored under one.
    stored: u64,
    /// How many purges there were of whatever.
    generation: Generation,
}

impl Moment {
    /// The generation in force then.
    pub fn generation(self) -> Generation {
        self.generation
    }

    /// Whether nothing was stored or cancelled between the two.
    pub(crate) fn is_like(self, other: Self) -> bool {
        (self.cancelled, self.stored) == (other.cancelled, other.stored)
    }
}

/// What [`Fills::join`] found.
pub enum Joined {
    /// Nobody fetches this yet: you do.
    Lead(Lead),
    /// Somebody does: read what they get.
    Follow(Reader),
}

impl Fills {
    /// No fills yet. Bodies beyond `max_object` bytes are not stored in memory.
    pub fn new(store: Arc<Store>, arena: Arena, max_object: u64) -> Self {
        let table = (0..64).map(|_| Mutex::default()).collect();
        Self { table, store, arena, max_object: AtomicU64::new(max_object) }
    }

    /// Follows the fill of `key` and `signature` that is under way, or leads a new one.
    ///
    /// Nobody follows a fill that a purge is known to reach.
    pub fn join(self: &Arc<Self>, key: &[u8], signature: &[u8]) -> Joined {
        let mut table = self.table(key);
        let may_follow = |fill: &&Arc<Fill>| {
            fill.is_joinable() && *fill.signature == *signature && self.reach_of(fill).is_none()
        };
        let under_way = table.fills.get(key).and_then(|fills| fills.iter().find(may_follow));
        match under_way {
            // Under the table's lock, so that nothing can have been given back before we read.
            Some(fill) => Joined::Follow(fill.reader()),
            None => {
                let born = self.store.purges.now();
                Joined::Lead(self.register(&mut table, key, signature, born))
            }
        }
    }

    /// Whether who came when `arrived` was in force may have what `reader` reads: its fetch began no earlier, or
    /// no purge has reached it since. To be asked when the verdict is known, as long as it says nothing else
    /// of groups.
    pub fn may_have(&self, reader: &Reader, arrived: Generation) -> bool {
        let fill = reader.fill();
        fill.born >= arrived || self.reach_of(fill).is_none()
    }

    /// Puts a purge in force, ordered at `second` (UNIX): when this returns, nothing that was stored before, or is
    /// being fetched, answers a request but as `effect` allows. What it reaches is neither counted nor freed.
    pub fn order(&self, scopes: &[Scope], effect: Effect, second: u32) -> Generation {
        let (generation, rules) = self.store.purges.put(scopes, effect, second);
        self.store.disks.write_down(&rules);
        generation
    }

    /// The purge that reaches `fill`, as far as one knows yet what it is.
    fn reach_of(&self, fill: &Fill) -> Option<Reach> {
        let purges = &self.store.purges;
        if fill.born == purges.now() {
            return None;
        }
        let since = Since::Generation(fill.born);
        match &fill.progress.borrow().verdict {
            Some(Verdict::Stream(head)) => purges.reach(since, &fill.key, Some(&head.fields.view())),
            Some(Verdict::Stored(entry) | Verdict::StandIn(entry)) => {
                purges.reach(since, &fill.key, entry.tagged().as_ref())
            }
            _ => purges.reach(since, &fill.key, None::<&LinesRef<'_>>),
        }
    }

    /// The moment at which a fetch of `key` begins that may turn out worth a fill of its own.
    pub fn now(&self, key: &[u8]) -> Moment {
        let generation = self.store.purges.now();
        Moment { generation, ..self.table(key).now }
    }

    /// Leads a fill that nobody may follow: what it stores is reusable, but waiting for it is not
    /// (credentials, ranges, URLs whose answers are known not to be storable). Most of these store
    /// nothing in the end, so that they cost a fill only when they do: `began` says when the fetch
    /// began, and a purge since then (of this key, or rarely of another) wins over it.
    pub fn alone(self: &Arc<Self>, key: &[u8], began: Moment) -> Lead {
        let mut table = self.table(key);
        let is_cancelled = table.now.cancelled != began.cancelled;
        let lead = self.register(&mut table, key, &[], began.generation);
        lead.keep_alone(is_cancelled);
        lead
    }

    /// Forgets everything stored under `key`, in all tiers, and lets its fills publish nothing; says how many
    /// responses and bytes memory had.
    pub fn purge(&self, key: &[u8]) -> (usize, u64) {
        self.cancel(key);
        self.store.disks.remove(key);
        // Once more, for what was found on the disk meanwhile and is on its way into memory.
        self.table(key).now.cancelled += 1;
        self.store.memory.remove(key)
    }

    /// The same for everything.
    pub fn purge_all(&self) {
        for table in &self.table {
            let mut table = locked(table);
            table.now.cancelled += 1;
            for fill in table.fills.drain().flat_map(|(_, fills)| fills) {
                fill.cancelled.store(true, Ordering::Release);
            }
        }
        self.store.disks.clear();
        self.table.iter().for_each(|table| locked(table).now.cancelled += 1);
        self.store.memory.clear();
    }

    /// Lets the fills of `key` publish nothing, and nobody join them any more.
    pub fn cancel(&self, key: &[u8]) {
        let mut table = self.table(key);
        table.now.cancelled += 1;
        for fill in table.fills.remove(key).into_iter().flatten() {
            fill.cancelled.store(true, Ordering::Release);
        }
    }

    /// Lets the disk keep `entry` as it is now. `began` is from before it was decided: a purge since then wins.
    fn keep(self: &Arc<Self>, entry: &Entry, began: Moment) {
        let disks = &self.store.disks;
        self.store.purges.note(entry.freshness().received);
        if disks.is_empty() || disks.keep_at_once(entry) {
            return;
        }
        let (fills, entry) = (Arc::clone(self), entry.clone());
        tokio::spawn(async move {
            fills.store.disks.keep(&entry).await;
            if fills.now(entry.key()).cancelled != began.cancelled {
                fills.store.disks.remove(entry.key());
            }
        });
    }

    /// Fills under way.
    pub fn under_way(&self) -> usize {
        self.table.iter().map(|table| locked(table).fills.values().map(Vec::len).sum::<usize>()).sum()
    }

    /// Changes the largest body stored.
    pub fn set_max_object(&self, bytes: u64) {
        self.max_object.store(bytes, Ordering::Relaxed);
    }

    /// Whether a body of this many bytes may be stored in memory, if all else allows it.
    pub fn fits(&self, bytes: u64) -> bool {
        bytes <= self.max_object.load(Ordering::Relaxed)
    }

    /// The tiers that fills publish to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The memory-backed files of large bodies.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    fn register(self: &Arc<Self>, table: &mut Table, key: &[u8], signature: &[u8], born: Generation) -> Lead {
        let fill = Arc::new(Fill {
            key: key.into(),
            signature: signature.into(),
            born,
            joinable: AtomicBool::new(true),
            cancelled: AtomicBool::new(false),
            progress: watch::Sender::default(),
            buffer: Mutex::new(Buffer::Heap(Vec::new())),
            readers: Mutex::default(),
            moved: watch::Sender::default(),
        });
        table.fills.entry(key.into()).or_default().push(Arc::clone(&fill));
        Lead::new(fill, Arc::clone(self))
    }

    /// Says that something was stored under `key`.
    fn note_stored(&self, key: &[u8]) {
        self.table(key).now.stored += 1;
    }

    /// Lets nobody join `fill` any more; a purge still reaches it.
    fn close(&self, fill: &Fill) {
        // Under the table's lock, so that who has joined is a reader already.
        let _table = self.table(&fill.key);
        fill.joinable.store(false, Ordering::Release);
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
        locked(&self.table[self.store.memory.hash(key) as usize % self.table.len()])
    }
}

impl Fill {
    fn is_joinable(&self) -> bool {
        self.joinable.load(Ordering::Acquire)
    }

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
        self.entry_under(&head)
    }

    /// What has arrived, under `head`.
    fn entry_under(&self, head: &Head) -> Option<Entry> {
        let body = match &*locked(&self.buffer) {
            Buffer::Heap(heap) => Body::Heap(heap.as_slice().into()),
            Buffer::File(extent) => Body::File(Arc::clone(extent)),
            Buffer::Entry(_) => return None,
        };
        Entry::new(Parts {
            key: &self.key,
            signature: &head.signature,
            status: head.status,
            freshness: head.freshness,
            cost: head.cost,
            born: self.born,
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

    /// Holds the leader back until the slowest reader is close, and gives back what all have read.
    ///
    /// # Errors
    /// When there is no reader, and nobody else has any use for the body.
    async fn wait_for_readers(&self, len: u64, is_kept: bool) -> io::Result<()> {
        let mut moved = self.moved.subscribe();
        loop {
            let slowest = locked(&self.readers).positions.values().min().copied();
            let slowest = match slowest {
                None if !is_kept => return Err(io::ErrorKind::BrokenPipe.into()),
                slowest => slowest.unwrap_or(len),
            };
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
