//! The claims, and their verdicts.

mod capacity;
mod latency;
mod spread;

use std::collections::BTreeSet;

pub(super) use self::capacity::{ENOUGH, enough};

use super::Measurements;
use super::cell::CellResult;
use super::conditions::Cell;
use crate::experiments::LARDER;
use crate::findings::{Finding, Ruling};
use crate::statistics::mean;
use crate::{Bound, ClaimKind, ClaimSource, Samples};

/// The maximum relative difference of values that count as equal.
const SAME: f64 = 0.02;
const PERCENT: (f64, &str) = (100.0, "%");
const POINTS: (f64, &str) = (100.0, "points of hit ratio");

pub(super) fn claims(seen: &Measurements) -> Vec<Finding> {
    let mut found = latency::claims(&seen.cells, &seen.growth);
    found.extend(capacity::claims(seen));
    found.extend(spread::claims(&seen.cells));
    found
}

/// The measurements in several conditions, each value with the number of its list of requests.
#[derive(Default)]
struct Conditions(Vec<(String, Vec<(u64, f64)>)>);

impl Conditions {
    /// Adds a condition, unless it has no measurements.
    fn add(&mut self, name: impl Into<String>, values: Vec<(u64, f64)>) {
        if !values.is_empty() {
            self.0.push((name.into(), values));
        }
    }

    /// Decides the claim that the values are within `bound`, which may depend on the condition.
    fn decide(
        &self,
        claim: impl Into<String>,
        source: ClaimSource,
        bound: Bound,
        unit: (f64, &'static str),
        text: String,
    ) -> Finding {
        let kind = if self.0.len() == 1 { ClaimKind::OnAverage } else { ClaimKind::DependsOn("condition") };
        self.decide_as(kind, claim, source, bound, unit, text)
    }

    /// Decides the same for a claim of the given kind.
    fn decide_as(
        &self,
        kind: ClaimKind,
        claim: impl Into<String>,
        source: ClaimSource,
        bound: Bound,
        unit: (f64, &'static str),
        text: String,
    ) -> Finding {
        let mut samples = Samples::default();
        for (name, values) in &self.0 {
            samples.add(name, values.iter().copied());
        }
        Finding::sampled(claim, source, kind, (samples, bound), unit).saying(text)
    }

    /// Returns each condition with its mean, as text.
    fn means(&self, tell: impl Fn(f64) -> String) -> String {
        let of = |(name, values): &(String, Vec<(u64, f64)>)| {
            format!("{} at {name}", tell(mean(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())))
        };
        self.0.iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the cells of a part that satisfy `is_it`.
fn those<'a>(cells: &'a [CellResult], part: &str, is_it: impl Fn(&Cell) -> bool) -> Vec<&'a CellResult> {
    cells.iter().filter(|measured| measured.cell.part == part && is_it(&measured.cell)).collect()
}

/// Returns `value` for each of `ones` and the cell of the same repetition in `others`, with the repetition.
fn paired(
    ones: &[&CellResult],
    others: &[&CellResult],
    value: impl Fn(&CellResult, &CellResult) -> f64,
) -> Vec<(u64, f64)> {
    let pair = |one: &&CellResult| {
        let other = others.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
        Some((one.cell.repetition, value(one, other)))
    };
    ones.iter().filter_map(pair).collect()
}

/// Returns the share by which requests took longer in `one` than in `other`.
fn slower(one: &CellResult, other: &CellResult) -> f64 {
    one.all.mean / other.all.mean - 1.0
}

/// Returns the share by which requests took longer in the cells of `part` that `is_one` selects than in those that
/// `is_other` selects, by a field of cells, whose values `name` formats.
fn slower_by<T: Copy + Ord>(
    cells: &[CellResult],
    part: &str,
    field: fn(&Cell) -> T,
    name: fn(T) -> String,
    is_one: impl Fn(&Cell) -> bool,
    is_other: impl Fn(&Cell) -> bool,
) -> Conditions {
    let mut conditions = Conditions::default();
    for value in distinct(&those(cells, part, |_| true), field) {
        let ones = those(cells, part, |cell| is_one(cell) && field(cell) == value);
        let others = those(cells, part, |cell| is_other(cell) && field(cell) == value);
        conditions.add(name(value), paired(&ones, &others, slower));
    }
    conditions
}

/// Returns the mean of `value` over cells; 0 if there are none.
fn average(cells: &[&CellResult], value: impl Fn(&CellResult) -> f64) -> f64 {
    mean(&cells.iter().map(|measured| value(measured)).collect::<Vec<_>>())
}

/// Returns the distinct values of a field, ascending.
fn distinct<T: Ord>(cells: &[&CellResult], field: impl Fn(&Cell) -> T) -> BTreeSet<T> {
    cells.iter().map(|measured| field(&measured.cell)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn a_bound_is_kept_where_all_are_within_it() {
        let mut conditions = Conditions::default();
        conditions.add("1", vec![(0, 0.010), (1, 0.011), (2, 0.012)]);
        conditions.add("2", Vec::new());
        let decide = |bound| conditions.decide("it is", LARDER, bound, PERCENT, String::new());
        let verdict = |bound| decide(bound).decide(0.05).verdict;
        assert_eq!(verdict(Bound::Below(0.02)), Verdict::Holds);
        assert_eq!(verdict(Bound::Above(0.02)), Verdict::Fails);
        let finding = decide(Bound::Above(0.0));
        let effect = finding.decide(0.05).effect;
        assert!(effect.starts_with("+1.10 % (95% between "), "{effect}");
        assert_eq!(conditions.means(|value| format!("{value:.3}")), "0.011 at 1");
    }
}
