//! Memory and disks as one cache.
//!
//! A response is stored in memory and on a disk at once, each within its own budget and under its own policy, so that either
//! may have responses that the other has evicted. Memory is looked up first. A response that is only on a disk is promoted
//! after a few requests, unless its body is sent by `sendfile`: then the page cache is memory enough. Eviction from memory
//! writes nothing; instead, some of the hits in memory count as uses on the disk, so that popular responses stay there.

use std::sync::Arc;

use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::purge::Effect;
use larder_semantics::vary;

use crate::disks::Glance;
use crate::equivalents::Source;
use crate::fill::{Epoch, Fills};
use crate::purges::{Generation, Reach, Since};
use crate::{Disks, Entry, Equivalents, Hints, Memory, Purges};

/// One in this many hits in memory counts as a use on the disk.
const TOUCHED: u32 = 16;
/// One in this many hits on the disk is put into memory: a response requested once or twice is not worth the
/// evictions.
const PROMOTED: u32 = 4;

/// The result of pruning the tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Objects examined.
    pub looked: u64,
    /// Objects removed because they were spent.
    pub spent: u64,
    /// Objects removed because there was no request for them for a long time.
    pub unused: u64,
}

/// The tiers.
pub struct Store {
    /// The memory tier, which is looked up first.
    pub memory: Memory,
    /// The disk tier, which is looked up second.
    pub disks: Disks,
    /// The purges in force on both.
    pub purges: Arc<Purges>,
    /// The table of responses stored for other queries.
    pub equivalents: Equivalents,
    /// Links of stored responses that outlive the responses.
    pub hints: Hints,
}

impl Store {
    /// Creates a store of these tiers.
    pub fn new(memory: Memory, disks: Disks) -> Self {
        let purges = Arc::clone(disks.purges());
        if disks.is_empty() {
            purges.know_groups();
        }
        let (equivalents, hints) = Default::default();
        Self { memory, disks, purges, equivalents, hints }
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
        let left = reach.leaves(&entry, now);
        self.memory.exchange(&entry, left.as_ref());
        left
    }

    /// Does the same without changing the store.
    pub fn left(&self, entry: &Entry) -> Option<Entry> {
        match self.reach(entry) {
            Some(reach) => reach.leaves(entry, self.purges.now()),
            None => Some(entry.clone()),
        }
    }

    /// Returns the effect of purges on a stored response that was found in memory, if there is one.
    pub fn reach(&self, entry: &Entry) -> Option<Reach> {
        if entry.checked() == self.purges.now() {
            return None;
        }
        self.purges.reach(Since::Generation(entry.checked()), entry.key(), entry.tagged().as_ref())
    }

    /// Applies purges to `entry`, which was found on a disk.
    fn recalled(&self, entry: Entry) -> Option<Entry> {
        let now = self.purges.now();
        let since = Since::Second(entry.freshness().received);
        match self.purges.reach(since, entry.key(), entry.tagged().as_ref()) {
            Some(reach) => reach.leaves(&entry, now),
            None => {
                entry.note_checked(now);
                Some(entry)
            }
        }
    }
    /// Removes everything stored under `key`, in all tiers; returns how many responses and bytes memory had.
    pub fn remove(&self, key: &[u8]) -> (usize, u64) {
        self.disks.remove(key);
        self.hints.remove(key, self.memory.hash(key));
        self.memory.remove(key)
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
    ) -> Pruned {
        let mut pruned = Pruned::default();
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

    /// Returns the disk's response to a request with these fields, without counting a use. Blocks while the
    /// disk reads.
    pub fn look_on_disk(&self, key: &[u8], request: &impl Fields) -> Option<Entry> {
        self.recalled(self.disks.look(key, request, self.memory.lines())?)
    }

    /// Counts a hit in memory at `now` (UNIX seconds).
    pub fn used(&self, entry: &Entry, now: u32) {
        if !self.disks.is_empty() && fastrand::u32(..TOUCHED) == 0 {
            self.disks.touch(entry, now);
        }
    }
}

impl Fills {
    /// Returns the disk's response to a request with these fields, if the lookup need not wait.
    pub fn recall_at_once(&self, key: &[u8], request: &impl Fields, now: u32) -> Option<Entry> {
        let store = self.store();
        if store.disks.is_empty() {
            return None;
        }
        let began = self.now(key);
        match store.disks.glance(key, request, store.memory.lines(), now) {
            Glance::Entry(entry) => Some(self.promoted(self.latest(self.left_of(entry)?)?, began)),
            Glance::Absent | Glance::Waits => None,
        }
    }

    /// Returns the disk's response to a request with these fields.
    pub async fn recall(&self, key: &[u8], request: &impl Fields, now: u32) -> Option<Entry> {
        self.recall_variant(key, |varies| vary::again(varies, request), now).await
    }

    /// Returns the disk's response under `key` whose signature `signature` derives from that of another variant.
    pub async fn recall_variant(
        &self,
        key: &[u8],
        signature: impl Fn(&[u8]) -> Vec<u8>,
        now: u32,
    ) -> Option<Entry> {
        let store = self.store();
        if store.disks.is_empty() {
            return None;
        }
        let began = self.now(key);
        let entry = store.disks.find(key, signature, store.memory.lines(), now).await?;
        Some(self.promoted(self.latest(self.left_of(entry)?)?, began))
    }

    /// Returns `entry`, which was found on a disk, unless a later response of another URL that answers the
    /// same requests is stored.
    fn latest(&self, entry: Entry) -> Option<Entry> {
        if !entry.says_queries() {
            return Some(entry);
        }
        let (store, received) = (self.store(), entry.freshness().received);
        let (key, signature) = (entry.key(), entry.signature());
        let learned =
            store.learn((key, signature), entry.status(), &entry.fields(), (Source::Found, received));
        let is_latest = !learned.is_refused;
        store.learned(key, received, learned);
        is_latest.then_some(entry)
    }

    /// Applies purges and changes to `entry`, which a request for the key with this hash found at `looked`. A
    /// change affects the entry in memory, not copies of it: after a change, or if the entry has another key,
    /// the entry is looked up again.
    pub fn left_since(&self, (of, looked): (u64, Epoch), entry: Entry) -> Option<Entry> {
        let (store, hash) = (self.store(), self.store().memory.hash(entry.key()));
        if hash != of || self.is_cancelled_since(hash, looked) {
            let resident = store.memory.peek(entry.key(), hash)?;
            let variant =
                resident.variants().iter().find(|variant| variant.signature() == entry.signature())?;
            return store.current(variant.clone());
        }
        store.current(entry)
    }

    /// Applies purges to `entry`, which was found on a disk; removes it from the disk if a purge removes it.
    fn left_of(&self, entry: Entry) -> Option<Entry> {
        let (store, is_alone) = (self.store(), entry.signature().is_empty());
        let key = is_alone.then(|| entry.key().to_vec());
        let left = store.recalled(entry);
        if let (None, Some(key)) = (&left, key) {
            store.disks.remove(&key);
        }
        left
    }

    /// Puts a fraction of the entries found on a disk into memory, unless their bodies are sent by `sendfile`. A
    /// response stored or a purge ordered since `began` takes precedence.
    fn promoted(&self, entry: Entry, began: Epoch) -> Entry {
        if entry.body().record().is_none() && fastrand::u32(..PROMOTED) == 0 {
            self.store().memory.put(entry.clone(), None);
            if !self.now(entry.key()).is_like(began) {
                self.store().memory.remove(entry.key());
            }
        }
        entry
    }
}

impl Reach {
    /// Applies this effect to `entry`, which is then checked up to `now`.
    pub(crate) fn leaves(self, entry: &Entry, now: Generation) -> Option<Entry> {
        entry.aged(self.left_of(&entry.freshness())?, now)
    }

    /// Applies this effect to a freshness; returns `None` if the response is removed.
    pub(crate) fn left_of(self, freshness: &Freshness) -> Option<Freshness> {
        match self.effect {
            Effect::Stale => Some(freshness.purged(self.second)),
            Effect::Invalid => Some(freshness.invalid()),
            Effect::Remove => None,
        }
    }
}
