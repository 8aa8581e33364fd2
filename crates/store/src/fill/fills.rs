//! The table of the fills in progress, and the tiers that they publish to.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use hashbrown::HashTable;
use larder_semantics::fields::Fields;
use larder_semantics::purge::{Effect, Scope};
use parking_lot::{Mutex, MutexGuard};

use super::epoch::{Cancellations, Epochs};
use super::{Epoch, Fill, Verdict};
use crate::memory::Purpose;
use crate::purges::{Generation, PurgeStart, Reach};
use crate::{Arena, Entry, LinesRef, Store};

/// The parts of the table of fills, each with a lock.
const PARTS: usize = 64;

/// The number of times that [`Fills::spoil`] counts its key as cancelled.
const CANCELLED_BY_SPOIL: u64 = 2;

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
    pub(super) fills: HashTable<Arc<Fill>>,
    /// The number of responses stored under the keys of this part.
    stored: u64,
    pub(super) cancelled: Cancellations,
}

/// A cache key with its hash, from [`Memory::hash`](crate::Memory::hash).
#[derive(Clone, Copy)]
pub(super) struct HashedKey<'k> {
    pub(super) key: &'k [u8],
    pub(super) hash: u64,
}

impl Table {
    /// Iterates over the fills of `key`.
    pub(super) fn of<'t>(
        &'t self,
        HashedKey { key, hash }: HashedKey<'t>,
    ) -> impl Iterator<Item = &'t Arc<Fill>> {
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

    /// Puts a purge in force, ordered at `second` (UNIX). When this returns, responses that were stored
    /// before, or are being fetched, answer requests only as `effect` allows. The responses that the purge
    /// reaches are neither counted nor freed.
    pub fn order(&self, scopes: &[Scope], effect: Effect, second: u32) -> Generation {
        let (generation, rules) = self.store.purges.put(scopes, effect, second);
        self.store.near().iter().for_each(|tier| tier.purge(&rules));
        generation
    }

    /// Puts a purge in force as [`order`](Self::order) does. Returns the epoch for the response of the request that causes the
    /// purge, under `key` and with these fields: the purge does not reach it, but all others do since the request `began`.
    pub fn order_beside(
        &self,
        scopes: &[Scope],
        effect: Effect,
        second: u32,
        (began, key, fields): (Epoch, &[u8], &impl Fields),
    ) -> Epoch {
        let own = (began.generation, key, fields);
        let (generation, rules) = self.store.purges.put_beside(scopes, effect, second, own);
        self.store.near().iter().for_each(|tier| tier.purge(&rules));
        Epoch { generation, ..began }
    }

    /// Puts copied rules in force, as [`order`](Self::order) does. Returns `None`, and changes nothing, if the copy is
    /// malformed.
    pub fn order_copied(&self, copy: &[u8]) -> Option<()> {
        let rules = self.store().purges.repeat_copy(copy)?;
        self.store().near().iter().for_each(|tier| tier.purge(&rules));
        Some(())
    }

    /// Returns the purge that reaches `fill`, as far as its response is known.
    pub(super) fn reach_of(&self, fill: &Fill) -> Option<Reach> {
        let purges = &self.store.purges;
        if fill.born == purges.now() {
            return None;
        }
        let since = PurgeStart::Generation(fill.born);
        match &fill.progress.lock().verdict {
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

    /// Returns the epochs of all keys at present.
    pub(crate) fn epochs(&self) -> Epochs {
        Epochs((0..PARTS as u64).map(|hash| self.epoch_of(hash)).collect())
    }

    /// Returns the parts of the current epoch that are the same for all keys.
    pub(super) fn begins(&self) -> Epoch {
        let (generation, removals) = (self.store.purges.now(), self.store.equivalents.removals());
        Epoch { generation, removals, ..Epoch::default() }
    }

    /// Extends `scopes`, which are about to be purged or spoiled, by the URLs that are known to have the same
    /// responses. Responses in flight are not stored if they turn out to be equivalent.
    pub fn with_equivalents(&self, mut scopes: Vec<Scope>) -> Vec<Scope> {
        let equivalents = &self.store().equivalents;
        let others = scopes.iter().flat_map(|scope| match scope {
            Scope::Url(key) => {
                // Noted first, so that responses that become known after this lookup are refused.
                equivalents.note_removed(key);
                equivalents.all(key)
            }
            _ => Vec::new(),
        });
        let others: Vec<_> = others.map(Scope::Url).filter(|other| !scopes.contains(other)).collect();
        scopes.extend(others);
        scopes
    }

    /// Removes everything stored under `key`, in memory and the near tiers, and forbids its fills to publish. Returns how
    /// many responses and bytes memory had.
    pub fn purge(&self, key: &[u8]) -> (usize, u64) {
        self.purge_noted(key, true)
    }

    /// Removes what [`purge`](Self::purge) removes. Unless it `is_noted`, the other process of an upgrade is not told: it has
    /// told this one, and may be one that does not know of partitions.
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
        let partitions = self.store.purges.partitions_of(&[Scope::Url(key.to_vec())]);
        if !is_noted && !partitions.is_empty() {
            self.order(&partitions, Effect::Invalid, 0);
        }
        self.store.remove_from_memory(key, is_noted)
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

    /// Whether the key with this hash was cancelled after `earlier`, or may have been.
    pub fn is_cancelled_since(&self, hash: u64, earlier: Epoch) -> bool {
        self.part(hash).cancelled.includes(hash, earlier)
    }

    /// Whether the key with this hash was cancelled after `earlier`, or may have been, beyond the effect of
    /// [spoiling](Self::spoil) each of these URLs once.
    pub fn is_cancelled_by_others(&self, hash: u64, earlier: Epoch, spoiled: &[Scope]) -> bool {
        let is_own = |url: &&Scope| matches!(url, Scope::Url(key) if self.store.memory.hash(key) == hash);
        let own = CANCELLED_BY_SPOIL * spoiled.iter().filter(is_own).count() as u64;
        self.part(hash).cancelled.times(hash, earlier) != Some(own)
    }

    /// Returns the number of fills in progress.
    pub fn under_way(&self) -> usize {
        self.table.iter().map(|table| table.lock().fills.len()).sum()
    }

    /// Returns the hashes of the keys of the fills in progress.
    pub fn hashes(&self) -> HashSet<u64> {
        let of = |table: &Mutex<Table>| table.lock().fills.iter().map(|fill| fill.hash).collect::<Vec<_>>();
        self.table.iter().flat_map(of).collect()
    }

    /// Changes the limit for bodies stored in memory.
    pub fn set_max_object(&self, bytes: u64) {
        self.max_object.store(bytes, Ordering::Relaxed);
    }

    /// Whether a body of this many bytes may be stored in memory, if all other conditions allow it.
    pub fn fits(&self, bytes: u64) -> bool {
        bytes <= self.max_object.load(Ordering::Relaxed)
    }

    /// Whether memory may take a body of this many bytes as a whole.
    pub fn takes(&self, bytes: u64) -> bool {
        self.fits(bytes) && bytes <= self.store.memory.filling().most(Purpose::of(bytes))
    }

    /// Returns the tiers that fills publish to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the memory-backed files of large bodies.
    pub fn arena(&self) -> &Arena {
        &self.arena
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

    pub(super) fn hashed<'k>(&self, key: &'k [u8]) -> HashedKey<'k> {
        HashedKey { key, hash: self.store.memory.hash(key) }
    }

    /// Locks the part of the table for keys with this hash.
    pub(super) fn part(&self, hash: u64) -> MutexGuard<'_, Table> {
        self.table[hash as usize % self.table.len()].lock()
    }
}
