//! Purges in force: what has been asked to go, and which of what is stored that reaches.
//!
//! A purge is a rule with a number, its generation; making one costs the same however much is stored. A
//! stored response knows up to which generation no rule reaches it ([`Entry::checked`](crate::Entry)), so that
//! a hit compares two numbers. Only when there have been purges since then are their rules looked up, by
//! what the response has: its key, host, groups and tags. What was fetched or validated counts
//! as being of the generation that was in force **before** its request was sent; so a purge wins over every
//! fetch that is under way. What lies on a disk has no generation but the second in which it was received, which
//! is compared with the second of the purge; if they are the same, the purge counts as the later one.
//!
//! Rules are never waited for and never counted down. When there are too many, the oldest half of them becomes one
//! that reaches everything they could have reached, and asks only for validation. Generations are 64-bit numbers
//! and do not come to an end. How a response changes that a purge reaches is in [`larder_semantics::freshness`].

use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use larder_semantics::fields::Fields;
use larder_semantics::{groups, key};
use siphasher::sip::SipHasher13;

/// As many rules are kept apart.
pub const MOST: usize = 1 << 16;

/// How many purges there had been at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub(crate) u64);

/// What a purge is about. Keys are of [`larder_semantics::key`]; what stands behind them, such as whose clients they
/// are for, is part of a URL's and of no other scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What is stored under this cache key.
    Url(Vec<u8>),
    /// What is stored under keys that begin like this.
    Prefix(Vec<u8>),
    /// What is stored of this host, on whatever port; or of this port, if it is named. As keys have it.
    Host(Vec<u8>),
    /// What has this tag (`Cache-Tag`, `Surrogate-Key`, `xkey`), of whatever host.
    Tag(Vec<u8>),
    /// What belongs to this cache group of one origin (RFC 9875).
    Group {
        /// The beginning of its keys ([`key::origin`]).
        origin: Vec<u8>,
        /// The group's name.
        name: String,
    },
    /// Everything.
    All,
}

/// What a purge does to what it reaches; of several the last wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Its lifetime has ended: it is validated, and may stand in if the origin fails.
    Stale,
    /// It is validated before any use, and never stands in (RFC 9111 section 4.4).
    Invalid,
    /// It is gone.
    Remove,
}

impl Effect {
    pub(crate) const ALL: [Self; 3] = [Self::Stale, Self::Invalid, Self::Remove];
}

/// What reaches a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The strongest effect of all.
    pub effect: Effect,
    /// When the first purge of those with that effect was ordered (UNIX seconds).
    pub second: u32,
}

/// Since when purges count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    /// They are later than this.
    Generation(Generation),
    /// They were ordered in this second (UNIX) or later.
    Second(u32),
}

/// The rules in force.
#[derive(Default)]
pub struct Purges {
    now: Now,
    rules: RwLock<Rules>,
    /// No purge is of an earlier second.
    latest: AtomicU32,
}

/// Read by every hit: nobody writes beside it.
#[derive(Default)]
#[repr(align(128))]
struct Now(AtomicU64);

#[derive(Default)]
struct Rules {
    /// By [`Kind::hash`].
    rules: HashMap<u64, Rule>,
    /// How many there are of each kind.
    counts: [usize; Kind::ALL.len()],
    /// The lengths that prefixes have, and how many.
    lengths: BTreeMap<u16, usize>,
}

/// All purges of one scope.
#[derive(Clone, Copy)]
struct Rule {
    kind: Kind,
    /// Of a prefix.
    length: u16,
    /// The last with each effect.
    marks: [Option<Mark>; Effect::ALL.len()],
}

/// When something was purged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    /// 0: before this process.
    generation: Generation,
    second: NonZeroU32,
}

/// A purge of one scope, as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The scope, as a number.
    pub(crate) hash: u64,
    pub(crate) kind: Kind,
    /// Of a prefix.
    pub(crate) length: u16,
    pub(crate) effect: Effect,
    pub(crate) second: NonZeroU32,
}

impl Written {
    /// Of all that was received until `second` (UNIX) nobody knows whether it was purged.
    pub(crate) fn everything_invalid(second: u32) -> Self {
        Scope::All.written(Effect::Invalid, NonZeroU32::new(second).unwrap_or(NonZeroU32::MIN))
    }
}

/// What rules are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Url,
    Prefix,
    Host,
    Tag,
    Group,
    /// Whatever has tags or groups: what is left of rules about these.
    Tagged,
    All,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] =
        [Self::Url, Self::Prefix, Self::Host, Self::Tag, Self::Group, Self::Tagged, Self::All];

    /// Stands for a scope, in all processes: two that share it would only be purged together.
    fn hash(self, parts: [&[u8]; 2]) -> u64 {
        let mut hasher = self.hasher();
        parts.iter().for_each(|part| hasher.write(part));
        hasher.finish()
    }

    fn hasher(self) -> SipHasher13 {
        SipHasher13::new_with_keys(self as u64, 0)
    }

    /// What becomes of a rule of this kind when there are too many.
    fn folded(self) -> Self {
        match self {
            Self::Tag | Self::Group | Self::Tagged => Self::Tagged,
            Self::Url | Self::Prefix | Self::Host | Self::All => Self::All,
        }
    }
}

impl Scope {
    fn written(&self, effect: Effect, second: NonZeroU32) -> Written {
        let (kind, parts) = match self {
            Self::Url(key) => (Kind::Url, [&key[..], b""]),
            Self::Prefix(start) => (Kind::Prefix, [&start[..], b""]),
            Self::Host(host) => (Kind::Host, [&host[..], b""]),
            Self::Tag(tag) => (Kind::Tag, [&tag[..], b""]),
            // An origin says where it ends.
            Self::Group { origin, name } => (Kind::Group, [&origin[..], name.as_bytes()]),
            Self::All => (Kind::All, [&b""[..], b""]),
        };
        let length = if kind == Kind::Prefix { parts[0].len() } else { 0 };
        // No key is longer, so that nothing begins with what is cut off here.
        let length = length.try_into().unwrap_or(u16::MAX);
        Written { hash: kind.hash(parts), kind, length, effect, second }
    }
}

impl Purges {
    /// The generation in force.
    pub fn now(&self) -> Generation {
        Generation(self.now.0.load(Ordering::Acquire))
    }

    /// Puts a purge in force, ordered at `second` (UNIX). Whatever is looked up from then on obeys it.
    pub(crate) fn put(&self, scopes: &[Scope], effect: Effect, second: u32) -> (Generation, Vec<Written>) {
        let mut rules = self.write();
        let second = self.latest.fetch_max(second, Ordering::Relaxed).max(second);
        let second = NonZeroU32::new(second).unwrap_or(NonZeroU32::MIN);
        let generation = Generation(self.now().0 + 1);
        let written: Vec<_> = scopes.iter().map(|scope| scope.written(effect, second)).collect();
        written.iter().for_each(|rule| rules.add(rule, generation));
        rules.fold();
        // While the rules are locked, so that who sees the number finds the rules.
        self.now.0.store(generation.0, Ordering::Release);
        (generation, written)
    }

    /// Takes a rule over from an earlier process: it reaches what disks have kept since then.
    pub(crate) fn restore(&self, rule: Written) {
        self.note(rule.second.get());
        let mut rules = self.write();
        rules.add(&rule, Generation::default());
        rules.fold();
    }

    /// All rules.
    pub(crate) fn written(&self) -> Vec<Written> {
        let rules = self.read();
        let marks = |(hash, rule): (&u64, &Rule)| {
            let (hash, Rule { kind, length, marks }) = (*hash, *rule);
            Effect::ALL.into_iter().zip(marks).filter_map(move |(effect, mark)| {
                Some(Written { hash, kind, length, effect, second: mark?.second })
            })
        };
        rules.rules.iter().flat_map(marks).collect()
    }

    /// Says that something was received at `second` that a disk keeps: purges from now on are not earlier, whatever
    /// becomes of the clock.
    pub(crate) fn note(&self, second: u32) {
        self.latest.fetch_max(second, Ordering::Relaxed);
    }

    /// Scopes that are kept apart.
    pub fn len(&self) -> usize {
        self.read().rules.len()
    }

    /// Whether nothing has been purged.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What reaches the response under `key`; `tagged` are its fields, if they name tags or groups.
    pub(crate) fn reach(&self, since: Since, key: &[u8], tagged: Option<&impl Fields>) -> Option<Reach> {
        let rules = self.read();
        let mut reach = None;
        let see = &mut |rule: &Rule| reach = stronger(reach, rule.reach(since));
        rules.about_key(key, see);
        if let Some(response) = tagged {
            rules.about_tags(key, response, see);
        }
        reach
    }

    /// Whether any of these `orders`, all of them later than it, reaches the response under `key` with these fields.
    pub fn would_reach(orders: &[(Effect, Vec<Scope>)], key: &[u8], fields: &impl Fields) -> bool {
        let purges = Self::default();
        for (effect, scopes) in orders {
            purges.put(scopes, *effect, 0);
        }
        !orders.is_empty()
            && purges.reach(Since::Generation(Generation::default()), key, Some(fields)).is_some()
    }

    fn read(&self) -> RwLockReadGuard<'_, Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rules> {
        self.rules.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stronger of two; of equals the earlier.
fn stronger(one: Option<Reach>, other: Option<Reach>) -> Option<Reach> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    let is_a = a.effect > b.effect || (a.effect == b.effect && a.second <= b.second);
    Some(if is_a { a } else { b })
}

impl Rules {
    fn add(&mut self, written: &Written, generation: Generation) {
        let Written { hash, kind, length, effect, second } = *written;
        let mark = Mark { generation, second };
        if kind == Kind::All && effect == Effect::Remove {
            self.forget(|rule| rule.last() <= Some(mark));
        }
        let rule = self.rules.entry(hash).or_insert_with(|| {
            self.counts[kind as usize] += 1;
            if kind == Kind::Prefix {
                *self.lengths.entry(length).or_default() += 1;
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
        if let Some(count) = self.lengths.get_mut(&rule.length).filter(|_| rule.kind == Kind::Prefix) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&rule.length);
            }
        }
    }

    /// Makes one or two rules of the oldest half, if there are too many.
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
                self.add(&Written { hash, kind, length: 0, effect, second }, mark.generation);
            }
        }
    }

    fn has(&self, kind: Kind) -> bool {
        self.counts[kind as usize] > 0
    }

    /// Shows the rules about whatever is stored under `key`.
    fn about_key(&self, key: &[u8], see: &mut dyn FnMut(&Rule)) {
        let mut look = |hash| self.rules.get(&hash).into_iter().for_each(&mut *see);
        if self.has(Kind::All) {
            look(Kind::All.hash([b"", b""]));
        }
        if self.has(Kind::Url) {
            look(Kind::Url.hash([key, b""]));
        }
        if self.has(Kind::Prefix) {
            let (mut hasher, mut at) = (Kind::Prefix.hasher(), 0);
            for length in self.lengths.keys().map(|length| usize::from(*length)) {
                let Some(next) = key.get(at..length) else { break };
                hasher.write(next);
                at = length;
                look(hasher.finish());
            }
        }
        if self.has(Kind::Host)
            && let Some((_, authority, _)) = key::parse(key)
        {
            let host = key::host(authority);
            look(Kind::Host.hash([host, b""]));
            if host.len() < authority.len() {
                look(Kind::Host.hash([authority, b""]));
            }
        }
    }

    /// Shows the rules about the tags and groups of a response.
    fn about_tags(&self, key: &[u8], response: &impl Fields, see: &mut dyn FnMut(&Rule)) {
        let mut look = |hash| self.rules.get(&hash).into_iter().for_each(&mut *see);
        if self.has(Kind::Tagged) {
            look(Kind::Tagged.hash([b"", b""]));
        }
        if self.has(Kind::Tag) {
            groups::tags(response).for_each(|tag| look(Kind::Tag.hash([tag, b""])));
        }
        if self.has(Kind::Group)
            && let Some(origin) = key::origin(key)
        {
            groups::groups(response)
                .iter()
                .for_each(|name| look(Kind::Group.hash([origin, name.as_bytes()])));
        }
    }
}

impl Rule {
    fn last(&self) -> Option<Mark> {
        self.marks.iter().copied().max().flatten()
    }

    fn reach(&self, since: Since) -> Option<Reach> {
        let counts = |mark: &Mark| match since {
            Since::Generation(generation) => mark.generation > generation,
            Since::Second(second) => mark.second.get() >= second,
        };
        Effect::ALL.into_iter().rev().find_map(|effect| {
            let mark = self.marks[effect as usize].filter(counts)?;
            Some(Reach { effect, second: mark.second.get() })
        })
    }
}
