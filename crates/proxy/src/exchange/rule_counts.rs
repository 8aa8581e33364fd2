//! Counts of requests by the rules that applied to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use larder_semantics::status::Why;
use serde::Serialize;

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::SiteRule;

/// The counts of rules, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct RuleCounts(Vec<Arc<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    hits: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
}

/// A rule and its counts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RuleReport {
    /// The name of the rule, or its number within the site.
    pub(crate) name: String,
    /// The place of the rule in the config.
    pub(crate) place: String,
    /// Requests to which it applied; for a rule on responses, responses of origins.
    pub(crate) requests: u64,
    /// Requests among these that the cache answered.
    pub(crate) hits: u64,
    /// Requests that a rule answered.
    pub(crate) answered: u64,
    /// Requests that were refused.
    pub(crate) refused: u64,
}

impl RuleCounts {
    /// Returns the counts for `rules`. Rules that existed before under the same name continue their counts. Several
    /// rules that were written as one share their counts.
    pub(crate) fn new(rules: &[SiteRule], old: Option<(&[SiteRule], &Self)>) -> Self {
        let mut known: HashMap<&str, &Arc<Counts>> = HashMap::new();
        let (before, counts) = old.map_or((&[][..], &[][..]), |(rules, counts)| (rules, &counts.0[..]));
        for (rule, counts) in before.iter().zip(counts).rev() {
            known.insert(&rule.name, counts);
        }
        let mut all: Vec<Arc<Counts>> = Vec::with_capacity(rules.len());
        for (at, rule) in rules.iter().enumerate() {
            let same = at.checked_sub(1).filter(|before| rules[*before].place == rule.place);
            let counts = match same.and_then(|before| all.get(before)) {
                Some(counts) => Arc::clone(counts),
                None => known.remove(rule.name.as_str()).map(Arc::clone).unwrap_or_default(),
            };
            all.push(counts);
        }
        Self(all)
    }

    /// Counts a request with this outcome, to which the rules with these numbers applied.
    #[inline]
    pub(crate) fn count(&self, numbers: &[u16], outcome: &Outcome) {
        self.each(numbers, |counts| {
            counts.requests.fetch_add(1, Ordering::Relaxed);
            let also = match outcome.kind {
                Kind::Hit | Kind::StaleHit => &counts.hits,
                Kind::Refused => &counts.refused,
                _ if outcome.why == Why::ByRule => &counts.answered,
                _ => return,
            };
            also.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Counts a response of an origin, to which these rules applied in addition to those of its request.
    pub(crate) fn count_response(&self, numbers: &[u16], of_request: &[u16]) {
        let new: Vec<u16> = numbers.iter().copied().filter(|number| !of_request.contains(number)).collect();
        self.each(&new, |counts| _ = counts.requests.fetch_add(1, Ordering::Relaxed));
    }

    fn each(&self, numbers: &[u16], mut count: impl FnMut(&Counts)) {
        let mut last: Option<&Arc<Counts>> = None;
        for counts in numbers.iter().filter_map(|number| self.0.get(usize::from(*number))) {
            if !last.is_some_and(|last| Arc::ptr_eq(last, counts)) {
                count(counts);
            }
            last = Some(counts);
        }
    }

    /// Returns the counts of `rules`.
    pub(crate) fn report(&self, rules: &[SiteRule]) -> Vec<RuleReport> {
        let mut all: Vec<RuleReport> = Vec::new();
        for (rule, counts) in rules.iter().zip(&self.0) {
            if all.last().is_some_and(|last| last.place == rule.place) {
                continue;
            }
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            all.push(RuleReport {
                name: rule.name.clone(),
                place: rule.place.clone(),
                requests: of(&counts.requests),
                hits: of(&counts.hits),
                answered: of(&counts.answered),
                refused: of(&counts.refused),
            });
        }
        all
    }
}
