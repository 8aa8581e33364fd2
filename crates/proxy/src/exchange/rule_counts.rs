//! Counts of requests by the rules that applied to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use larder_semantics::status::Why;
use serde::Serialize;

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::SiteRule;
use crate::counts::counters::add;

/// The counts of rules: by their numbers, and by worker.
#[derive(Debug, Default)]
pub(crate) struct RuleCounts(Vec<Arc<[Counts]>>);

/// The counts of one worker, which is their only writer.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    requests: AtomicU64,
    hits: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
}

/// A rule and its counts.
#[derive(Clone, Debug, Serialize)]
pub struct RuleReport {
    /// The name of the rule, or its number within the site.
    pub name: String,
    /// The place of the rule in the config.
    pub(crate) place: String,
    /// Requests to which it applied; for a rule on responses, responses of origins.
    pub requests: u64,
    /// Requests among these that the cache answered.
    pub hits: u64,
    /// Requests that a rule answered.
    pub answered: u64,
    /// Requests that were refused.
    pub refused: u64,
}

impl RuleCounts {
    /// Returns the counts for `rules` by this number of workers. Rules that existed before under the same name continue their counts. Several
    /// rules that were written as one share their counts.
    pub(crate) fn new(rules: &[SiteRule], workers: usize, old: Option<(&[SiteRule], &Self)>) -> Self {
        let mut known: HashMap<&str, &Arc<[Counts]>> = HashMap::new();
        let none = || (0..workers).map(|_| Counts::default()).collect();
        let (before, counts) = old.map_or((&[][..], &[][..]), |(rules, counts)| (rules, &counts.0[..]));
        for (rule, counts) in before.iter().zip(counts).rev() {
            known.insert(&rule.name, counts);
        }
        let mut all: Vec<Arc<[Counts]>> = Vec::with_capacity(rules.len());
        for (at, rule) in rules.iter().enumerate() {
            let same = at.checked_sub(1).filter(|before| rules[*before].place == rule.place);
            let counts = match same.and_then(|before| all.get(before)) {
                Some(counts) => Arc::clone(counts),
                None => known.remove(rule.name.as_str()).map_or_else(none, Arc::clone),
            };
            all.push(counts);
        }
        Self(all)
    }

    /// Counts a request of a worker with this outcome, to which the rules with these numbers applied.
    #[inline]
    pub(crate) fn count(&self, worker: usize, numbers: &[u16], outcome: &Outcome) {
        self.each(worker, numbers, |counts| {
            add(&counts.requests, 1);
            match outcome.kind {
                Kind::Hit | Kind::StaleHit => add(&counts.hits, 1),
                Kind::Refused => add(&counts.refused, 1),
                _ if outcome.why == Why::ByRule => add(&counts.answered, 1),
                _ => {}
            }
        });
    }

    /// Counts a response of an origin, to which these rules applied in addition to those of its request.
    pub(crate) fn count_response(&self, worker: usize, numbers: &[u16], of_request: &[u16]) {
        let new: Vec<u16> = numbers.iter().copied().filter(|number| !of_request.contains(number)).collect();
        self.each(worker, &new, |counts| add(&counts.requests, 1));
    }

    fn each(&self, worker: usize, numbers: &[u16], mut count: impl FnMut(&Counts)) {
        let mut last: Option<&Arc<[Counts]>> = None;
        for counts in numbers.iter().filter_map(|number| self.0.get(usize::from(*number))) {
            if !last.is_some_and(|last| Arc::ptr_eq(last, counts)) {
                counts.get(worker).into_iter().for_each(&mut count);
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
            let of = |count: fn(&Counts) -> &AtomicU64| {
                counts.iter().map(|counts| count(counts).load(Ordering::Relaxed)).sum()
            };
            all.push(RuleReport {
                name: rule.name.clone(),
                place: rule.place.clone(),
                requests: of(|counts| &counts.requests),
                hits: of(|counts| &counts.hits),
                answered: of(|counts| &counts.answered),
                refused: of(|counts| &counts.refused),
            });
        }
        all
    }
}
