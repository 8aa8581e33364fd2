//! Purges in force, and the stored responses that they reach.
//!
//! A purge is a rule with a number, its generation; the cost of creating one does not depend on the number of stored
//! responses. A stored response has the generation up to which no rule reaches it ([`Entry::checked`](crate::Entry)),
//! so that a hit compares two numbers. Rules are looked up only if there have been purges since then: by the
//! response's key, host, groups and tags. A fetched or revalidated response has the generation that was in force
//! **before** its request was sent; so a purge overrides every fetch in progress. A response on a disk has no
//! generation but the second in which it was received, which is compared with the second of the purge; if they are
//! equal, the purge counts as the later one.
//!
//! Rules do not expire. When there are too many, the oldest half of them becomes one rule that reaches everything they
//! could have reached, and requires only validation. Rules from [responses](answered) have separate limits, and are
//! created only for groups that a stored response may [have](known). Generations are 64-bit numbers and do not
//! overflow. [`larder_semantics::freshness`] has the effects of purges on a response.

mod copy;
mod group_table;
mod journal_purge;
mod response_purges;
mod rules;

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub use self::copy::VERSION as COPY_VERSION;
pub use self::group_table::MOST_KNOWN;
pub(crate) use self::journal_purge::PurgeKind;
pub use self::journal_purge::{JournalPurge, LONGEST_END, LONGEST_START};
use self::journal_purge::{UNKNOWN, of_any_site, of_partition, partitions, written};
pub use self::response_purges::{MOST_OF_ALL, MOST_OF_ORIGIN};
use self::rules::{Rule, Rules};
use larder_semantics::fields::Fields;
use larder_semantics::purge::{Effect, Scope};
use larder_semantics::{groups, key, partition};
use parking_lot::{Mutex, RwLock};

/// The most rules before the oldest half is merged.
pub const MOST: usize = 1 << 16;

/// The number of purges up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub(crate) u64);

impl Generation {
    pub(crate) const LAST: Self = Self(u64::MAX);

    /// Returns the generation before this one.
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// The effect of purges on a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The strongest effect of all purges that reach it.
    pub effect: Effect,
    /// The time of the first purge with that effect (UNIX seconds).
    pub second: u32,
}

/// The start of the purges that count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PurgeStart {
    /// Purges later than this generation.
    Generation(Generation),
    /// Purges ordered in this second (UNIX) or later.
    Second(u32),
}

/// The rules in force.
#[derive(Default)]
pub struct Purges {
    now: PurgeState,
    rules: RwLock<Rules>,
    sites: OnceLock<Arc<SiteOf>>,
    partitions: OnceLock<Arc<PartitionTest>>,
    /// The latest second of a purge or a stored response; later purges get no earlier second.
    latest: AtomicU32,
    /// The generations of purges that the other process of an upgrade has ordered.
    repeated: Mutex<HashSet<Generation>>,
}

/// Returns the name of the site that a cache key belongs to.
type SiteOf = dyn Fn(&[u8]) -> Option<String> + Send + Sync;

/// Returns whether rules store the responses of the URL under a cache key in partitions.
type PartitionTest = dyn Fn(&[u8]) -> bool + Send + Sync;

/// Each hit reads this value: no data that is written shares its cache line.
#[derive(Default)]
#[repr(align(128))]
struct PurgeState(AtomicU64);

/// The time of a purge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    /// 0: before this process.
    generation: Generation,
    second: NonZeroU32,
}

impl Purges {
    /// Returns the generation in force.
    pub fn now(&self) -> Generation {
        Generation(self.now.0.load(Ordering::Acquire))
    }

    /// Puts a purge in force, ordered at `second` (UNIX). Every later lookup obeys it.
    pub(crate) fn put(
        &self,
        scopes: &[Scope],
        effect: Effect,
        second: u32,
    ) -> (Generation, Vec<JournalPurge>) {
        let (generation, written, ()) = self.put_after(scopes, effect, second, |_| ());
        (generation, written)
    }

    /// Puts a purge in force, and returns the generation for the response of the request that causes it, under this key and
    /// with these fields: that of this purge, which does not reach its own response, or the one in which the request
    /// `began` if another purge since then reaches the response.
    pub(crate) fn put_beside(
        &self,
        scopes: &[Scope],
        effect: Effect,
        second: u32,
        (began, key, fields): (Generation, &[u8], &impl Fields),
    ) -> (Generation, Vec<JournalPurge>) {
        let since = PurgeStart::Generation(began);
        let look = |rules: &Rules| self.reach_by(rules, Generation::LAST, since, (key, Some(fields)));
        let (generation, written, reach) = self.put_after(scopes, effect, second, look);
        (if reach.is_none() { generation } else { began }, written)
    }

    /// Puts a purge in force after `look` has seen the earlier ones.
    fn put_after<T>(
        &self,
        scopes: &[Scope],
        effect: Effect,
        second: u32,
        look: impl FnOnce(&Rules) -> T,
    ) -> (Generation, Vec<JournalPurge>, T) {
        // 1. The rules are locked.
        // 2. They change.
        // 3. The generation changes, while they are still locked.
        // A hit that reads the old number is earlier than this purge. One that reads the new number locks the rules, and
        // so finds them changed. With 3 before 1, it could read the new number and the old rules, and would then
        // record that no purge up to this one reaches the response.
        let mut rules = self.rules.write();
        let seen = look(&rules);
        let second = self.latest.fetch_max(second, Ordering::Relaxed).max(second);
        let second = NonZeroU32::new(second).unwrap_or(NonZeroU32::MIN);
        let generation = Generation(self.now().0 + 1);
        let mut written: Vec<_> =
            scopes.iter().map(|scope| written(&rules.within_bounds(scope), effect, second)).collect();
        written.retain(|rule| rules.is_needed(rule, generation));
        written.iter().for_each(|rule| rules.add(rule, generation));
        rules.fold();
        self.now.0.store(generation.0, Ordering::Release);
        (generation, written, seen)
    }

    /// Restores a rule of an earlier process: it reaches the earlier responses that disks still have.
    pub(crate) fn restore(&self, rule: JournalPurge) {
        self.note(rule.second.get());
        let mut rules = self.rules.write();
        rules.add(&rule, Generation::default());
        rules.fold();
    }

    /// Returns all rules.
    pub(crate) fn written(&self) -> Vec<JournalPurge> {
        self.marks().into_iter().map(|(rule, _)| JournalPurge { origin: UNKNOWN, ..rule }).collect()
    }

    /// Returns all rules and their generations.
    fn marks(&self) -> Vec<(JournalPurge, Generation)> {
        let rules = self.rules.read();
        let marks = |(hash, rule): (&u64, &Rule)| {
            let (hash, Rule { kind, length, marks }) = (*hash, *rule);
            Effect::ALL.into_iter().zip(marks).filter_map(move |(effect, mark)| {
                let Mark { generation, second } = mark?;
                Some((JournalPurge { hash, kind, length, effect, second, origin: UNKNOWN }, generation))
            })
        };
        let mut all: Vec<_> = rules.rules.iter().flat_map(marks).collect();
        rules.answered.each(&mut |kind, origin, hash, Mark { generation, second }| {
            let (length, effect) = (0, Effect::Invalid);
            all.push((JournalPurge { hash, kind, length, effect, second, origin }, generation));
        });
        all
    }

    /// Notes that a disk stores a response received at `second`: purges from now on get no earlier second,
    /// even if the clock is set back.
    pub(crate) fn note(&self, second: u32) {
        self.latest.fetch_max(second, Ordering::Relaxed);
    }

    /// Sets the function that returns the site of a cache key; until then no purge of a site's tags has an effect.
    pub fn know_sites(&self, site_of: Arc<SiteOf>) {
        // A second function is ignored: there is one config.
        let _ = self.sites.set(site_of);
    }

    /// Sets the function that tells whether the responses of a URL are in partitions; until then none are.
    pub fn know_partitions(&self, has_partitions: Arc<PartitionTest>) {
        let _ = self.partitions.set(has_partitions);
    }

    /// Whether rules store the responses of the URL under `key` in [partitions](larder_semantics::partition).
    pub fn has_partitions(&self, key: &[u8]) -> bool {
        !partition::is_key(key) && self.partitions.get().is_some_and(|has| has(key))
    }

    /// Returns the scopes of the responses in partitions of these URLs, where rules store responses so. Their
    /// [`Effect::Invalid`] removes them.
    pub fn partitions_of(&self, urls: &[Scope]) -> Vec<Scope> {
        let of = |url: &Scope| match url {
            Scope::Url(key) if self.has_partitions(key) => partitions(key),
            _ => None,
        };
        urls.iter().filter_map(of).collect()
    }

    /// From now on, responses create rules only for groups that are [known](Self::know) to belong to a stored
    /// response. To be called before any response is stored.
    pub(crate) fn know_groups(&self) {
        self.rules.write().known.is_on = true;
    }

    /// Notes the groups of a response to `key` with these fields that may be stored, and was fetched when `born` was in
    /// force; and its partition. To be called before any other client can get the response.
    pub fn know(&self, key: &[u8], response: Option<&impl Fields>, born: Generation) {
        if let Some(JournalPurge { origin, hash, .. }) = of_partition(key) {
            self.know_groups_of(origin, &[hash], born);
        }
        let Some(response) = response.filter(|response| response.contains(groups::GROUPS)) else { return };
        let Some(origin) = key::origin(key) else { return };
        let groups = groups::groups(response);
        let hash = |name: &String| PurgeKind::AnsweredGroup.hash([origin, name.as_bytes()]);
        let groups: Vec<_> = groups.iter().map(hash).collect();
        self.know_groups_of(PurgeKind::AnsweredOrigin.hash([origin, b""]), &groups, born);
    }

    fn know_groups_of(&self, origin: u64, groups: &[u64], born: Generation) {
        if self.rules.read().known.has(origin, groups, born) {
            return;
        }
        let mut rules = self.rules.write();
        let now = self.now();
        for (group, mark) in rules.known.insert(origin, groups, born, now) {
            rules.answered.add_group(origin, group, mark);
        }
    }

    /// Returns purges without rules, for the same sites.
    pub(crate) fn apart(&self) -> Self {
        Self { sites: self.sites.clone(), ..Self::default() }
    }

    /// Returns the number of separate scopes.
    pub fn len(&self) -> usize {
        let rules = self.rules.read();
        rules.rules.len() + rules.answered.len()
    }

    /// Whether there are no purges.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the effect of purges on the response under `key`; `tagged` are its fields, if they name tags or groups.
    pub(crate) fn reach(&self, since: PurgeStart, key: &[u8], tagged: Option<&impl Fields>) -> Option<Reach> {
        self.reach_until(Generation::LAST, since, key, tagged)
    }

    /// Returns the effect of the purges no later than `until`. A scope that was purged again after `until` is ignored.
    pub(crate) fn reach_until(
        &self,
        until: Generation,
        since: PurgeStart,
        key: &[u8],
        tagged: Option<&impl Fields>,
    ) -> Option<Reach> {
        self.reach_by(&self.rules.read(), until, since, (key, tagged))
    }

    fn reach_by(
        &self,
        rules: &Rules,
        until: Generation,
        since: PurgeStart,
        (key, tagged): (&[u8], Option<&impl Fields>),
    ) -> Option<Reach> {
        let mut reach = None;
        let see = &mut |rule: &Rule| reach = stronger(reach, rule.reach(since, until));
        rules.about_key(key, see);
        if let Some(response) = tagged {
            rules.about_tags(key, response, self.sites.get().map(|sites| &**sites), see);
        }
        reach
    }

    /// Whether any of these `orders`, all of them later than the response under `key` with these fields, reaches it.
    pub fn would_reach(orders: &[(Effect, Vec<Scope>)], key: &[u8], fields: &impl Fields) -> bool {
        let purges = Self::default();
        for (effect, scopes) in orders {
            // The site that the response would belong to is not known here.
            let scopes: Vec<_> = scopes.iter().cloned().map(of_any_site).collect();
            purges.put(&scopes, *effect, 0);
        }
        !orders.is_empty()
            && purges.reach(PurgeStart::Generation(Generation::default()), key, Some(fields)).is_some()
    }
}

/// Returns the stronger of two effects; of equal ones the earlier.
fn stronger(one: Option<Reach>, other: Option<Reach>) -> Option<Reach> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    let is_a = a.effect > b.effect || (a.effect == b.effect && a.second <= b.second);
    Some(if is_a { a } else { b })
}
