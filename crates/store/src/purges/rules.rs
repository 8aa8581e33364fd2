//! The rules of purges, and those among them that may reach a response.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;

use larder_semantics::fields::Fields;
use larder_semantics::purge::{Effect, Scope};
use larder_semantics::{groups, key};

use super::group_table::GroupTable;
use super::journal_purge::{GlobLengths, JournalPurge, PurgeKind, UNKNOWN, end_of_name, of_partition};
use super::response_purges::ResponsePurges;
use super::{Generation, MOST, Mark, PurgeStart, Reach, SiteOf};

/// The most pairs of lengths of globs. A glob of further lengths reaches all that begins as it does.
const MOST_GLOB_LENGTHS: usize = 64;

/// The rules by what they are about.
#[derive(Default)]
pub(super) struct Rules {
    /// The rules by [`PurgeKind::hash`].
    pub(super) rules: HashMap<u64, Rule>,
    /// The number of rules of each kind.
    pub(super) counts: [usize; PurgeKind::ALL.len()],
    /// The lengths of prefixes, and the number of rules for each.
    pub(super) lengths: BTreeMap<u16, usize>,
    /// The lengths of globs, and the number of rules for each.
    pub(super) globs: BTreeMap<u16, usize>,
    /// The rules from responses, which are not among the others.
    pub(super) answered: ResponsePurges,
    pub(super) known: GroupTable,
}

/// All purges of one scope.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) kind: PurgeKind,
    /// The length, for a prefix or a glob.
    pub(super) length: u16,
    /// The last purge with each effect.
    pub(super) marks: [Option<Mark>; Effect::ALL.len()],
}

impl Rules {
    /// Whether a stored response may have the group or origin that a response invalidates. If not, responses
    /// in flight may still have it.
    pub(super) fn is_needed(&mut self, written: &JournalPurge, generation: Generation) -> bool {
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

    pub(super) fn add(&mut self, written: &JournalPurge, generation: Generation) {
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
    pub(super) fn within_bounds<'s>(&self, scope: &'s Scope) -> Cow<'s, Scope> {
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
    pub(super) fn fold(&mut self) {
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

    pub(super) fn has(&self, kind: PurgeKind) -> bool {
        self.counts[kind as usize] > 0
    }

    /// Passes the rules that may reach every response under `key` to `see`.
    pub(super) fn about_key(&self, key: &[u8], see: &mut dyn FnMut(&Rule)) {
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
    pub(super) fn about_tags(
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

    pub(super) fn reach(&self, since: PurgeStart, until: Generation) -> Option<Reach> {
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
