//! Invalidations by responses: cache groups of the responses' origins (RFC 9875).
//!
//! These rules come from origins, and a client of a forward proxy may control an origin. So they are counted apart
//! from those of administrators, and each origin has a limit: beyond it, the older half of its rules become one that
//! reaches all of its responses with groups, and no others, from before the last of them. When all origins together have
//! too many, the largest are merged first.

use std::collections::{BTreeSet, HashMap};

use super::Mark;
use super::journal_purge::{PurgeKind, UNKNOWN};

/// The most separate groups of one origin.
pub const MOST_OF_ORIGIN: usize = 1 << 12;
/// The most separate groups of all origins together, and the most origins.
pub const MOST_OF_ALL: usize = 1 << 14;

/// All rules from responses.
#[derive(Default)]
pub(super) struct ResponsePurges {
    /// The origins by their hash.
    origins: HashMap<u64, Origin>,
    /// The number of groups of all origins.
    groups: usize,
    /// The rule that reaches every response with groups.
    all: Option<Mark>,
}

#[derive(Default)]
struct Origin {
    /// The rule that reaches every response of this origin with groups.
    whole: Option<Mark>,
    /// The groups by a hash of origin and name.
    groups: HashMap<u64, Mark>,
}

impl ResponsePurges {
    /// Invalidates a group of `origin`.
    pub(super) fn add_group(&mut self, origin: u64, group: u64, mark: Mark) {
        let of_origin = self.origins.entry(origin).or_default();
        let known = of_origin.groups.entry(group).or_insert_with(|| {
            self.groups += 1;
            mark
        });
        *known = mark.max(*known);
        let most = if origin == UNKNOWN { MOST_OF_ALL } else { MOST_OF_ORIGIN };
        if of_origin.groups.len() > most {
            self.fold(origin, most / 2);
        }
        self.limit();
    }

    /// Invalidates all responses of `origin` with groups.
    pub(super) fn add_origin(&mut self, origin: u64, mark: Mark) {
        let of_origin = self.origins.entry(origin).or_default();
        of_origin.whole = of_origin.whole.max(Some(mark));
        self.groups -= of_origin.groups.len();
        of_origin.groups.retain(|_, earlier| *earlier > mark);
        self.groups += of_origin.groups.len();
        self.limit();
    }

    /// Invalidates all responses with groups.
    pub(super) fn add_all(&mut self, mark: Mark) {
        self.all = self.all.max(Some(mark));
    }

    /// Removes rules that are no later than `mark`.
    pub(super) fn forget(&mut self, mark: Mark) {
        let later = |rule: Option<Mark>| rule.filter(|rule| *rule > mark);
        self.all = later(self.all);
        self.origins.retain(|_, origin| {
            origin.whole = later(origin.whole);
            origin.groups.retain(|_, rule| *rule > mark);
            origin.whole.is_some() || !origin.groups.is_empty()
        });
        self.groups = self.origins.values().map(|origin| origin.groups.len()).sum();
    }

    /// Returns the number of separate rules.
    pub(super) fn len(&self) -> usize {
        let whole = self.origins.values().filter(|origin| origin.whole.is_some()).count();
        self.groups + whole + usize::from(self.all.is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.origins.is_empty() && self.all.is_none()
    }

    /// Passes the rules about a response of `origin` that has these groups, at least one, to `see`.
    pub(super) fn about(&self, origin: u64, groups: impl Iterator<Item = u64>, see: &mut dyn FnMut(Mark)) {
        self.all.into_iter().for_each(&mut *see);
        let (of_origin, unknown) = (self.origins.get(&origin), self.origins.get(&UNKNOWN));
        of_origin.and_then(|origin| origin.whole).into_iter().for_each(&mut *see);
        for group in groups {
            for known in [of_origin, unknown].into_iter().flatten() {
                known.groups.get(&group).copied().into_iter().for_each(&mut *see);
            }
        }
    }

    /// Passes all rules to `take`, with the hash of their origin, and that of their scope.
    pub(super) fn each(&self, take: &mut dyn FnMut(PurgeKind, u64, u64, Mark)) {
        for (origin, known) in &self.origins {
            known.whole.into_iter().for_each(|mark| take(PurgeKind::AnsweredOrigin, *origin, *origin, mark));
            known
                .groups
                .iter()
                .for_each(|(hash, mark)| take(PurgeKind::AnsweredGroup, *origin, *hash, *mark));
        }
        let hash = PurgeKind::AnsweredAll.hash([b"", b""]);
        self.all.into_iter().for_each(|mark| take(PurgeKind::AnsweredAll, UNKNOWN, hash, mark));
    }

    /// Merges all rules of an origin but the latest `kept` ones into one.
    fn fold(&mut self, origin: u64, kept: usize) {
        let Some(known) = self.origins.get_mut(&origin) else { return };
        let mut ages: Vec<_> = known.groups.iter().map(|(hash, mark)| (Some(*mark), *hash)).collect();
        ages.sort_unstable();
        ages.truncate(ages.len().saturating_sub(kept));
        self.groups -= ages.len();
        ages.iter().for_each(|(_, hash)| _ = known.groups.remove(hash));
        let last = ages.last().and_then(|(mark, _)| *mark);
        // Those of an unknown origin may belong to any.
        let whole = if origin == UNKNOWN { &mut self.all } else { &mut known.whole };
        *whole = (*whole).max(last);
        if known.whole.is_none() && known.groups.is_empty() {
            self.origins.remove(&origin);
        }
    }

    fn limit(&mut self) {
        if self.groups > MOST_OF_ALL {
            let sizes = self.origins.iter().map(|(hash, origin)| (origin.groups.len(), *hash));
            for (_, origin) in sizes.collect::<BTreeSet<_>>().into_iter().rev() {
                if self.groups <= MOST_OF_ALL / 2 {
                    break;
                }
                self.fold(origin, 0);
            }
        }
        if self.origins.len() > MOST_OF_ALL {
            let age =
                |origin: &Origin| origin.groups.values().copied().map(Some).max().flatten().max(origin.whole);
            let ages =
                self.origins.iter().map(|(hash, origin)| (age(origin), *hash)).collect::<BTreeSet<_>>();
            for (last, origin) in ages.into_iter().take(MOST_OF_ALL / 2) {
                let gone = self.origins.remove(&origin).map_or(0, |origin| origin.groups.len());
                self.groups -= gone;
                self.all = self.all.max(last);
            }
        }
    }
}
