//! The table of the fills in progress, and the tiers that they publish to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Instant;

use hashbrown::HashTable;
use larder_semantics::purge::{Effect, Scope};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::epoch::Cancellations;
use super::{Epoch, Fill, FillWriter, JoinResult, Reader, ReloadResult, Verdict};
use crate::purges::{Generation, PurgeStart, Reach};
use crate::{Arena, Entry, LinesRef, Store};

/// The parts of the table of fills, each with a lock.
pub(super) const PARTS: usize = 64;

/// The fills in progress, by key.
pub struct Fills {
    table: Box<[Mutex<Table>]>,
    pub(super) store: Arc<Store>,
    pub(super) arena: Arena,
    max_object: AtomicU64,
}

/// One part of the table.
#[derive(Debug, Default)]
pub(super) struct Table {
    fills: HashTable<Arc<Fill>>,
    /// The number of responses stored under the keys of this part.
    stored: u64,
    pub(super) cancelled: Cancellations,
}

/// A cache key with its hash, from [`Memory::hash`](crate::Memory::hash).
#[derive(Clone, Copy)]
struct HashedKey<'k> {
    key: &'k [u8],
    hash: u64,
}

impl Table {
    /// Iterates over the fills of `key`.
    fn of<'t>(&'t self, HashedKey { key, hash }: HashedKey<'t>) -> impl Iterator<Item = &'t Arc<Fill>> {
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
    pub fn join_own(self: &Arc<Self>, key: &[u8], signature: &[u8]) -> JoinResult {
        let hashed = self.hashed(key);
        let mut table = self.part(hashed.hash);
        match self.to_follow(&table, hashed, signature) {
            Some(reader) => JoinResult::Follow(reader),
            None => {
                let began = self.begins();
                JoinResult::Writer(self.register(&mut table, hashed, signature, began, None))
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
        let (other, purges) = (self.hashed(other), &self.store.purges);
        let reader = self.to_follow(&self.part(other.hash), other, signature)?;
        let Fill { born, removals: began, .. } = *reader.fill();
        let is_reached = born != purges.now()
            && purges.reach(PurgeStart::Generation(born), key, None::<&LinesRef<'_>>).is_some();
        (began >= removals && !is_reached).then_some(reader)
    }

    fn to_follow(&self, table: &Table, key: HashedKey<'_>, signature: &[u8]) -> Option<Reader> {
        let may_follow = |fill: &&Arc<Fill>| {
            fill.is_joinable() && *fill.signature == *signature && self.reach_of(fill).is_none()
        };
        // Under the table's lock, so that no part of the body has been freed before the reader registers.
        table.of(key).find(may_follow).map(Fill::reader)
    }

    /// Joins a fill as [`join_own`](Self::join_own) does, for a request that `arrived` at that time, and needs a
    /// response fetched later, by requests with the same need.
    pub fn join_reload(self: &Arc<Self>, key: &[u8], signature: &[u8], arrived: Instant) -> ReloadResult {
        let hashed = self.hashed(key);
        let mut table = self.part(hashed.hash);
        let reloads: Vec<_> = table
            .of(hashed)
            .filter(|fill| fill.reloads_since.is_some() && fill.is_joinable())
            .filter(|fill| *fill.signature == *signature && self.reach_of(fill).is_none())
            .cloned()
            .collect();
        if let Some(fill) = reloads.iter().find(|fill| fill.reloads_since >= Some(arrived)) {
            return ReloadResult::Follow(fill.reader());
        }
        match reloads.iter().find(|fill| fill.progress().verdict.is_none()) {
            Some(fill) => ReloadResult::Wait(fill.reader()),
            None => {
                let (began, now) = (self.begins(), Instant::now());
                ReloadResult::Writer(self.register(&mut table, hashed, signature, began, Some(now)))
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
        self.store.near().iter().for_each(|tier| tier.purge(&rules));
        generation
    }

    /// Returns the purge that reaches `fill`, as far as its response is known.
    pub(super) fn reach_of(&self, fill: &Fill) -> Option<Reach> {
        let purges = &self.store.purges;
        if fill.born == purges.now() {
            return None;
        }
        let since = PurgeStart::Generation(fill.born);
        match &fill.progress().verdict {
            Some(Verdict::Stream(head)) => purges.reach(since, &fill.key, Some(&head.fields.view())),
            Some(Verdict::Stored(entry) | Verdict::StandIn(entry)) => {
                purges.reach(since, &fill.key, entry.tagged().as_ref())
            }
            _ => purges.reach(since, &fill.key, None::<&LinesRef<'_>>),
        }
    }

    /// Returns the epoch for a fetch of `key` that begins now and may get its own fill later.
    pub fn epoch(&self, key: &[u8]) -> Epoch {
        self.epoch_of(self.store.memory.hash(key))
    }

    /// Returns the epoch for a fetch of the key with this hash in memory.
    pub fn epoch_of(&self, hash: u64) -> Epoch {
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
        let hashed = self.hashed(key);
        let mut table = self.part(hashed.hash);
        let is_cancelled = table.cancelled.includes(hashed.hash, began);
        let writer = self.register(&mut table, hashed, &[], began, None);
        writer.keep_alone(is_cancelled);
        writer
    }

    /// Removes everything stored under `key`, in memory and the near tiers, and forbids its fills to publish. Returns how
    /// many responses and bytes memory had.
    pub fn purge(&self, key: &[u8]) -> (usize, u64) {
        self.purge_noted(key, true)
    }

    /// Removes what [`purge`](Self::purge) removes. Unless it `is_noted`, the other process of an upgrade is not told.
    pub(crate) fn purge_noted(&self, key: &[u8], is_noted: bool) -> (usize, u64) {
        // 1. Fills of the key are cancelled. One that publishes meanwhile looks again after it has put its response.
        // 2. The near tiers forget the key. A lookup that begins now finds nothing there.
        // 3. A lookup between 1 and 2 may have found the response on a disk, and put it into memory later: the second
        //    count makes it take the response out again.
        // 4. Memory is last. If it were first, that lookup could put the response back without anybody noticing.
        self.store.equivalents.note_removed(key);
        self.cancel(key);
        self.store.forget_near(key);
        self.count_cancelled(key);
        self.store.memory.remove_noted(key, is_noted)
    }

    /// Removes what [`purge`](Self::purge) removes, except the responses in memory that `may_stay`; these are validated
    /// before any use.
    pub fn spoil(&self, key: &[u8], may_stay: impl Fn(&Entry) -> bool) {
        // In the order of `purge`, for the same reasons.
        self.store.equivalents.note_removed(key);
        self.cancel(key);
        self.store.forget_near(key);
        self.count_cancelled(key);
        self.store.memory.change(key, |entry| {
            let is_kept = may_stay(entry);
            is_kept.then(|| entry.aged(entry.freshness().invalid(), entry.checked())).flatten()
        });
    }

    /// Removes everything stored, in memory and the near tiers, and forbids all fills to publish.
    pub fn purge_all(&self) {
        self.purge_all_noted(true);
    }

    /// Removes everything. Unless it `is_noted`, the other process of an upgrade is not told.
    pub fn purge_all_noted(&self, is_noted: bool) {
        // In the order of `purge`, for all keys.
        for table in &self.table {
            let mut table = table.lock();
            table.cancelled.add_all();
            for fill in table.fills.drain() {
                fill.cancelled.store(true, Ordering::Release);
            }
        }
        self.store.near().iter().for_each(|tier| tier.clear());
        self.store.hints.clear();
        self.table.iter().for_each(|table| table.lock().cancelled.add_all());
        self.store.memory.clear_noted(is_noted);
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

    /// Stores `entry` in the near tiers as it is now. `began` precedes the decision to store it: a purge since then
    /// takes precedence.
    pub(super) fn keep(self: &Arc<Self>, entry: &Entry, began: Epoch) {
        self.store.purges.note(entry.freshness().received);
        for tier in self.store.near() {
            let Some(mut work) = Arc::clone(tier).offer(entry, None) else { continue };
            if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                continue;
            }
            let (fills, tier, entry) = (Arc::clone(self), Arc::clone(tier), entry.clone());
            tokio::spawn(async move {
                work.await;
                if fills.is_cancelled_since(fills.store.memory.hash(entry.key()), began) {
                    tier.forget(entry.key(), &[]);
                }
            });
        }
    }

    /// Returns the number of fills in progress.
    pub fn under_way(&self) -> usize {
        self.table.iter().map(|table| table.lock().fills.len()).sum()
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

    /// Adds a fill to the table. `reloads_since` is the start of its fetch, if a reload leads it.
    fn register(
        self: &Arc<Self>,
        table: &mut Table,
        HashedKey { key, hash }: HashedKey<'_>,
        signature: &[u8],
        began: Epoch,
        reloads_since: Option<Instant>,
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
    pub(super) fn note_stored(&self, fill: &Fill) {
        self.part(fill.hash).stored += 1;
    }

    /// Forbids `fill` to take more followers; a purge still reaches it.
    pub(super) fn close(&self, fill: &Fill) {
        // Under the table's lock, so that each request that has joined is registered as a reader already.
        let _table = self.part(fill.hash);
        fill.joinable.store(false, Ordering::Release);
    }

    /// Stops new followers if there is no reader; returns false if there is one.
    pub(super) fn close_unread(&self, fill: &Fill) -> bool {
        let _table = self.part(fill.hash);
        let is_unread = fill.readers.lock().positions.is_empty();
        if is_unread {
            fill.joinable.store(false, Ordering::Release);
        }
        is_unread
    }

    pub(super) fn forget(&self, fill: &Arc<Fill>) {
        self.part(fill.hash).remove(fill.hash, |other| Arc::ptr_eq(other, fill));
    }

    fn count_cancelled(&self, key: &[u8]) {
        let hash = self.store.memory.hash(key);
        self.part(hash).cancelled.add(hash);
    }

    fn hashed<'k>(&self, key: &'k [u8]) -> HashedKey<'k> {
        HashedKey { key, hash: self.store.memory.hash(key) }
    }

    /// Locks the part of the table for keys with this hash.
    pub(super) fn part(&self, hash: u64) -> MutexGuard<'_, Table> {
        self.table[hash as usize % self.table.len()].lock()
    }
}
