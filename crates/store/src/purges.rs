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

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hasher;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub use self::copy::VERSION as COPY_VERSION;
use self::group_table::GroupTable;
pub use self::group_table::MOST_KNOWN;
pub(crate) use self::journal_purge::PurgeKind;
use self::journal_purge::{
    GlobLengths, UNKNOWN, end_of_name, of_any_site, of_partition, partitions, written,
};
pub use self::journal_purge::{JournalPurge, LONGEST_END, LONGEST_START};
use self::response_purges::ResponsePurges;
pub use self::response_purges::{MOST_OF_ALL, MOST_OF_ORIGIN};
use larder_semantics::fields::Fields;
use larder_semantics::purge::{Effect, Scope};
use larder_semantics::{groups, key, partition};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The most rules before the oldest half is merged.
pub const MOST: usize = 1 << 16;

/// The most pairs of lengths of globs. A glob of further lengths reaches all that begins as it does.
const MOST_GLOB_LENGTHS: usize = 64;

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

#[derive(Default)]
struct Rules {
    /// The rules by [`PurgeKind::hash`].
    rules: HashMap<u64, Rule>,
    /// The number of rules of each kind.
    counts: [usize; PurgeKind::ALL.len()],
    /// The lengths of prefixes, and the number of rules for each.
    lengths: BTreeMap<u16, usize>,
    /// The lengths of globs, and the number of rules for each.
    globs: BTreeMap<u16, usize>,
    /// The rules from responses, which are not among the others.
    answered: ResponsePurges,
    known: GroupTable,
}

/// All purges of one scope.
#[derive(Clone, Copy)]
struct Rule {
    kind: PurgeKind,
    /// The length, for a prefix or a glob.
    length: u16,
    /// The last purge with each effect.
    marks: [Option<Mark>; Effect::ALL.len()],
}

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
        // 1. The rules are locked.
        // 2. They change.
        // 3. The generation changes, while they are still locked.
        // A hit that reads the old number is earlier than this purge. One that reads the new number locks the rules, and
        // so finds them changed. With 3 before 1, it could read the new number and the old rules, and would then
        // record that no purge up to this one reaches the response.
        let mut rules = self.write();
        let second = self.latest.fetch_max(second, Ordering::Relaxed).max(second);
        let second = NonZeroU32::new(second).unwrap_or(NonZeroU32::MIN);
        let generation = Generation(self.now().0 + 1);
        let mut written: Vec<_> =
            scopes.iter().map(|scope| written(&rules.within_bounds(scope), effect, second)).collect();
        written.retain(|rule| rules.is_needed(rule, generation));
        written.iter().for_each(|rule| rules.add(rule, generation));
        rules.fold();
        self.now.0.store(generation.0, Ordering::Release);
        (generation, written)
    }

    /// Restores a rule of an earlier process: it reaches the earlier responses that disks still have.
    pub(crate) fn restore(&self, rule: JournalPurge) {
        self.note(rule.second.get());
        let mut rules = self.write();
        rules.add(&rule, Generation::default());
        rules.fold();
    }

    /// Returns all rules.
    pub(crate) fn written(&self) -> Vec<JournalPurge> {
        self.marks().into_iter().map(|(rule, _)| JournalPurge { origin: UNKNOWN, ..rule }).collect()
    }

    /// Returns all rules and their generations.
    fn marks(&self) -> Vec<(JournalPurge, Generation)> {
        let rules = self.read();
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
        self.write().known.is_on = true;
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
        if self.read().known.has(origin, groups, born) {
            return;
        }
        let mut rules = self.write();
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
        let rules = self.read();
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
        let rules = self.read();
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

    fn read(&self) -> RwLockReadGuard<'_, Rules> {
        self.rules.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rules> {
        self.rules.write()
    }
}

/// Returns the stronger of two effects; of equal ones the earlier.
fn stronger(one: Option<Reach>, other: Option<Reach>) -> Option<Reach> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    let is_a = a.effect > b.effect || (a.effect == b.effect && a.second <= b.second);
    Some(if is_a { a } else { b })
}

impl Rules {
    /// Whether a stored response may have the group or origin that a response invalidates. If not, responses
    /// in flight may still have it.
    fn is_needed(&mut self, written: &JournalPurge, generation: Generation) -> bool {
        let origin = match written.kind {
            PurgeKind::AnsweredGroup => written.origin,
            PurgeKind::AnsweredOrigin => written.hash,
            _ => return true,
        };
        let may_have = self.known.may_have(written.hash);
        if !may_have {
            self.known.skip(origin, Mark { generation, second: written.second });
        }
        may_have
    }

    fn add(&mut self, written: &JournalPurge, generation: Generation) {
        let JournalPurge { hash, kind, length, effect, second, origin } = *written;
        let mark = Mark { generation, second };
        match kind {
            PurgeKind::AnsweredGroup => return self.answered.add_group(origin, hash, mark),
            PurgeKind::AnsweredOrigin => return self.answered.add_origin(hash, mark),
            PurgeKind::AnsweredAll => return self.answered.add_all(mark),
            PurgeKind::All if effect == Effect::Remove => {
                self.forget(|rule| rule.last() <= Some(mark));
                self.answered.forget(mark);
                self.known.forget(mark);
            }
            _ => {}
        }
        let rule = self.rules.entry(hash).or_insert_with(|| {
            self.counts[kind as usize] += 1;
            match kind {
                PurgeKind::Prefix => *self.lengths.entry(length).or_default() += 1,
                PurgeKind::Glob => *self.globs.entry(length).or_default() += 1,
                _ => {}
            }
            Rule { kind, length, marks: [None; 3] }
        });
        let last = &mut rule.marks[effect as usize];
        *last = (*last).max(Some(mark));
    }

    fn forget(&mut self, is_over: impl Fn(&Rule) -> bool) {
        let over: Vec<_> =
            self.rules.iter().filter(|(_, rule)| is_over(rule)).map(|(hash, _)| *hash).collect();
        over.into_iter().for_each(|hash| self.remove(hash));
    }

    fn remove(&mut self, hash: u64) {
        let Some(rule) = self.rules.remove(&hash) else { return };
        self.counts[rule.kind as usize] -= 1;
        let lengths = match rule.kind {
            PurgeKind::Prefix => &mut self.lengths,
            PurgeKind::Glob => &mut self.globs,
            _ => return,
        };
        if let Some(count) = lengths.get_mut(&rule.length) {
            *count -= 1;
            if *count == 0 {
                lengths.remove(&rule.length);
            }
        }
    }

    /// Returns `scope`, or the prefix of a glob if there are globs of too many lengths already: each takes a lookup.
    fn within_bounds<'s>(&self, scope: &'s Scope) -> Cow<'s, Scope> {
        let is_known = |lengths: GlobLengths| self.globs.contains_key(&lengths.packed());
        match scope {
            Scope::Glob { start, end }
                if self.globs.len() >= MOST_GLOB_LENGTHS
                    && !GlobLengths::of(start, end).is_some_and(is_known) =>
            {
                Cow::Owned(Scope::Prefix(start.clone()))
            }
            scope => Cow::Borrowed(scope),
        }
    }

    /// Merges the oldest half into one or two rules, if there are too many.
    fn fold(&mut self) {
        if self.rules.len() <= MOST {
            return;
        }
        let mut ages: Vec<_> = self.rules.iter().map(|(hash, rule)| (rule.last(), *hash)).collect();
        ages.sort_unstable();
        for (last, hash) in ages.drain(..MOST / 2) {
            let Some(kind) = self.rules.get(&hash).map(|rule| rule.kind.folded()) else { continue };
            self.remove(hash);
            if let Some(mark) = last {
                let (hash, effect, second) = (kind.hash([b"", b""]), Effect::Invalid, mark.second);
                let folded = JournalPurge { hash, kind, length: 0, effect, second, origin: UNKNOWN };
                self.add(&folded, mark.generation);
            }
        }
    }

    fn has(&self, kind: PurgeKind) -> bool {
        self.counts[kind as usize] > 0
    }

    /// Passes the rules that may reach every response under `key` to `see`.
    fn about_key(&self, key: &[u8], see: &mut dyn FnMut(&Rule)) {
        if !self.answered.is_empty()
            && let Some(JournalPurge { origin, hash, .. }) = of_partition(key)
        {
            let removed = &mut |mark| see(&Rule::by_answer(Effect::Remove, mark));
            self.answered.about(origin, std::iter::once(hash), removed);
        }
        let key = key::of_url(key);
        let mut look = |hash| self.rules.get(&hash).into_iter().for_each(&mut *see);
        if self.has(PurgeKind::All) {
            look(PurgeKind::All.hash([b"", b""]));
        }
        if self.has(PurgeKind::Url) {
            look(PurgeKind::Url.hash([key, b""]));
        }
        if self.has(PurgeKind::Prefix) {
            let (mut hasher, mut at) = (PurgeKind::Prefix.hasher(), 0);
            for length in self.lengths.keys().map(|length| usize::from(*length)) {
                let Some(next) = key.get(at..length) else { break };
                hasher.write(next);
                at = length;
                look(hasher.finish());
            }
        }
        if self.has(PurgeKind::Glob) {
            let (path, _) = key::split_at_query(key);
            self.globs
                .keys()
                .filter_map(|lengths| GlobLengths::new(*lengths).hash_in(path))
                .for_each(&mut look);
        }
        if self.has(PurgeKind::Host)
            && let Some((_, authority, _)) = key::parse(key)
        {
            let host = key::host(authority);
            look(PurgeKind::Host.hash([host, b""]));
            if host.len() < authority.len() {
                look(PurgeKind::Host.hash([authority, b""]));
            }
        }
    }

    /// Passes the rules about the tags and groups of a response to `see`.
    fn about_tags(
        &self,
        key: &[u8],
        response: &impl Fields,
        sites: Option<&SiteOf>,
        see: &mut dyn FnMut(&Rule),
    ) {
        self.about_groups(key, response, see);
        let mut look = |hash| self.rules.get(&hash).into_iter().for_each(&mut *see);
        if self.has(PurgeKind::Tagged) {
            look(PurgeKind::Tagged.hash([b"", b""]));
        }
        if self.has(PurgeKind::Tag) {
            groups::tags(response).for_each(|tag| look(PurgeKind::Tag.hash([tag, b""])));
        }
        if self.has(PurgeKind::SiteTag)
            && let Some(site) = sites.and_then(|site_of| site_of(key))
        {
            let site = end_of_name(&site);
            groups::tags(response).for_each(|tag| look(PurgeKind::SiteTag.hash([&site, tag])));
        }
    }

    /// Passes the rules about the groups of a response to `see`.
    fn about_groups(&self, key: &[u8], response: &impl Fields, see: &mut dyn FnMut(&Rule)) {
        if !self.has(PurgeKind::Group) && self.answered.is_empty() {
            return;
        }
        let (groups, Some(origin)) = (groups::groups(response), key::origin(key)) else { return };
        if groups.is_empty() {
            return;
        }
        for name in &groups {
            self.rules.get(&PurgeKind::Group.hash([origin, name.as_bytes()])).into_iter().for_each(&mut *see);
        }
        let hashes = groups.iter().map(|name| PurgeKind::AnsweredGroup.hash([origin, name.as_bytes()]));
        let origin = PurgeKind::AnsweredOrigin.hash([origin, b""]);
        self.answered.about(origin, hashes, &mut |mark| see(&Rule::by_answer(Effect::Invalid, mark)));
    }
}

impl Rule {
    /// Returns a rule from a response, with its effect on the responses that it reaches.
    fn by_answer(effect: Effect, mark: Mark) -> Self {
        let mut marks = [None; 3];
        marks[effect as usize] = Some(mark);
        Self { kind: PurgeKind::AnsweredGroup, length: 0, marks }
    }

    fn last(&self) -> Option<Mark> {
        self.marks.iter().copied().max().flatten()
    }

    fn reach(&self, since: PurgeStart, until: Generation) -> Option<Reach> {
        let is_later = |mark: &Mark| match since {
            PurgeStart::Generation(generation) => mark.generation > generation,
            PurgeStart::Second(second) => mark.second.get() >= second,
        };
        let counts = |mark: &Mark| is_later(mark) && mark.generation <= until;
        Effect::ALL.into_iter().rev().find_map(|effect| {
            let mark = self.marks[effect as usize].filter(counts)?;
            Some(Reach { effect, second: mark.second.get() })
        })
    }
}
