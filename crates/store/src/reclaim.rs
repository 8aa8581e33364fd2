//! How much a purge reaches, and the room that it frees.
//!
//! A purge is in force from the moment it is ordered ([`crate::purges`]): for that, nothing here is needed. But who
//! ordered it wants to know what it reached, and what nobody will find again should not take room until the policy
//! gives it up. So everything is looked through once, by slices, at a pace that those who are answered meanwhile do not
//! notice. What was fetched after the purge is left alone; what somebody asked for between the purge and the
//! look is judged by then, and not counted.

use std::collections::HashSet;
use std::ops::AddAssign;

use crate::disks::Lying;
use crate::purges::{Generation, Since};
use crate::{Effect, Entry, Fills, Purges, Scope, Store};

/// A purge in force.
pub struct Ordered {
    scopes: Vec<Scope>,
    effect: Effect,
    generation: Generation,
    /// As if there were no other.
    alone: Purges,
}

/// Stored responses, and the bytes that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// How many; each variant is one.
    pub objects: u64,
    /// Bytes, heads included.
    pub bytes: u64,
}

/// What was reached in memory: a disk may have it, too.
#[derive(Debug, Default)]
pub struct Counted(HashSet<u64>);

impl AddAssign for Reached {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

impl Ordered {
    /// Whether what it reaches is to be gone.
    pub fn removes(&self) -> bool {
        self.effect == Effect::Remove
    }

    fn reaches(&self, entry: &Entry) -> bool {
        let (key, fields) = (entry.key(), entry.tagged());
        entry.checked() < self.generation
            && self.alone.reach(Since::Generation(Generation::default()), key, fields.as_ref()).is_some()
    }

    /// The keys that it is about, if it is about URLs only.
    fn keys(&self) -> Option<Vec<&[u8]>> {
        fn key(scope: &Scope) -> Option<&[u8]> {
            if let Scope::Url(key) = scope { Some(key) } else { None }
        }
        self.scopes.iter().map(key).collect()
    }
}

impl Fills {
    /// Puts a purge in force, as [`order`](Self::order) does; what it reaches can then be looked for.
    pub fn enforce(&self, scopes: Vec<Scope>, effect: Effect, second: u32) -> Ordered {
        let alone = self.store().purges.apart();
        alone.put(&scopes, effect, second);
        let generation = self.order(&scopes, effect, second);
        Ordered { scopes, effect, generation, alone }
    }
}

impl Store {
    /// Counts what `purge` reaches in memory, and frees it if it is to be gone.
    pub fn reclaim_memory(&self, purge: &Ordered) -> (Reached, Counted) {
        let (mut reached, mut counted) = (Reached::default(), Counted::default());
        let mut see = |entry: &Entry| {
            if !purge.reaches(entry) {
                return;
            }
            reached += Reached { objects: 1, bytes: entry.charge() };
            if !self.disks.is_empty() {
                counted.0.insert(self.memory.variant(entry.key(), entry.signature()));
            }
            if purge.removes() {
                self.memory.exchange(entry, None);
            }
        };
        match purge.keys() {
            Some(keys) => {
                let stored = keys.into_iter().filter_map(|key| self.memory.peek(key, self.memory.hash(key)));
                stored.for_each(|resident| resident.variants().iter().for_each(&mut see));
            }
            None => self.memory.list(&mut |resident, _| resident.variants().iter().for_each(&mut see)),
        }
        (reached, counted)
    }

    /// The same on the disks, for what need not be looked for there: URLs whose responses do not vary. `None` for
    /// everything else. Counts what was not `counted`. Waits for the disks.
    pub fn reclaim_pages(&self, purge: &Ordered, counted: &Counted) -> Option<Reached> {
        if self.disks.is_empty() {
            return Some(Reached::default());
        }
        let (mut reached, mut is_all) = (Reached::default(), true);
        for key in purge.keys()? {
            is_all &= self.disks.page(key, &mut |lying| {
                self.judge(&[purge], counted, lying, &mut reached);
            });
        }
        is_all.then_some(reached)
    }

    /// Looks through the disks for what `purges` reach, counts what was not `counted`, and frees what is to be gone:
    /// at no more than `rate` objects a second, and only as long as `go_on` says so. Waits for the disks.
    pub fn reclaim_disks(
        &self,
        purges: &[&Ordered],
        counted: &Counted,
        rate: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Reached {
        let mut reached = Reached::default();
        self.disks.weed(rate, go_on, &mut |lying| self.judge(purges, counted, lying, &mut reached));
        reached
    }

    /// Forgets the records of the URLs that `purge` is about, if they are to be gone: they do not come back, whatever
    /// happens to the process.
    pub fn forget_pages(&self, purge: &Ordered) {
        if purge.removes() {
            purge.keys().into_iter().flatten().for_each(|key| self.disks.remove(key));
        }
    }

    /// Whether a response on a disk is to be gone. Counts it if a purge reaches it.
    fn judge(
        &self,
        purges: &[&Ordered],
        counted: &Counted,
        lying: &Lying<'_>,
        reached: &mut Reached,
    ) -> bool {
        let since = Since::Second(lying.received());
        let reaches = |purge: &&&Ordered| purge.alone.reach(since, lying.key, Some(&lying.fields)).is_some();
        let mut reaching = purges.iter().filter(reaches).peekable();
        if reaching.peek().is_none() {
            return false;
        }
        if !counted.0.contains(&self.memory.variant(lying.key, lying.signature)) && lying.is_found() {
            *reached += Reached { objects: 1, bytes: lying.size };
        }
        reaching.any(|purge| purge.removes())
    }
}
