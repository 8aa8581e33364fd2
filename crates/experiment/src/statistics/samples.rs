//! Values by condition and list of requests.

use std::collections::BTreeMap;

use super::{Bound, Interval};

/// Values by the number of their list of requests.
type Lists = BTreeMap<u64, Vec<f64>>;

/// The measurements, by condition and list of requests.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Condition>);

/// A condition, such as a cache size, with one or more comparisons.
#[derive(Clone, Debug)]
struct Condition {
    name: String,
    /// The comparisons; the claim has to hold for each of them.
    comparisons: Vec<Lists>,
}

impl Samples {
    /// Adds values, each with the number of its list. A second addition to a condition is another comparison, for which
    /// the claim has to hold as well, such as with another competitor. Empty `values` have no effect.
    pub fn add(&mut self, condition: &str, values: impl IntoIterator<Item = (u64, f64)>) {
        let mut lists = Lists::new();
        for (list, value) in values {
            lists.entry(list).or_default().push(value);
        }
        if lists.is_empty() {
            return;
        }
        match self.0.iter_mut().find(|known| known.name == condition) {
            Some(known) => known.comparisons.push(lists),
            None => self.0.push(Condition { name: condition.to_owned(), comparisons: vec![lists] }),
        }
    }

    /// Adds one value to the first comparison of a condition; `None` has no effect.
    pub fn extend(&mut self, condition: &str, value: Option<(u64, f64)>) {
        let Some((list, value)) = value else { return };
        match self.0.iter_mut().find(|known| known.name == condition) {
            Some(known) => known.comparisons[0].entry(list).or_default().push(value),
            None => self.add(condition, [(list, value)]),
        }
    }

    /// Whether there are no measurements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the conditions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|condition| condition.name.as_str())
    }

    /// Returns the comparison of each condition that is worst for `bound`.
    pub fn worst(&self, bound: Bound) -> Vec<(&str, Interval)> {
        let each = self.0.iter().filter_map(|one| Some((one.name.as_str(), interval(one.worst(bound)?)?)));
        each.collect()
    }

    /// Returns the mean over the conditions, each with the same weight. Lists that all conditions have give one value
    /// each, their mean over the conditions; if there are fewer than two such lists, conditions count as independent.
    pub fn overall(&self, bound: Bound) -> Option<Interval> {
        let conditions: Vec<&Lists> = self.0.iter().filter_map(|one| one.worst(bound)).collect();
        let has_all = |list: &&u64| conditions.iter().all(|lists| lists.contains_key(list));
        let common: Vec<u64> = conditions.first()?.keys().filter(has_all).copied().collect();
        if conditions.len() > 1 && common.len() < 2 {
            let parts: Option<Vec<Interval>> = conditions.iter().map(|lists| interval(lists)).collect();
            return Interval::mean_of(&parts?);
        }
        let of = |list: &u64| conditions.iter().map(|lists| mean(&lists[list])).sum::<f64>();
        let means: Vec<f64> = common.iter().map(|list| of(list) / conditions.len() as f64).collect();
        Interval::of(&means)
    }

    /// Returns for each condition the probability of the measurements if the claim does not hold there, and if the
    /// contrary does not.
    pub(super) fn chances(&self, bound: Bound) -> Vec<(f64, f64)> {
        self.0.iter().map(|condition| condition.chances(bound)).collect()
    }
}

impl Condition {
    fn worst(&self, bound: Bound) -> Option<&Lists> {
        let distance = |lists: &&Lists| bound.margin(mean(&means(lists)));
        self.comparisons.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)))
    }

    /// Returns the probabilities: the claim needs all comparisons (their largest probability), and the contrary needs
    /// one (their smallest, corrected).
    fn chances(&self, bound: Bound) -> (f64, f64) {
        let all = self.comparisons.iter().filter_map(interval).map(|one| bound.chances(&one));
        let count = self.comparisons.len() as f64;
        let (holds, fails) =
            all.fold((0.0_f64, 1.0_f64), |(most, least), (holds, fails)| (most.max(holds), least.min(fails)));
        (holds, (fails * count).min(1.0))
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    larder_lab::replay::ratio(values.iter().sum(), values.len() as f64)
}

fn means(lists: &Lists) -> Vec<f64> {
    lists.values().map(|values| mean(values)).collect()
}

fn interval(lists: &Lists) -> Option<Interval> {
    Interval::of(&means(lists))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOVE: Bound = Bound::Above(0.0);

    #[test]
    fn runs_that_share_a_list_count_once() {
        let mut samples = Samples::default();
        samples.add("10%", [(0, 1.0), (0, 3.0), (1, 4.0), (1, 4.0)]);
        let overall = samples.overall(ABOVE).unwrap();
        assert_eq!((overall.count, overall.mean), (2, 3.0));
    }

    #[test]
    fn a_list_counts_once_for_all_conditions() {
        let mut samples = Samples::default();
        samples.add("10%", [(0, 1.0), (1, 2.0), (2, 9.0)]);
        samples.add("20%", [(0, 3.0), (1, 4.0)]);
        let overall = samples.overall(ABOVE).unwrap();
        assert_eq!((overall.count, overall.mean), (2, 2.5));
    }

    #[test]
    fn conditions_without_common_lists_are_independent() {
        let mut samples = Samples::default();
        samples.add("8 workers", [(0, 1.0), (1, 3.0)]);
        samples.add("16 workers", [(7, 3.0), (8, 5.0)]);
        let overall = samples.overall(ABOVE).unwrap();
        assert_eq!((overall.mean, overall.count), (3.0, 4));
        // Two variances of 2 over two values each: the error is 1/sqrt(2), with two degrees of freedom.
        assert!((overall.margin().unwrap() - 4.302_653 * 0.5_f64.sqrt()).abs() < 1e-4, "{overall:?}");
    }

    #[test]
    fn every_comparison_has_to_hold() {
        let mut samples = Samples::default();
        samples.add("10%", [(0, 5.0), (1, 6.0), (2, 7.0)]);
        samples.add("10%", [(0, 0.1), (1, -0.1), (2, 0.1)]);
        assert!((samples.worst(ABOVE)[0].1.mean - 0.1 / 3.0).abs() < 1e-12);
        assert!(samples.chances(ABOVE)[0].0 > 0.2);
    }
}
