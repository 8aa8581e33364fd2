//! Estimates for all requests from those that a shadow has seen.
//!
//! The requests for heavy keys are known exactly, and so is the number of the others. Of these, either the hit ratio of the sample
//! is taken as that of all, or the misses of the sample are multiplied, and the rest are hits (SHARDS-adj). The first is the better
//! one where most keys are requested once, the second where the sample has too many or too few popular keys. The one with the
//! smaller error counts, which comes from the differences between disjoint parts of the sample.

use crate::counts::{Counts, GroupCount, Sums};
use crate::sample::GROUPS;

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

impl Estimate {
    /// Returns the hit ratio of a shadow in the unit `of`, if `all` requests were asked of it in reality and `share` of the keys
    /// are in the sample.
    pub(crate) fn of(counts: &Counts, all: &Sums, share: f64, of: Unit) -> Self {
        let Self { ratio, error } =
            Self::ratio(counts, |_| true, all, share, 1.0, |count| (of(&count.asked), of(&count.hit)));
        Self { ratio: ratio.clamp(0.0, 1.0), error }
    }

    /// Returns the difference between the hit ratios of two shadows in the groups that `takes` selects. The same requests asked
    /// both, so its error is smaller than those of the ratios.
    pub(crate) fn difference(
        (one, other): (&Counts, &Counts),
        takes: GroupFilter,
        all: &Sums,
        share: f64,
    ) -> Self {
        let mut gain = *one;
        gain.heavy.hit.requests -= other.heavy.hit.requests;
        for (group, other) in gain.groups.iter_mut().zip(&other.groups) {
            group.hit.requests -= other.hit.requests;
        }
        Self::ratio(&gain, takes, all, share, 0.0, |count| (count.asked.requests, count.hit.requests))
    }

    /// `slope` is the number of hits that a further request of a hot key adds.
    fn ratio(
        counts: &Counts,
        takes: impl Fn(usize) -> bool,
        all: &Sums,
        share: f64,
        slope: f64,
        of: impl Fn(&GroupCount) -> (f64, f64) + Copy,
    ) -> Self {
        let (heavy, hit_heavy) = of(&counts.heavy);
        let groups: Vec<_> =
            (0..GROUPS).filter(|group| takes(*group)).map(|group| of(&counts.groups[group])).collect();
        let (asked, hit) = groups.iter().fold((0.0, 0.0), |sum, group| (sum.0 + group.0, sum.1 + group.1));
        let (all, _) = of(&GroupCount { asked: *all, hit: *all });
        let (rest, parts) = ((all - heavy).max(0.0), GROUPS as f64 / groups.len() as f64);
        let total = heavy + rest;
        if total <= 0.0 || asked <= 0.0 {
            let ratio = if heavy > 0.0 { hit_heavy / heavy } else { 0.0 };
            return Self { ratio, error: 0.0 };
        }
        // The hits that each request of a group adds; what is left of the hits is the same for any number of requests.
        let with = |slope: f64| {
            let left = |group: &(f64, f64)| group.1 - slope * group.0;
            let (count, sum) = (groups.len() as f64, groups.iter().map(left).sum::<f64>());
            let squares = groups.iter().map(|group| (left(group) - sum / count).powi(2)).sum::<f64>();
            let error = parts * (count / (count - 1.0) * squares * (1.0 - share)).sqrt() / total;
            Self { ratio: (hit_heavy + parts * sum + slope * rest) / total, error }
        };
        let (by_ratio, by_slope) = (with(hit / asked), with(slope));
        if by_slope.error < by_ratio.error { by_slope } else { by_ratio }
    }
}
