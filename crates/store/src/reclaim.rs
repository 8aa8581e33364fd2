//! The number of objects that a purge reaches, and the memory that it frees.
//!
//! A purge is in force from the moment it is ordered ([`crate::purges`]), without any work here. But its
//! sender may ask for the number of objects, and unreachable objects should be freed before the policy evicts
//! them. So memory and disks are swept afterwards, in slices, at a pace that does not affect requests; one
//! sweep serves all purges that wait for it. Each sweep ends at a generation: it ignores later rules, so that
//! purges that wait for the next sweep still find their objects. Responses fetched after a purge do not count
//! for it, nor do those that a request has looked up between purge and sweep.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::sync::Arc;

use larder_semantics::purge::{Effect, Scope};

use crate::body::sliced::is_of_slice;
use crate::disks::DiskResponse;
use crate::purges::{Generation, PurgeStart};
use crate::{Entry, Fills, Purges, Store};

/// A purge in force.
pub struct ReclaimOrder {
    scopes: Vec<Scope>,
    effect: Effect,
    generation: Generation,
    /// The rules of this purge alone.
    alone: Purges,
}

/// Stored responses, and the bytes that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimCount {
    /// The number of objects; each variant is one.
    pub objects: u64,
    /// Bytes, including heads.
    pub bytes: u64,
}

/// A purge, and the count of the objects that it reaches.
pub struct Count {
    ordered: ReclaimOrder,
    reached: ReclaimCount,
    /// Whether the disks will be counted, too.
    on_disks: bool,
    /// The variants that the same sweep counted in memory: a disk may have them, too.
    in_memory: Arc<HashSet<u64>>,
}

impl AddAssign for ReclaimCount {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

impl ReclaimOrder {
    /// Whether the purge removes the objects that it reaches.
    pub fn removes(&self) -> bool {
        self.effect == Effect::Remove
    }

    /// Returns the generation that began with the purge.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    fn reaches(&self, entry: &Entry) -> bool {
        let (key, fields) = (entry.key(), entry.tagged());
        entry.checked() < self.generation
            && self.alone.reach(PurgeStart::Generation(Generation::default()), key, fields.as_ref()).is_some()
    }

    fn reaches_on_disk(&self, response: &DiskResponse<'_>) -> bool {
        self.alone
            .reach(PurgeStart::Second(response.received()), response.head.key, Some(&response.fields()))
            .is_some()
    }

    /// Returns the keys of its URLs, if all of its scopes are URLs.
    fn keys(&self) -> Option<Vec<&[u8]>> {
        fn key(scope: &Scope) -> Option<&[u8]> {
            if let Scope::Url(key) = scope { Some(key) } else { None }
        }
        self.scopes.iter().map(key).collect()
    }
}

impl Count {
    /// Returns a count of zero. `on_disks`: the disks will be counted after memory.
    pub fn of(ordered: ReclaimOrder, on_disks: bool) -> Self {
        Self { ordered, reached: ReclaimCount::default(), on_disks, in_memory: Arc::default() }
    }

    /// Returns the purge.
    pub fn ordered(&self) -> &ReclaimOrder {
        &self.ordered
    }

    /// Returns the objects counted so far.
    pub fn reached(&self) -> ReclaimCount {
        self.reached
    }
}

impl Fills {
    /// Puts a purge in force, as [`order`](Self::order) does, and returns it for a later sweep.
    pub fn enforce(&self, scopes: Vec<Scope>, effect: Effect, second: u32) -> ReclaimOrder {
        let alone = self.store().purges.apart();
        alone.put(&scopes, effect, second);
        let generation = self.order(&scopes, effect, second);
        ReclaimOrder { scopes, effect, generation, alone }
    }
}

impl Store {
    /// Counts the objects in memory that a purge of URLs reaches, and frees them if it removes them. Does
    /// nothing for other scopes.
    pub fn count_urls(&self, count: &mut Count) {
        let keys = count.ordered.keys().unwrap_or_default();
        let stored = keys.into_iter().filter_map(|key| self.memory.peek(key, self.memory.hash(key)));
        let mut seen = HashSet::new();
        for resident in stored.collect::<Vec<_>>() {
            resident.variants().iter().for_each(|entry| _ = self.count(entry, count, &mut seen));
        }
        count.in_memory = Arc::new(seen);
    }

    /// Counts the responses on the disks. Returns false if responses there vary, which need a sweep. Blocks while the
    /// disks read.
    pub fn count_urls_on_disks(&self, count: &mut Count) -> bool {
        if !self.has_near() {
            return true;
        }
        let Some(keys) = count.ordered.keys() else { return false };
        let keys: Vec<_> = keys.into_iter().map(<[u8]>::to_vec).collect();
        let mut is_all = true;
        for key in &keys {
            is_all &= self.disks.page(key, &mut |response| _ = self.count_on_disk(response, count));
        }
        is_all
    }

    /// Sweeps memory: counts the objects that each of `counts` reaches, and applies the purges up to `until`
    /// to everything that they reach, so that requests need no lookup of their rules any more, but for responses of which a
    /// pack has everything: until an upgrade ends, no entry of theirs keeps that.
    pub fn sweep_memory(&self, counts: &mut [&mut Count], until: Generation) {
        let (any, mut seen) = (self.any_of(counts), HashSet::new());
        self.memory.list(&mut |resident, _| {
            for entry in resident.variants() {
                let mut is_gone = false;
                if is_reached(&any, entry) {
                    counts.iter_mut().for_each(|count| is_gone |= self.count(entry, count, &mut seen));
                }
                if !is_gone && entry.checked() < until {
                    self.settle(entry, until);
                }
            }
        });
        let seen = Arc::new(seen);
        counts.iter_mut().for_each(|count| count.in_memory = Arc::clone(&seen));
    }

    /// Sweeps the disks in the same way, at no more than `rate` objects a second, and while `go_on` returns
    /// true. Returns the objects that it freed. Blocks while the disks work.
    pub fn sweep_disks(
        &self,
        counts: &mut [&mut Count],
        until: Generation,
        rate: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> ReclaimCount {
        let (any, mut freed) = (self.any_of(counts), ReclaimCount::default());
        let whole = PurgeStart::Generation(Generation::default());
        self.disks.remove_purged(rate, go_on, &mut |response| {
            let fields = &response.fields();
            let fields = Some(fields);
            let mut is_gone = false;
            if !counts.is_empty() && any.reach(whole, response.head.key, fields).is_some() {
                counts.iter_mut().for_each(|count| is_gone |= self.count_on_disk(response, count));
            }
            let since = PurgeStart::Second(response.received());
            let reach = self.purges.reach_until(until, since, response.head.key, fields);
            is_gone |= reach.is_some_and(|reach| reach.effect == Effect::Remove);
            if is_gone && response.is_found() {
                freed += ReclaimCount { objects: 1, bytes: response.size };
            }
            is_gone
        });
        freed
    }

    /// Removes the records of the URLs of `purge`, if it removes objects: they do not return, even after a
    /// crash of the process.
    pub fn forget_pages(&self, purge: &ReclaimOrder) {
        if purge.removes() {
            purge.keys().into_iter().flatten().for_each(|key| self.forget_near(key));
        }
    }

    /// Returns rules that reach everything that any of `counts` reaches, so that most objects are compared only once.
    fn any_of(&self, counts: &[&mut Count]) -> Purges {
        let any = self.purges.apart();
        for Count { ordered, .. } in counts.iter().map(|count| &**count) {
            any.put(&ordered.scopes, ordered.effect, 0);
        }
        any
    }

    /// Counts `entry` if the purge reaches it. If the purge removes objects, also frees the entry and returns
    /// true. `seen` collects the variants that are not counted again on the disks.
    fn count(&self, entry: &Entry, count: &mut Count, seen: &mut HashSet<u64>) -> bool {
        if !count.ordered.reaches(entry) {
            return false;
        }
        count.reached += ReclaimCount { objects: counted(entry.key()), bytes: entry.charge() };
        if count.on_disks {
            seen.insert(self.memory.variant(entry.key(), entry.signature()));
        }
        if count.ordered.removes() {
            self.memory.exchange(entry, None);
            self.remove_slices(entry);
        }
        count.ordered.removes()
    }

    /// Counts a response on a disk, unless it was counted in memory; returns true if the purge removes it.
    fn count_on_disk(&self, response: &DiskResponse<'_>, count: &mut Count) -> bool {
        if !count.ordered.reaches_on_disk(response) {
            return false;
        }
        if !count.in_memory.contains(&self.memory.variant(response.head.key, response.head.signature))
            && response.is_found()
        {
            let objects = counted(response.head.key);
            count.reached += ReclaimCount { objects, bytes: response.size };
        }
        count.ordered.removes()
    }

    /// Applies the purges up to `until` to `entry`, if they reach it.
    fn settle(&self, entry: &Entry, until: Generation) {
        let since = PurgeStart::Generation(entry.checked());
        match self.purges.reach_until(until, since, entry.key(), entry.tagged().as_ref()) {
            Some(reach) => self.memory.exchange(entry, reach.apply_to(entry, until).as_ref()),
            None => entry.note_checked(until),
        }
    }
}

/// Returns the number of objects that a response under `key` counts as: a slice is a part of one.
fn counted(key: &[u8]) -> u64 {
    u64::from(!is_of_slice(key))
}

/// Whether any rule of `any` reaches `entry`.
fn is_reached(any: &Purges, entry: &Entry) -> bool {
    let since = PurgeStart::Generation(Generation::default());
    !any.is_empty() && any.reach(since, entry.key(), entry.tagged().as_ref()).is_some()
}
