//! Memory and the tiers behind it as one cache.
//!
//! A response is stored in memory and on a disk at once, each within its own budget and under its own policy, so that either
//! may have responses that the other has evicted. Memory is looked up first. A response that is only on a disk is promoted
//! after a few requests, unless its body is sent by `sendfile`: then the page cache is memory enough. Eviction from memory
//! writes nothing; instead, some of the hits in memory count as uses on the disk, so that popular responses stay there.

mod queries;

use std::sync::{Arc, OnceLock};

use larder_semantics::freshness::Freshness;
use larder_semantics::purge::Effect;

use crate::disks::PruneTotals;
use crate::purges::{Generation, PurgeStart, Reach};
use crate::tier::{FetchStart, SignatureOf};
use crate::{Disks, Entry, Equivalents, Hints, Memory, Purges, Resident, Tier, TierName};

/// One in this many hits in memory counts as a use in the near tiers.
const TOUCHED: u32 = 16;

/// The tiers.
pub struct Store {
    /// The memory tier, which is looked up first.
    pub memory: Memory,
    /// The disk tier, for what concerns its directories alone.
    pub disks: Arc<Disks>,
    /// The tiers on this machine that are looked up after memory: the disks, if there are any.
    pub(crate) near: Box<[Arc<dyn Tier>]>,
    /// The tier on other machines, if there is one.
    pub(crate) far: OnceLock<Arc<dyn Tier>>,
    /// The purges in force on memory and the near tiers.
    pub purges: Arc<Purges>,
    /// The table of responses stored for other queries.
    pub equivalents: Equivalents,
    /// Links of stored responses that outlive the responses.
    pub hints: Hints,
}

impl Store {
    /// Creates a store of these tiers.
    pub fn new(memory: Memory, disks: Disks) -> Self {
        let disks = Arc::new(disks.with_lines(memory.lines()));
        let purges = Arc::clone(disks.purges());
        let near: Box<[Arc<dyn Tier>]> = match disks.is_empty() {
            true => Box::default(),
            false => Box::new([Arc::clone(&disks) as Arc<dyn Tier>]),
        };
        if near.is_empty() {
            purges.know_groups();
        }
        let (far, equivalents, hints) = Default::default();
        Self { memory, disks, near, far, purges, equivalents, hints }
    }

    /// Applies purges to `entry`, which was found in memory. Returns it unchanged, stale or invalid, or
    /// `None` if it was removed. Without a purge since the last request for it, this compares two numbers.
    #[inline]
    pub fn current(&self, entry: Entry) -> Option<Entry> {
        if entry.checked() == self.purges.now() { Some(entry) } else { self.check(entry) }
    }

    #[cold]
    fn check(&self, entry: Entry) -> Option<Entry> {
        let now = self.purges.now();
        let Some(reach) = self.reach(&entry) else {
            entry.note_checked(now);
            return Some(entry);
        };
        let left = reach.apply_to(&entry, now);
        self.memory.exchange(&entry, left.as_ref());
        left
    }

    /// Returns `entry` as purges have left it, without changing the store; `None` if one removes it.
    pub fn left(&self, entry: &Entry) -> Option<Entry> {
        match self.reach(entry) {
            Some(reach) => reach.apply_to(entry, self.purges.now()),
            None => Some(entry.clone()),
        }
    }

    /// Returns the effect of purges on a stored response that was found in memory, if there is one.
    pub fn reach(&self, entry: &Entry) -> Option<Reach> {
        if entry.checked() == self.purges.now() {
            return None;
        }
        self.purges.reach(PurgeStart::Generation(entry.checked()), entry.key(), entry.tagged().as_ref())
    }

    /// Returns the effect on a response like `entry` of the purges since `checked`, if there is one.
    pub fn reach_since(&self, checked: Generation, entry: &Entry) -> Option<Reach> {
        let since = PurgeStart::Generation(checked);
        (checked != self.purges.now())
            .then(|| self.purges.reach(since, entry.key(), entry.tagged().as_ref()))?
    }

    /// Applies purges to `entry`, which was found in a near tier.
    pub(crate) fn recalled(&self, entry: Entry) -> Option<Entry> {
        let now = self.purges.now();
        let since = PurgeStart::Second(entry.freshness().received);
        match self.purges.reach(since, entry.key(), entry.tagged().as_ref()) {
            Some(reach) => reach.apply_to(&entry, now),
            None => {
                entry.note_checked(now);
                Some(entry)
            }
        }
    }

    /// Removes everything stored under `key`, in memory and the near tiers; returns how many responses and bytes
    /// memory had.
    pub fn remove(&self, key: &[u8]) -> (usize, u64) {
        self.forget_near(key);
        self.hints.remove(key, self.memory.hash(key));
        self.remove_from_memory(key, true)
    }

    /// Removes everything stored under `key` in memory, and its slices in the near tiers, too; returns as
    /// [`remove`](Self::remove). Notes that as a change if it `is_noted`.
    pub(crate) fn remove_from_memory(&self, key: &[u8], is_noted: bool) -> (usize, u64) {
        let resident = self.memory.peek(key, self.memory.hash(key));
        let removed = self.memory.remove_noted(key, is_noted);
        resident.iter().flat_map(Resident::variants).for_each(|entry| self.remove_slices(entry));
        removed
    }

    /// Removes `entry`, whose content is in slices that do not belong to one representation any more, unless another
    /// response has replaced it. Returns whether it was in memory.
    pub fn remove_sliced(&self, entry: &Entry) -> bool {
        let resident = self.memory.peek(entry.key(), self.memory.hash(entry.key()));
        let mut variants = resident.iter().flat_map(Resident::variants);
        let stored = variants.find(|stored| stored.signature() == entry.signature());
        if let Some(stored) = stored {
            if stored.body().slices() != entry.body().slices() {
                return false;
            }
            self.memory.exchange(stored, None);
        }
        self.forget_near(entry.key());
        self.remove_slices(entry);
        stored.is_some()
    }

    /// Removes the slices of `entry`, if it has any, in memory and the near tiers. They were hidden when it was removed;
    /// this only frees what they take.
    pub(crate) fn remove_slices(&self, entry: &Entry) {
        for key in entry.body().slices().iter().flat_map(|sliced| sliced.keys(entry.key())) {
            self.forget_near(&key);
            self.memory.remove_noted(&key, true);
        }
    }

    /// Sweeps all tiers, the disks at no more than `rate` objects a second and only while `go_on` returns
    /// true. Removes the objects that are spent by `is_spent`, and those without a request since `unused`
    /// (UNIX seconds). Blocks while the disks work.
    pub fn prune(
        &self,
        is_spent: &dyn Fn(&Freshness) -> bool,
        unused: Option<u32>,
        rate: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> PruneTotals {
        let mut pruned = PruneTotals::default();
        pruned.looked = self.memory.prune(&mut |variants, used| {
            let is_unused = unused.is_some_and(|since| used < since);
            let is_spent = variants.iter().all(|entry| is_spent(&entry.freshness()));
            pruned.unused += u64::from(is_unused);
            pruned.spent += u64::from(is_spent && !is_unused);
            is_unused || is_spent
        });
        self.disks.prune(is_spent, unused, rate, go_on, &mut pruned);
        pruned
    }

    /// Returns the hint of `key`, which has this hash in memory: a response without content. Returns `None`
    /// after a purge that reached it, or when the responses of this URL were removed or invalidated since.
    pub fn hint(&self, key: &[u8], hash: u64) -> Option<Entry> {
        let entry = self.hints.find(key, hash)?;
        match self.reach(&entry) {
            None => Some(entry),
            Some(_) => {
                self.hints.remove(key, hash);
                None
            }
        }
    }

    /// Counts a hit in memory at `now` (UNIX seconds).
    pub fn used(&self, entry: &Entry, now: u32) {
        if self.has_near() && fastrand::u32(..TOUCHED) == 0 {
            self.near.iter().for_each(|tier| tier.touch(entry, now));
        }
    }
}

/// The tiers behind memory.
impl Store {
    /// Adds a far tier.
    pub fn add_far(&self, tier: Arc<dyn Tier>) {
        // There is one at most.
        let _ = self.far.set(tier);
    }

    /// Whether there are near tiers.
    #[inline]
    pub fn has_near(&self) -> bool {
        !self.near.is_empty()
    }

    /// Returns the near tiers, in the order of their lookups.
    pub fn near(&self) -> &[Arc<dyn Tier>] {
        &self.near
    }

    pub(crate) fn far(&self) -> &[Arc<dyn Tier>] {
        self.far.get().map_or(&[], std::slice::from_ref)
    }

    /// Returns the beginning of a fetch whose response far tiers may keep.
    pub fn begin(&self) -> FetchStart {
        FetchStart(self.far().iter().filter_map(|tier| Some((Arc::clone(tier), tier.begin()?))).collect())
    }

    /// Removes the responses to `key` from the near tiers.
    pub(crate) fn forget_near(&self, key: &[u8]) {
        self.near.iter().for_each(|tier| tier.forget(key, &[]));
    }

    /// Removes the response to `key` with this signature from the far tiers.
    pub fn forget_far(&self, key: &[u8], signature: &[u8]) {
        self.far().iter().for_each(|tier| tier.forget(key, signature));
    }

    /// Returns the near tiers' response under `key`, and its tier, for an explanation. Blocks while a tier reads.
    pub fn explain(&self, key: &[u8], signature: SignatureOf<'_>) -> Option<(Entry, TierName)> {
        self.near.iter().find_map(|tier| Some((self.recalled(tier.explain(key, signature)?)?, tier.name())))
    }
}

impl Reach {
    /// Applies this effect to `entry`, which is then checked up to `now`.
    pub(crate) fn apply_to(self, entry: &Entry, now: Generation) -> Option<Entry> {
        entry.aged(self.freshness_left(&entry.freshness())?, now)
    }

    /// Returns the freshness of a response after this effect; `None` if it is removed.
    pub(crate) fn freshness_left(self, freshness: &Freshness) -> Option<Freshness> {
        match self.effect {
            Effect::Stale => Some(freshness.purged(self.second)),
            Effect::Invalid => Some(freshness.invalid()),
            Effect::Remove => None,
        }
    }
}
