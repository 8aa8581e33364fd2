//! The claims, and their verdicts.

mod capacity;
mod latency;
mod spread;

use std::collections::BTreeSet;

pub(super) use self::capacity::{ENOUGH, enough};

use super::Seen;
use super::cell::{Cell, Measured};
use crate::live::Contrast;
use crate::live::findings::{Finding, told};

/// What counts as the same: this share more or less.
const SAME: f64 = 0.02;
const PERCENT: (f64, &str) = (100.0, "%");
const POINTS: (f64, &str) = (100.0, "points of hit ratio");
const LARDER: &str = "Larder";

pub(super) fn claims(seen: &Seen) -> Vec<Finding> {
    let mut found = latency::claims(&seen.cells);
    found.extend(capacity::claims(seen));
    found.extend(spread::claims(&seen.cells));
    found
}

/// Where a claim holds.
#[derive(Clone, Copy)]
enum Bound {
    Above(f64),
    Below(f64),
}

impl Bound {
    /// How far beyond the bound a value is.
    fn margin(self, value: f64) -> f64 {
        match self {
            Self::Above(least) => value - least,
            Self::Below(most) => most - value,
        }
    }
}

/// What was measured in several conditions.
#[derive(Default)]
struct Conditions(Vec<(String, Vec<f64>)>);

impl Conditions {
    /// Adds a condition, unless it was not measured.
    fn add(&mut self, name: impl Into<String>, values: Vec<f64>) {
        if !values.is_empty() {
            self.0.push((name.into(), values));
        }
    }

    fn contrast(&self, map: impl Fn(f64) -> f64) -> Contrast {
        let mut contrast = Contrast::default();
        for (name, values) in &self.0 {
            contrast.add(name, values.iter().copied().map(&map).collect());
        }
        contrast
    }

    /// The claim that the values are within `bound`.
    fn decide(
        &self,
        claim: impl Into<String>,
        source: &'static str,
        bound: Bound,
        (scale, unit): (f64, &str),
        text: String,
    ) -> Finding {
        let overall = self.contrast(|value| value).overall();
        Finding {
            claim: claim.into(),
            source,
            verdict: self.contrast(|value| bound.margin(value)).verdict(),
            effect: overall.map_or_else(String::new, |overall| told(&overall, scale, unit)),
            text,
        }
    }

    /// Each condition with its mean.
    fn means(&self, tell: impl Fn(f64) -> String) -> String {
        let of = |(name, values): &(String, Vec<f64>)| format!("{} at {name}", tell(mean(values)));
        self.0.iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

fn mean(values: &[f64]) -> f64 {
    crate::replay::ratio(values.iter().sum(), values.len() as f64)
}

/// The cells of a part that satisfy `is_it`.
fn those<'a>(cells: &'a [Measured], part: &str, is_it: impl Fn(&Cell) -> bool) -> Vec<&'a Measured> {
    cells.iter().filter(|measured| measured.cell.part == part && is_it(&measured.cell)).collect()
}

/// `value` of each of `ones` and the one of the same repetition of `others`.
fn paired(ones: &[&Measured], others: &[&Measured], value: impl Fn(&Measured, &Measured) -> f64) -> Vec<f64> {
    let pair = |one: &&Measured| {
        let other = others.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
        Some(value(one, other))
    };
    ones.iter().filter_map(pair).collect()
}

/// By which share requests took longer in `one` than in `other`.
fn slower(one: &Measured, other: &Measured) -> f64 {
    one.all.mean / other.all.mean - 1.0
}

/// The mean of `value` over cells; 0 without any.
fn average(cells: &[&Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    mean(&cells.iter().map(|measured| value(measured)).collect::<Vec<_>>())
}

/// The values that a field takes, ascending.
fn distinct<T: Ord>(cells: &[&Measured], field: impl Fn(&Cell) -> T) -> BTreeSet<T> {
    cells.iter().map(|measured| field(&measured.cell)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Verdict;

    #[test]
    fn a_bound_is_kept_where_all_are_within_it() {
        let mut conditions = Conditions::default();
        conditions.add("1", vec![0.010, 0.011, 0.012]);
        conditions.add("2", Vec::new());
        let verdict = |bound| conditions.decide("it is", LARDER, bound, PERCENT, String::new()).verdict;
        assert_eq!(verdict(Bound::Below(0.02)), Verdict::Holds);
        assert_eq!(verdict(Bound::Above(0.02)), Verdict::Fails);
        let finding = conditions.decide("it is", LARDER, Bound::Above(0.0), PERCENT, String::new());
        assert!(finding.effect.starts_with("+1.10 % (95% between "), "{}", finding.effect);
        assert_eq!(conditions.means(|value| format!("{value:.3}")), "0.011 at 1");
    }
}
