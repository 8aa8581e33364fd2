//! The memory tier: entries by key, in mutex-guarded shards that share one budget.
//!
//! All variants of a URL are one resident: one lookup finds them, they are evicted together, and a purge
//! reaches all of them. A shard gets 64-bit keyed hashes; the full key decides whether a resident is the
//! requested one, so a collision is a miss, never another URL's bytes.

use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use larder_evict::{InsertResult, Spec};

use crate::body::sliced::is_of_slice;
use crate::lines::{LinePool, Lines};
use crate::{Entry, HashKeys};

mod budget;
mod changes;
mod copy;
mod fill_budget;
mod forms;
mod hot;
mod pack;
mod resident;
mod room;
mod shards;
mod walk;

use changes::Changes;
pub(crate) use copy::CopiedResident;
pub(crate) use fill_budget::{FillBudget, Purpose};
use hot::HotTable;
use resident::UsedResident;
pub(crate) use resident::Uses;
use room::WithheldBytes;
use shards::{LockedShard, Shards};

pub use budget::{Budget, Counts};
pub use resident::Resident;
pub use walk::KeyUsage;

/// The divisor for the part of the memory for responses in progress that is reserved for field lines.
const LINES_SHARE: u64 = 16;

/// The memory tier.
pub struct Memory {
    shards: Shards,
    /// The hot entries of each worker.
    hot: Box<[HotTable]>,
    keys: HashKeys,
    lines: Arc<LinePool>,
    budget: Budget,
    max_variants: AtomicUsize,
    counts: StoreCounts,
    filling: FillBudget,
    withheld: WithheldBytes,
    changes: Changes,
    /// Returns memory that was freed to the system at once.
    trim: OnceLock<fn()>,
}

/// Counts that each change updates, apart from what each hit reads.
#[derive(Default)]
#[repr(align(128))]
struct StoreCounts {
    admissions: AtomicU64,
    rejections: AtomicU64,
    /// Bytes of content of all residents.
    content: AtomicU64,
    /// Bytes held for all residents that their sizes do not include.
    uncounted: AtomicU64,
    /// Residents that are slices of others.
    slices: AtomicU64,
}

/// What a resident adds to these counts.
#[derive(Clone, Copy)]
struct ResidentCounts {
    content: u64,
    uncounted: u64,
    is_slice: bool,
}

/// Figures of the memory tier at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// URLs stored. The slices of a response belong to its URL.
    pub objects: u64,
    /// Bytes held, including heads, shared field lines, keys and bookkeeping.
    pub bytes: u64,
    /// Bytes of content among them.
    pub content: u64,
    /// Residents evicted so far.
    pub evictions: u64,
    /// URLs admitted so far.
    pub admissions: u64,
    /// URLs not admitted, by the policy or because of their size.
    pub rejections: u64,
    /// Bytes of responses in progress.
    pub filling: u64,
    /// Bytes of the capacity that are withheld, since the allocator holds about as many unused bytes.
    pub withheld: u64,
}

impl Memory {
    /// Creates a tier of this `budget` under `policy`.
    pub fn new(budget: impl Into<Budget>, policy: &Spec, max_variants: usize) -> Self {
        let budget = budget.into();
        let filling = budget.filling();
        let lines = filling / LINES_SHARE;
        let random = RandomState::new();
        Self {
            shards: Shards::new(budget, policy, |number| random.hash_one(number)),
            hot: HotTable::for_workers(budget),
            keys: HashKeys::default(),
            lines: Arc::new(LinePool::new(usize::try_from(lines).unwrap_or(usize::MAX))),
            budget,
            max_variants: AtomicUsize::new(max_variants),
            counts: StoreCounts::default(),
            filling: FillBudget::new(filling - lines),
            withheld: WithheldBytes::default(),
            changes: Changes::default(),
            trim: OnceLock::new(),
        }
    }

    /// Returns the keyed hash of `key` for this tier and [`crate::HitForMiss`].
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.keys.hash(key)
    }

    /// Returns the keys of this hash.
    pub fn hash_keys(&self) -> &HashKeys {
        &self.keys
    }

    /// Returns field lines in the form of an entry, with `date` as their `Date`; lines that other responses
    /// have too are stored once.
    pub fn keep(&self, fields: &HeaderMap, date: u32) -> Lines {
        self.lines.keep(fields, date)
    }

    /// Does the same with well-formed lines, given as name and value.
    pub fn keep_lines<'l>(
        &self,
        lines: impl Iterator<Item = (&'l [u8], &'l [u8])> + Clone,
        date: u32,
    ) -> Lines {
        self.lines.keep_lines(lines, date)
    }

    /// Returns the pool of field lines that responses share.
    pub(crate) fn lines(&self) -> &Arc<LinePool> {
        &self.lines
    }

    /// Finds the responses stored under `key`, and counts a use at `now` (UNIX seconds). The caller selects
    /// the variant that answers the request, when no shard is locked any more.
    pub fn find(&self, key: &[u8], hash: u64, now: u32) -> Option<Resident> {
        let mut shard = self.shard(hash);
        let kept = shard.get(hash).filter(|kept| kept.is_for(key))?;
        kept.uses().note(1, now);
        Some(kept.resident())
    }

    /// Finds the responses stored under `key`, without counting a use.
    pub fn peek(&self, key: &[u8], hash: u64) -> Option<Resident> {
        self.shard(hash).peek(hash).filter(|kept| kept.is_for(key)).map(UsedResident::resident)
    }

    /// Returns the latest response stored under the key with this hash, without counting a use.
    pub fn latest(&self, hash: u64) -> Option<Entry> {
        self.shard(hash).peek(hash)?.variants().first().cloned()
    }

    /// Stores `entry` beside or instead of the variants of its URL. Returns false when it is too large.
    ///
    /// `replaces` is the stored response that the new one supersedes, in addition to those of equal signature (a
    /// refreshed head may come with another `Vary`).
    pub fn put(&self, entry: Entry, replaces: Option<&Entry>) -> bool {
        self.put_unless(entry, replaces, |_| false)
    }

    /// Stores an `entry` that a purge has reached. Returns false, too, if a response was fetched since then, which stays
    /// instead.
    pub(crate) fn put_outdated(&self, entry: Entry, replaces: Option<&Entry>) -> bool {
        let (signature, checked) = (entry.signature().to_vec(), entry.checked());
        self.put_unless(entry, replaces, |stored| {
            stored.signature() == signature && stored.checked() > checked
        })
    }

    fn put_unless(&self, entry: Entry, replaces: Option<&Entry>, stays: impl Fn(&Entry) -> bool) -> bool {
        self.make_room_for(entry.charge());
        let hash = self.hash(entry.key());
        let mut dropped = Vec::new();
        let mut shard = self.shard(hash);
        let old = shard.peek(hash).filter(|kept| kept.is_for(entry.key()));
        if old.is_some_and(|kept| kept.variants().iter().any(stays)) {
            return false;
        }
        let is_new = old.is_none();
        let uses =
            old.map(|kept| kept.uses().clone()).unwrap_or_default().renewed(entry.freshness().received);
        let old = old.map(UsedResident::resident);
        let kept = old.iter().flat_map(Resident::variants).filter(|stored| {
            stored.signature() != entry.signature()
                && !stored.signature().is_empty()
                && !entry.signature().is_empty()
                && replaces.is_none_or(|replaced| replaced.signature() != stored.signature())
        });
        let others: Vec<_> =
            kept.take(self.max_variants.load(Ordering::Relaxed).saturating_sub(1)).cloned().collect();
        let several = (!others.is_empty()).then(|| [vec![entry.clone()], others].concat());
        let resident = several.and_then(Resident::of).unwrap_or(Resident::One(entry));
        let stored = self.place(&mut shard, hash, UsedResident::new(resident, uses), &mut dropped);
        self.unlock(shard, &dropped);
        let is_stored = matches!(stored, InsertResult::Stored);
        match (is_stored, is_new) {
            (true, true) => _ = self.counts.admissions.fetch_add(1, Ordering::Relaxed),
            (true, false) => {}
            (false, _) => _ = self.counts.rejections.fetch_add(1, Ordering::Relaxed),
        }
        is_stored
    }

    /// Replaces `old` by `new`, or removes it, if `old` is still stored.
    pub(crate) fn exchange(&self, old: &Entry, new: Option<&Entry>) {
        let (hash, mut dropped) = (self.hash(old.key()), Vec::new());
        let mut shard = self.shard(hash);
        let Some(kept) = shard.peek(hash) else { return };
        let stored = kept.resident();
        if !stored.variants().iter().any(|entry| entry.is_same(old)) {
            return;
        }
        let left =
            stored.variants().iter().filter_map(|entry| if entry.is_same(old) { new } else { Some(entry) });
        let left = Resident::of(left.cloned().collect());
        self.leave(&mut shard, hash, left, &mut dropped);
        self.unlock(shard, &dropped);
    }

    /// Replaces `old` by `new`, the same response with more content, if `old` is still stored. Returns false
    /// if it is not, or if there is no room for `new`: then `old` stays.
    pub(crate) fn grow(&self, old: &Entry, new: &Entry) -> bool {
        let (hash, mut dropped) = (self.hash(old.key()), Vec::new());
        let mut shard = self.shard(hash);
        let Some(kept) = shard.peek(hash).filter(|kept| kept.variants().iter().any(|own| own.is_same(old)))
        else {
            return false;
        };
        let before = UsedResident::new(kept.resident(), kept.uses().clone());
        let grown =
            before.variants().iter().map(|own| if own.is_same(old) { new } else { own }.clone()).collect();
        let grown = Resident::of(grown);
        let grows = before.charge() + new.charge().saturating_sub(old.charge()) <= self.largest() / 2;
        let is_stored = grows && {
            self.leave(&mut shard, hash, grown, &mut dropped);
            shard.peek(hash).is_some()
        };
        if grows && !is_stored {
            self.place(&mut shard, hash, before, &mut dropped);
        }
        self.unlock(shard, &dropped);
        is_stored
    }

    /// Replaces each response stored under `key` by the result of `leaves`.
    pub(crate) fn change(&self, key: &[u8], leaves: impl Fn(&Entry) -> Option<Entry>) {
        let (hash, mut dropped) = (self.hash(key), Vec::new());
        let mut shard = self.shard(hash);
        self.changes.note(key, true);
        let Some(kept) = shard.peek(hash).filter(|kept| kept.is_for(key)) else { return };
        let left = Resident::of(kept.variants().iter().filter_map(leaves).collect());
        self.leave(&mut shard, hash, left, &mut dropped);
        self.unlock(shard, &dropped);
    }

    /// Removes everything stored under `key`; returns how many responses and bytes that were.
    pub fn remove(&self, key: &[u8]) -> (usize, u64) {
        self.remove_noted(key, true)
    }

    /// Removes everything stored under `key`, and notes that as a change if it `is_noted`.
    pub(crate) fn remove_noted(&self, key: &[u8], is_noted: bool) -> (usize, u64) {
        let hash = self.hash(key);
        let mut shard = self.shard(hash);
        if is_noted {
            self.changes.note(key, true);
        }
        if !shard.peek(hash).is_some_and(|kept| kept.is_for(key)) {
            return (0, 0);
        }
        let mut dropped = Vec::new();
        shard.remove(hash, &mut dropped);
        self.unlock(shard, &dropped);
        dropped.first().map_or((0, 0), |kept| (kept.variants().len(), kept.charge()))
    }

    /// Removes everything.
    pub fn clear(&self) {
        self.clear_noted(true);
    }

    /// Removes everything, and notes that as a change if it `is_noted`.
    pub(crate) fn clear_noted(&self, is_noted: bool) {
        for shard in self.shards.iter() {
            let (mut shard, mut dropped) = (self.shards.lock(shard), Vec::new());
            shard.clear(&mut dropped);
            self.unlock(shard, &dropped);
        }
        // At the end: what a copy of a shard still had is cleared there, too.
        if is_noted {
            self.changes.note_clear();
        }
    }

    /// Puts another policy in force and keeps the stored responses. A shard is locked while its residents
    /// move, some milliseconds.
    pub fn set_policy(&self, policy: &Spec) {
        let random = RandomState::new();
        for (n, shard) in self.shards.iter().enumerate() {
            self.shards.lock(shard).succeed(policy, random.hash_one(n));
        }
    }

    /// Changes the limit of variants for each URL, for responses stored from now on.
    pub fn set_max_variants(&self, most: usize) {
        self.max_variants.store(most, Ordering::Relaxed);
    }

    /// Returns the budget of responses in progress.
    pub(crate) fn filling(&self) -> &FillBudget {
        &self.filling
    }

    /// Returns the number of URLs admitted so far.
    pub fn admissions(&self) -> u64 {
        self.counts.admissions.load(Ordering::Relaxed)
    }

    /// Returns the figures over all shards.
    pub fn usage(&self) -> Usage {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let start = Usage {
            admissions: now(&self.counts.admissions),
            rejections: now(&self.counts.rejections),
            filling: self.filling.booked(),
            withheld: self.withheld.bytes(),
            bytes: self.lines.bytes() + now(&self.counts.uncounted),
            content: now(&self.counts.content),
            ..Usage::default()
        };
        let sum = self.shards.iter().map(|shard| self.shards.lock(shard)).fold(start, |sum, shard| Usage {
            objects: sum.objects + shard.len() as u64,
            bytes: sum.bytes + shard.bytes(),
            evictions: sum.evictions + shard.evictions(),
            ..sum
        });
        // The shards were counted one after the other.
        Usage { objects: sum.objects.saturating_sub(now(&self.counts.slices)), ..sum }
    }

    /// Checks every shard's invariants, that every resident is stored under its key's hash, and, unless a large response is
    /// just being stored, that the shards together have no more than the capacity.
    ///
    /// # Errors
    /// The violated invariant, for tests and fuzzing.
    pub fn validate(&self) -> Result<(), String> {
        self.shards.validate()?;
        for shard in self.shards.iter() {
            let shard = self.shards.lock(shard);
            shard.validate()?;
            let mut wrong = None;
            shard.for_each(&mut |hash, kept| {
                let fault = kept.variants().iter().find_map(|entry| match self.hash(entry.key()) == hash {
                    true => entry.coded()?.validate().err(),
                    false => Some("it is stored under another key's hash".to_owned()),
                });
                wrong = wrong.take().or(fault.map(|fault| format!("resident {hash:016x}: {fault}")));
            });
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        Ok(())
    }

    /// Stores `kept` in place of the resident with its key. A resident of the same size keeps the policy's
    /// state: a refreshed head, or the same response fetched once more, is no new object.
    fn place(
        &self,
        shard: &mut LockedShard<'_>,
        hash: u64,
        kept: UsedResident,
        dropped: &mut Vec<UsedResident>,
    ) -> InsertResult<UsedResident> {
        let counts = self.budget.counts;
        let (object, added) = (kept.object(hash, counts), self.counts_of(&kept));
        self.note_changed(&kept);
        let stored = match shard.renew(object) {
            Some(old) => {
                dropped.push(mem::replace(old, kept));
                InsertResult::Stored
            }
            None => shard.insert(object, kept, false, dropped),
        };
        if matches!(stored, InsertResult::Stored) {
            self.note_added(added);
        }
        stored
    }

    /// Replaces the resident under this hash by `resident`, with the same uses, or removes it.
    fn leave(
        &self,
        shard: &mut LockedShard<'_>,
        hash: u64,
        resident: Option<Resident>,
        dropped: &mut Vec<UsedResident>,
    ) {
        let uses = shard.peek(hash).map(|kept| kept.uses().clone());
        match resident.zip(uses) {
            Some((resident, uses)) => _ = self.place(shard, hash, UsedResident::new(resident, uses), dropped),
            None => {
                let from = dropped.len();
                shard.remove(hash, dropped);
                dropped[from..].iter().take(1).for_each(|kept| self.note_changed(kept));
            }
        }
    }

    fn counts_of(&self, kept: &UsedResident) -> ResidentCounts {
        ResidentCounts {
            content: kept.content(),
            uncounted: kept.uncounted(self.budget.counts),
            is_slice: kept.variants().first().is_some_and(|entry| is_of_slice(entry.key())),
        }
    }

    /// Updates the figures after a resident with these counts was added.
    fn note_added(&self, added: ResidentCounts) {
        self.counts.content.fetch_add(added.content, Ordering::Relaxed);
        self.counts.uncounted.fetch_add(added.uncounted, Ordering::Relaxed);
        if added.is_slice {
            self.counts.slices.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Updates the figures after these residents were removed.
    fn note_dropped(&self, dropped: &[UsedResident]) {
        for gone in dropped.iter().map(|kept| self.counts_of(kept)) {
            self.counts.content.fetch_sub(gone.content, Ordering::Relaxed);
            self.counts.uncounted.fetch_sub(gone.uncounted, Ordering::Relaxed);
            if gone.is_slice {
                self.counts.slices.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn shard(&self, hash: u64) -> LockedShard<'_> {
        self.shards.lock(self.shards.of(hash))
    }
}
