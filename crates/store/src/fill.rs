//! One fetch, many readers: a response in progress, which clients read while it arrives.
//!
//! The leading request's task owns a [`FillWriter`], the writer; all clients, including the one that caused
//! the fetch, read through a [`Reader`]. So a client that disconnects does not end the fetch. Whether the
//! writer succeeds, fails or panics, dropping its `FillWriter` wakes every reader with the result.
//!
//! A purge overrides a fill: [`Fills::cancel`] removes the fill from the table and it publishes nothing, though its
//! readers still get their bytes.
//!
//! A body that turns out too large for memory continues as a window: the origin is read at most [`WINDOW`] bytes ahead
//! of the slowest reader, and bytes that all readers have read are freed. A disk may store the body all the same.

mod buffer;
mod epoch;
mod joined;
mod reader;
mod writer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hashbrown::HashTable;
use http::StatusCode;
use larder_semantics::purge::{Effect, Scope};
use larder_semantics::status::Why;
use tokio::sync::Notify;

use crate::entry::Parts;
use crate::purges::{Generation, Reach, Since};
use crate::{Arena, Entry, LinesRef, Store};

use buffer::Buffer;

pub use crate::head::Head;
use epoch::Cancelled;
pub use epoch::Epoch;
pub use joined::{Joined, Reloading};
pub use reader::{Piece, Reader};
pub use writer::{FillWriter, Kept, Unstored};

/// How far a body too large for memory may run ahead of its slowest reader, in bytes.
pub const WINDOW: u64 = 1 << 20;

/// The result of a fill, for the waiting requests.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// A response that clients may read as it arrives if their requests select it.
    Stream(Arc<Head>),
    /// The stored response is fresh (again): no content was transferred.
    Stored(Entry),
    /// The origin failed; clients that allow stale responses may get this stored response.
    StandIn(Entry),
    /// The response cannot be shared: each waiting request asks the origin itself.
    Released,
    /// The origin cannot be reached for any client; the status and reason for the clients.
    Failed(StatusCode, Why),
    /// The fetch failed, for reasons that may concern only its client: a waiting request may lead the next fetch.
    Abandoned,
}

/// The end of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All of the content arrived.
    Complete,
    /// The origin stopped early.
    Truncated,
}

#[derive(Debug, Default)]
struct Progress {
    verdict: Option<Verdict>,
    len: u64,
    ending: Option<Ending>,
}

/// A response in progress.
#[derive(Debug)]
pub struct Fill {
    key: Box<[u8]>,
    /// The hash of the key, from [`Memory::hash`](crate::Memory::hash).
    hash: u64,
    signature: Box<[u8]>,
    /// The generation in force before the request was sent.
    born: Generation,
    /// The number of removals of keys then.
    removals: u64,
    /// The start of the fetch, if a reload leads it.
    reloads_since: Option<Instant>,
    joinable: AtomicBool,
    /// Whether the requests that wait for the head may read the content.
    shared: AtomicBool,
    cancelled: AtomicBool,
    progress: Mutex<Progress>,
    /// Notifies readers of progress.
    advanced: Notify,
    buffer: Mutex<Buffer>,
    readers: Mutex<Readers>,
    /// Notifies the leader that a reader has advanced or left.
    moved: Notify,
}

#[derive(Debug, Default)]
struct Readers {
    next: u64,
    positions: HashMap<u64, u64>,
}

/// The parts of the table of fills, each with a lock.
const PARTS: usize = 64;

/// The fills in progress, by key.
pub struct Fills {
    table: Box<[Mutex<Table>]>,
    store: Arc<Store>,
    arena: Arena,
    max_object: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    fills: HashTable<Arc<Fill>>,
    /// The number of responses stored under the keys of this part.
    stored: u64,
    cancelled: Cancelled,
}

impl Table {
    /// Iterates over the fills of `key`, whose hash is known.
    fn of<'t>(&'t self, key: &'t [u8], hash: u64) -> impl Iterator<Item = &'t Arc<Fill>> {
        self.fills.iter_hash(hash).filter(move |fill| *fill.key == *key)
    }

    /// Removes one of the fills of this hash for which `is_it` holds.
    fn remove(&mut self, hash: u64, is_it: impl Fn(&Arc<Fill>) -> bool) -> Option<Arc<Fill>> {
        self.fills.find_entry(hash, is_it).ok().map(|found| found.remove().0)
    }
}

impl Fills {
    /// Creates an empty table. Bodies beyond `max_object` bytes are not stored in memory.
    pub fn new(store: Arc<Store>, arena: Arena, max_object: u64) -> Self {
        let table = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { table, store, arena, max_object: AtomicU64::new(max_object) }
    }

    /// Follows the fill of `key` and `signature` that is in progress, or leads a new one.
    ///
    /// A fill that a known purge reaches gets no more followers.
    pub fn join_own(self: &Arc<Self>, key: &[u8], signature: &[u8]) -> Joined {
        let hash = self.store.memory.hash(key);
        let mut table = self.part(hash);
        match self.to_follow(&table, (key, hash), signature) {
            Some(reader) => Joined::Follow(reader),
            None => {
                let began = self.begins();
                Joined::Writer(self.register(&mut table, (key, hash), signature, (began, None)))
            }
        }
    }

    /// Follows, for `key`, a fill of another URL in progress, if the fill began after this number of
    /// removals, and no purge of `key` is later.
    pub(crate) fn follow_for(
        &self,
        key: &[u8],
        other: &[u8],
        signature: &[u8],
        removals: u64,
    ) -> Option<Reader> {
        let (hash, purges) = (self.store.memory.hash(other), &self.store.purges);
        let reader = self.to_follow(&self.part(hash), (other, hash), signature)?;
        let Fill { born, removals: began, .. } = *reader.fill();
        let is_reached = born != purges.now()
            && purges.reach(Since::Generation(born), key, None::<&LinesRef<'_>>).is_some();
        (began >= removals && !is_reached).then_some(reader)
    }

    fn to_follow(&self, table: &Table, (key, hash): (&[u8], u64), signature: &[u8]) -> Option<Reader> {
        let may_follow = |fill: &&Arc<Fill>| {
            fill.is_joinable() && *fill.signature == *signature && self.reach_of(fill).is_none()
        };
        // Under the table's lock, so that no part of the body has been freed before the reader registers.
        table.of(key, hash).find(may_follow).map(Fill::reader)
    }

    /// Does the same as [`join_own`](Self::join_own) for a request that `arrived` at that time, and needs a
    /// response fetched later, by requests with the same need.
    pub fn join_reload(self: &Arc<Self>, key: &[u8], signature: &[u8], arrived: Instant) -> Reloading {
        let hash = self.store.memory.hash(key);
        let mut table = self.part(hash);
        let reloads: Vec<_> = table
            .of(key, hash)
            .filter(|fill| fill.reloads_since.is_some() && fill.is_joinable())
            .filter(|fill| *fill.signature == *signature && self.reach_of(fill).is_none())
            .cloned()
            .collect();
        if let Some(fill) = reloads.iter().find(|fill| fill.reloads_since >= Some(arrived)) {
            return Reloading::Follow(fill.reader());
        }
        match reloads.iter().find(|fill| fill.progress().verdict.is_none()) {
            Some(fill) => Reloading::Wait(fill.reader()),
            None => {
                let since = (self.begins(), Some(Instant::now()));
                Reloading::Writer(self.register(&mut table, (key, hash), signature, since))
            }
        }
    }

    /// Whether a request that arrived when `arrived` was in force may use the response of `reader`: its fetch began no
    /// earlier, or no purge has reached it since. Call this after storability is decided and before groups are added.
    pub fn may_have(&self, reader: &Reader, arrived: Generation) -> bool {
        let fill = reader.fill();
        fill.born >= arrived || self.reach_of(fill).is_none()
    }

    /// Puts a purge in force, ordered at `second` (UNIX). When this returns, responses that were stored
    /// before, or are being fetched, answer requests only as `effect` allows. The responses that the purge
    /// reaches are neither counted nor freed.
    pub fn order(&self, scopes: &[Scope], effect: Effect, second: u32) -> Generation {
        let (generation, rules) = self.store.purges.put(scopes, effect, second);
        self.store.disks.write_down(&rules);
        generation
    }

    /// Returns the purge that reaches `fill`, as far as its response is known.
    fn reach_of(&self, fill: &Fill) -> Option<Reach> {
        let purges = &self.store.purges;
        if fill.born == purges.now() {
            return None;
        }
        let since = Since::Generation(fill.born);
        match &fill.progress().verdict {
            Some(Verdict::Stream(head)) => purges.reach(since, &fill.key, Some(&head.fields.view())),
            Some(Verdict::Stored(entry) | Verdict::StandIn(entry)) => {
                purges.reach(since, &fill.key, entry.tagged().as_ref())
            }
            _ => purges.reach(since, &fill.key, None::<&LinesRef<'_>>),
        }
    }

    /// Returns the epoch for a fetch of `key` that begins now and may get its own fill later.
    pub fn now(&self, key: &[u8]) -> Epoch {
        self.now_for(self.store.memory.hash(key))
    }

    /// Does the same for the key with this hash in memory.
    pub fn now_for(&self, hash: u64) -> Epoch {
        let begins = self.begins();
        let table = self.part(hash);
        Epoch { cancelled: table.cancelled.count(), stored: table.stored, ..begins }
    }

    /// Returns the parts of the current epoch that are the same for all keys.
    fn begins(&self) -> Epoch {
        let (generation, removals) = (self.store.purges.now(), self.store.equivalents.removals());
        Epoch { generation, removals, ..Epoch::default() }
    }

    /// Leads a fill without followers: its response is reusable, but waiting for it is not useful (credentials,
    /// ranges, URLs whose responses are known not to be storable). Most of these responses are not stored in the end,
    /// so a fill is created only for those that are: `began` is the start of the fetch, and a purge of this key since
    /// then overrides it.
    pub fn alone(self: &Arc<Self>, key: &[u8], began: Epoch) -> FillWriter {
        let hash = self.store.memory.hash(key);
        let mut table = self.part(hash);
        let is_cancelled = table.cancelled.includes(hash, began);
        let writer = self.register(&mut table, (key, hash), &[], (began, None));
        writer.keep_alone(is_cancelled);
        writer
    }

    /// Removes everything stored under `key`, in all tiers, and forbids its fills to publish. Returns how
    /// many responses and bytes memory had.
    pub fn purge(&self, key: &[u8]) -> (usize, u64) {
        self.store.equivalents.note_removed(key);
        self.cancel(key);
        self.store.disks.remove(key);
        // Counted once more, for responses that were found on the disk meanwhile and are being put into memory.
        self.count_cancelled(key);
        self.store.memory.remove(key)
    }

    /// Does the same, but keeps the responses in memory that `may_stay`; they are validated before any use.
    pub fn spoil(&self, key: &[u8], may_stay: impl Fn(&Entry) -> bool) {
        self.store.equivalents.note_removed(key);
        self.cancel(key);
        self.store.disks.remove(key);
        self.count_cancelled(key);
        self.store.memory.change(key, |entry| {
            let is_kept = may_stay(entry);
            is_kept.then(|| entry.aged(entry.freshness().invalid(), entry.checked())).flatten()
        });
    }

    /// Removes everything stored, in all tiers, and forbids all fills to publish.
    pub fn purge_all(&self) {
        for table in &self.table {
            let mut table = locked(table);
            table.cancelled.add_all();
            for fill in table.fills.drain() {
                fill.cancelled.store(true, Ordering::Release);
            }
        }
        self.store.disks.clear();
        self.store.hints.clear();
        self.table.iter().for_each(|table| locked(table).cancelled.add_all());
        self.store.memory.clear();
    }

    /// Forbids the fills of `key` to publish and to take more followers.
    pub fn cancel(&self, key: &[u8]) {
        let hash = self.store.memory.hash(key);
        let mut table = self.part(hash);
        table.cancelled.add(hash);
        while let Some(fill) = table.remove(hash, |fill| *fill.key == *key) {
            fill.cancelled.store(true, Ordering::Release);
        }
        drop(table);
        self.store.hints.remove(key, hash);
    }

    /// Stores `entry` on a disk as it is now. `began` precedes the decision to store it: a purge since then takes
    /// precedence.
    fn keep(self: &Arc<Self>, entry: &Entry, began: Epoch) {
        let disks = &self.store.disks;
        self.store.purges.note(entry.freshness().received);
        if disks.is_empty() || disks.keep_at_once(entry) {
            return;
        }
        let (fills, entry) = (Arc::clone(self), entry.clone());
        tokio::spawn(async move {
            fills.store.disks.keep(&entry).await;
            if fills.is_cancelled_since(fills.store.memory.hash(entry.key()), began) {
                fills.store.disks.remove(entry.key());
            }
        });
    }

    /// Returns the number of fills in progress.
    pub fn under_way(&self) -> usize {
        self.table.iter().map(|table| locked(table).fills.len()).sum()
    }

    /// Changes the limit for bodies stored in memory.
    pub fn set_max_object(&self, bytes: u64) {
        self.max_object.store(bytes, Ordering::Relaxed);
    }

    /// Whether a body of this many bytes may be stored in memory, if all other conditions allow it.
    pub fn fits(&self, bytes: u64) -> bool {
        bytes <= self.max_object.load(Ordering::Relaxed)
    }

    /// Returns the tiers that fills publish to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the memory-backed files of large bodies.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    fn register(
        self: &Arc<Self>,
        table: &mut Table,
        (key, hash): (&[u8], u64),
        signature: &[u8],
        (began, reloads_since): (Epoch, Option<Instant>),
    ) -> FillWriter {
        let fill = Arc::new(Fill {
            key: key.into(),
            hash,
            signature: signature.into(),
            born: began.generation,
            removals: began.removals,
            reloads_since,
            joinable: AtomicBool::new(true),
            shared: AtomicBool::new(true),
            cancelled: AtomicBool::new(false),
            progress: Mutex::default(),
            advanced: Notify::new(),
            buffer: Mutex::default(),
            readers: Mutex::default(),
            moved: Notify::new(),
        });
        table.fills.insert_unique(hash, Arc::clone(&fill), |fill| fill.hash);
        FillWriter::new(fill, Arc::clone(self))
    }

    /// Records that a response was stored under the key of `fill`.
    fn note_stored(&self, fill: &Fill) {
        self.part(fill.hash).stored += 1;
    }

    /// Forbids `fill` to take more followers; a purge still reaches it.
    fn close(&self, fill: &Fill) {
        // Under the table's lock, so that each request that has joined is registered as a reader already.
        let _table = self.part(fill.hash);
        fill.joinable.store(false, Ordering::Release);
    }

    /// Does the same if the fill has no reader; returns false if it has one.
    fn close_unread(&self, fill: &Fill) -> bool {
        let _table = self.part(fill.hash);
        let is_unread = locked(&fill.readers).positions.is_empty();
        if is_unread {
            fill.joinable.store(false, Ordering::Release);
        }
        is_unread
    }

    fn forget(&self, fill: &Arc<Fill>) {
        self.part(fill.hash).remove(fill.hash, |other| Arc::ptr_eq(other, fill));
    }

    fn count_cancelled(&self, key: &[u8]) {
        let hash = self.store.memory.hash(key);
        self.part(hash).cancelled.add(hash);
    }

    /// Locks the part of the table for keys with this hash.
    fn part(&self, hash: u64) -> MutexGuard<'_, Table> {
        locked(&self.table[hash as usize % self.table.len()])
    }
}

impl Fill {
    fn is_joinable(&self) -> bool {
        self.joinable.load(Ordering::Acquire)
    }

    fn reader(self: &Arc<Self>) -> Reader {
        Reader::new(Arc::clone(self))
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        locked(&self.progress)
    }

    fn advance(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress());
        self.advanced.notify_waiters();
    }

    /// Waits until `look` returns a value for the progress.
    async fn until<T>(&self, look: impl Fn(&Progress) -> Option<T>) -> T {
        loop {
            // Created before the look, so that no notification between the two is missed.
            let advanced = self.advanced.notified();
            let found = look(&self.progress());
            match found {
                Some(found) => return found,
                None => advanced.await,
            }
        }
    }

    /// Returns the head of the announced response.
    fn head(&self) -> Option<Arc<Head>> {
        match &self.progress().verdict {
            Some(Verdict::Stream(head)) => Some(Arc::clone(head)),
            _ => None,
        }
    }

    /// Makes an entry of the content that has arrived, under `head`; readers read it from the entry from now
    /// on. No more may be appended.
    fn seal(&self, head: &Head) -> Option<Entry> {
        if !Entry::has_room(&self.key, &head.signature, &head.fields.view()) {
            return None;
        }
        let parts = |body| Parts {
            key: &self.key,
            signature: &head.signature,
            status: head.status,
            freshness: head.freshness,
            cost: head.cost,
            born: self.born,
            fields: &head.fields,
            body,
        };
        locked(&self.buffer).seal(|body| Entry::new(parts(body)))
    }

    /// Returns the position of the slowest reader; `None` without readers.
    fn slowest(&self) -> Option<u64> {
        locked(&self.readers).positions.values().min().copied()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
