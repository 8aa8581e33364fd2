//! Estimates for all requests from those that a shadow has seen.
//!
//! The requests for heavy keys and large objects are counted exactly. Of the others, a sample was seen, but two totals are known:
//! the number of all requests, and the hits of the cache that runs, which has a shadow, too. If the sample has too many requests
//! for popular keys, all shadows show it, and that of the running configuration tells by how much it is wrong. So each count is
//! corrected by what these two are wrong by (a regression estimator, as in surveys), with slopes that come from disjoint parts of the
//! sample. What is left of the differences between these parts is the standard error.
//!
//! A difference between the running cache and its shadow that is too large for chance corrects nothing: it is part of the error of
//! all other estimates. So are their differences in the same requests for groups of the keys: a shadow may be wrong about the
//! end of a lifetime, or about the size of a response.

use crate::counts::{Counts, Sums, Traffic};
use crate::sample::GROUPS;

/// The differences in standard errors that chance may explain.
const CHANCE: f64 = 3.0;
/// The 97.5% quantile of Student's distribution over that of the normal one is about 1 + STUDENT / degrees of freedom.
const STUDENT: f64 = 1.2;

/// A ratio and its standard error, both from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The ratio.
    pub ratio: f64,
    /// The standard error.
    pub error: f64,
}

/// The part of the sums that a ratio is about.
pub(crate) type Unit = fn(&Sums) -> f64;

/// The groups by which a choice is made, or judged.
pub(crate) type GroupFilter = fn(usize) -> bool;

/// What is known when a hit ratio is estimated.
pub(crate) struct Survey<'c> {
    /// The requests to the running cache.
    pub(crate) traffic: &'c Traffic,
    /// The counts of its shadow.
    pub(crate) running: &'c Counts,
    /// What its shadow gave beyond its own answers to the same requests, by groups of all keys.
    pub(crate) wrong: &'c [Sums; GROUPS],
    /// The share of the keys in the sample.
    pub(crate) share: f64,
    pub(crate) of: Unit,
}

/// A count of all requests that are not counted exactly.
struct Variable {
    /// The counts of the groups, weighted to stand for all, less what is explained by other variables.
    groups: Vec<f64>,
    /// The estimated total.
    total: f64,
    /// The variables that explain it.
    explained_by: usize,
}

impl Survey<'_> {
    /// Returns the hit ratio of a shadow.
    pub(crate) fn estimate(&self, counts: &Counts) -> Estimate {
        let Some((mut hits, asked)) = self.hits_of(counts, |_| true) else { return self.exactly(counts) };
        let Some((control, _)) = self.hits_of(self.running, |_| true) else { return self.exactly(counts) };
        // Requests that were lost do not count.
        let seen = (asked + (self.of)(&counts.heavy.asked)) / (self.of)(&self.traffic.asked);
        let missing =
            (self.of)(&self.traffic.hit) * seen - (self.of)(&self.running.heavy.hit) - control.total;
        let chance = CHANCE * control.error(self.share);
        let explained = missing.clamp(-chance, chance);
        hits.explain(&control, explained);
        self.ratio(counts, asked, &hits, missing - explained).clamped()
    }

    /// Returns the hit ratio of a shadow as though that of the running cache were not known.
    pub(crate) fn uncorrected(&self, counts: &Counts) -> Estimate {
        match self.hits_of(counts, |_| true) {
            Some((hits, asked)) => self.ratio(counts, asked, &hits, 0.0).clamped(),
            None => self.exactly(counts),
        }
    }

    /// Returns the difference between the hit ratio of a shadow and that of the running configuration in the groups that `takes`
    /// selects. The same requests asked both, so its error is smaller than those of the ratios. It says how far the difference may be
    /// chance in what clients request, even if all keys are seen.
    pub(crate) fn gain(&self, counts: &Counts, takes: GroupFilter) -> Estimate {
        let less = |one: &Traffic, other: &Traffic| Traffic { asked: one.asked, hit: one.hit - other.hit };
        let mut gain = Counts { heavy: less(&counts.heavy, &self.running.heavy), ..*counts };
        for (group, other) in gain.groups.iter_mut().zip(&self.running.groups) {
            *group = less(group, other);
        }
        let Some((hits, asked)) = self.hits_of(&gain, takes) else { return self.exactly(&gain) };
        Survey { share: 0.0, ..*self }.ratio(&gain, asked, &hits, 0.0)
    }

    /// Returns the hits that were not counted exactly, corrected by the number of requests, and that number; `None` if there was none.
    fn hits_of(&self, counts: &Counts, takes: impl Fn(usize) -> bool) -> Option<(Variable, f64)> {
        let all = ((self.of)(&self.traffic.asked) - (self.of)(&counts.heavy.asked)).max(0.0);
        let groups = || (0..GROUPS).filter(|group| takes(*group)).map(|group| &counts.groups[group]);
        let asked = Variable::new(groups().map(|group| (self.of)(&group.asked)));
        let mut hits = Variable::new(groups().map(|group| (self.of)(&group.hit)));
        if all <= 0.0 || asked.total <= 0.0 {
            return None;
        }
        let (missing, chance) = (all - asked.total, CHANCE * asked.error(self.share));
        // What chance does not explain was lost on the way, whatever it asked for.
        let missing = missing.clamp(-chance, chance);
        hits.explain(&asked, missing);
        Some((hits, asked.total + missing))
    }

    /// Returns the ratio of the requests that were counted exactly.
    fn exactly(&self, counts: &Counts) -> Estimate {
        let asked = (self.of)(&counts.heavy.asked);
        let ratio = if asked > 0.0 { (self.of)(&counts.heavy.hit) / asked } else { 0.0 };
        Estimate { ratio, error: self.excess().hypot(self.spread()) }
    }

    /// Returns by how much the hit ratio of the running configuration's shadow is above that of the cache in the same requests.
    pub(crate) fn excess(&self) -> f64 {
        self.wrong.iter().map(self.of).sum::<f64>() / self.seen()
    }

    /// Returns the same for groups of the keys, whose differences may cancel each other out here, but not in another shadow.
    fn spread(&self) -> f64 {
        let squares: f64 = self.wrong.iter().map(|wrong| (self.of)(wrong).powi(2)).sum();
        squares.sqrt() / self.seen()
    }

    fn seen(&self) -> f64 {
        (self.of)(&self.running.asked()).max(f64::MIN_POSITIVE)
    }

    fn ratio(&self, counts: &Counts, asked: f64, hits: &Variable, unexplained: f64) -> Estimate {
        let all = asked + (self.of)(&counts.heavy.asked);
        let ratio = (hits.total + (self.of)(&counts.heavy.hit)) / all;
        let error = hits.error(self.share).hypot(unexplained) / all;
        Estimate { ratio, error: error.hypot(self.spread()) }
    }
}

impl Estimate {
    fn clamped(self) -> Self {
        Self { ratio: self.ratio.clamp(0.0, 1.0), ..self }
    }
}

impl Variable {
    fn new(groups: impl Iterator<Item = f64>) -> Self {
        let mut groups: Vec<_> = groups.collect();
        let parts = GROUPS as f64 / groups.len() as f64;
        groups.iter_mut().for_each(|group| *group *= parts);
        let total = groups.iter().sum();
        let mean = total / groups.len() as f64;
        groups.iter_mut().for_each(|group| *group -= mean);
        Self { groups, total, explained_by: 0 }
    }

    /// Explains a part of it by another variable, whose true total is `missing` more than it was.
    fn explain(&mut self, by: &Self, missing: f64) {
        let product = |one: &Self, other: &Self| -> f64 {
            one.groups.iter().zip(&other.groups).map(|(one, other)| one * other).sum()
        };
        let square = product(by, by);
        if square > f64::EPSILON * by.total * by.total {
            let slope = product(self, by) / square;
            self.groups.iter_mut().zip(&by.groups).for_each(|(own, by)| *own -= slope * by);
            self.total += slope * missing;
            self.explained_by += 1;
        }
    }

    /// Returns the standard error of the total, if the groups are from a `share` of all keys: larger by as much as two standard errors
    /// from few groups cover less than those of the normal distribution (Student's).
    fn error(&self, share: f64) -> f64 {
        let (count, known) = (self.groups.len() as f64, self.explained_by as f64);
        let freedom = count - 1.0 - known;
        let squares = self.groups.iter().map(|group| group * group).sum::<f64>();
        (count / freedom * squares * (1.0 - share)).sqrt() * (1.0 + STUDENT / freedom)
    }
}
