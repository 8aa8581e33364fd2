//! Claims: their kinds, and the rule by which each kind is decided.

use super::family::holm;
use super::{Bound, Interval, Samples};

/// The quantifier of a claim over conditions and lists of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimKind {
    /// The claim holds in at least one condition.
    Exists,
    /// The claim holds in all conditions.
    Always,
    /// The claim holds for the mean over all conditions.
    OnAverage,
    /// The claim holds in some conditions, such as `cache size`; the verdict names them.
    DependsOn(&'static str),
}

/// The evidence for a claim.
#[derive(Clone, Debug)]
pub enum Evidence {
    /// Measured values with their bound.
    Sampled(Samples, Bound),
    /// Cases that were counted exactly.
    Counted {
        /// Cases in which it holds.
        so: u64,
        /// All cases.
        of: u64,
    },
}

/// A decidable claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The kind.
    pub kind: ClaimKind,
    /// The evidence.
    pub evidence: Evidence,
    /// The unit of printed values, with the factor to convert to it.
    pub unit: (f64, &'static str),
}

/// The verdict on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// The contrary holds, or there is a counterexample.
    Fails,
    /// The claim holds in some conditions, and not certainly in others, as the text says.
    Depends(String),
    /// The measurements do not decide it, for this reason.
    Open(String),
}

/// The result of a condition for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The claim holds there.
    For,
    /// The contrary holds there.
    Against,
    /// Chance could explain the measurements.
    Unsure,
}

/// The number of cases without a counterexample that show, with 95% confidence, that fewer than 5% are one: 0.95^59 <
/// 0.05.
const CASES: u64 = 59;
const NOTHING: &str = "not measured";

impl Claim {
    /// Returns the smallest probability of the evidence if neither the claim nor its contrary held in any condition;
    /// `None` if chance is not involved. [`level`](super::level) takes these of all claims.
    pub fn chance(&self) -> Option<f64> {
        let Evidence::Sampled(samples, bound) = &self.evidence else { return None };
        if samples.is_empty() {
            return None;
        }
        if self.kind == ClaimKind::OnAverage {
            let (holds, fails) = bound.chances(&samples.overall(*bound)?);
            return Some((2.0 * holds.min(fails)).min(1.0));
        }
        let chances = samples.chances(*bound);
        let (all, none) = everywhere(&chances);
        let least = chances.iter().map(|(holds, fails)| holds.min(*fails)).fold(1.0, f64::min);
        Some((2.0 * all.min(none).min(least * chances.len() as f64)).min(1.0))
    }

    /// Returns the verdict, if false ones may have a probability of `level`.
    pub fn verdict(&self, level: f64) -> Verdict {
        match &self.evidence {
            Evidence::Counted { so, of } => self.counted(*so, *of),
            Evidence::Sampled(samples, _) if samples.is_empty() => Verdict::Open(NOTHING.to_owned()),
            Evidence::Sampled(samples, bound) if self.kind == ClaimKind::OnAverage => {
                self.on_average(samples.overall(*bound), *bound, level)
            }
            Evidence::Sampled(samples, bound) => self.by_condition(samples, *bound, level),
        }
    }

    fn counted(&self, so: u64, of: u64) -> Verdict {
        match (self.kind, so) {
            (_, _) if of == 0 => Verdict::Open(NOTHING.to_owned()),
            (ClaimKind::Exists, 1..) => Verdict::Holds,
            (ClaimKind::Exists, 0) => Verdict::Open(format!("no example among {of} cases")),
            (_, so) if so < of => Verdict::Fails,
            _ if of < CASES => {
                Verdict::Open(format!("no counterexample among {of} cases, and {CASES} are needed"))
            }
            _ => Verdict::Holds,
        }
    }

    fn on_average(&self, overall: Option<Interval>, bound: Bound, level: f64) -> Verdict {
        let Some(overall) = overall else {
            return Verdict::Open("no list of requests has all conditions".to_owned());
        };
        match bound.chances(&overall) {
            (holds, _) if holds <= level / 2.0 => Verdict::Holds,
            (_, fails) if fails <= level / 2.0 => Verdict::Fails,
            _ => Verdict::Open(self.unsure(&[overall], level)),
        }
    }

    fn by_condition(&self, samples: &Samples, bound: Bound, level: f64) -> Verdict {
        let chances = samples.chances(bound);
        let (all, none) = everywhere(&chances);
        let sides = sides(&chances, level);
        let of = |side: Side| {
            let those = samples.names().zip(&sides).filter(|(_, its)| **its == side);
            those.map(|(name, _)| name).collect::<Vec<_>>().join(", ")
        };
        let (above, below) = (of(Side::For), of(Side::Against));
        let text = match (above.is_empty(), below.is_empty()) {
            _ if all <= level / 2.0 => return Verdict::Holds,
            _ if none <= level / 2.0 => return Verdict::Fails,
            (true, true) => {
                let worst: Vec<_> = samples.worst(bound).into_iter().map(|(_, one)| one).collect();
                return Verdict::Open(format!(
                    "{}{}",
                    self.unsure(&worst, level),
                    on_average(samples, bound, level)
                ));
            }
            (false, false) => format!("it holds at {above}, and the contrary holds at {below}"),
            (false, true) => format!("it holds at {above}, and is not decided for the others"),
            (true, false) => format!("the contrary holds at {below}, and the others are not decided"),
        };
        match self.kind {
            ClaimKind::Exists if !above.is_empty() => Verdict::Holds,
            ClaimKind::Always if !below.is_empty() => Verdict::Fails,
            ClaimKind::Exists | ClaimKind::Always => Verdict::Open(text),
            _ => Verdict::Depends(text),
        }
    }

    /// Returns the result of each condition, if false results may have a total probability of `level`.
    pub fn sides(&self, level: f64) -> Vec<(&str, Interval, Side)> {
        let Evidence::Sampled(samples, bound) = &self.evidence else { return Vec::new() };
        let sides = sides(&samples.chances(*bound), level);
        samples.worst(*bound).into_iter().zip(sides).map(|((name, one), side)| (name, one, side)).collect()
    }

    /// Returns a text that the lists are too few, with the detectable difference.
    fn unsure(&self, intervals: &[Interval], level: f64) -> String {
        let lists = intervals.iter().map(|one| one.count).min().unwrap_or(0);
        let (many, is) = if lists == 1 { ("list", "is") } else { ("lists", "are") };
        let each = if intervals.len() > 1 { " in any single condition" } else { "" };
        let level = level / intervals.len().max(1) as f64;
        let seen: Option<Vec<f64>> = intervals.iter().map(|one| one.detectable(level)).collect();
        let seen = seen.and_then(|all| all.into_iter().reduce(f64::max));
        let power = seen.map_or_else(String::new, |distance| {
            let (scale, unit) = self.unit;
            format!("; a distance of {:.2} {unit} would have been found 4 times in 5", distance * scale)
        });
        format!("{lists} {many} of requests {is} too few to decide it{each}{power}")
    }

    /// Returns the rule of the decision, as a sentence.
    pub fn rule(&self) -> String {
        match (&self.evidence, self.kind) {
            (Evidence::Counted { .. }, ClaimKind::Exists) => {
                "It holds if there is one example. Without an example, it is not decided.".to_owned()
            }
            (Evidence::Counted { .. }, _) => format!(
                "It does not hold if there is one counterexample. It holds if there are {CASES} cases without a counterexample \
                 (so fewer than 5 of 100 cases are one, with 95% confidence)."
            ),
            (_, ClaimKind::Exists) => {
                "It holds if one condition shows it beyond chance (Holm's correction for the conditions). It does not hold if \
                 all conditions show the contrary."
                    .to_owned()
            }
            (_, ClaimKind::Always) => {
                "It holds if every condition shows it beyond chance. It does not hold if one condition shows the contrary \
                 (Holm's correction for the conditions)."
                    .to_owned()
            }
            (_, ClaimKind::OnAverage) => {
                "The mean over the conditions decides, with one value for each list of requests (Student's t)."
                    .to_owned()
            }
            (_, ClaimKind::DependsOn(what)) => format!(
                "Each condition ({what}) is decided separately (Student's t over the lists of requests, Holm's correction for the \
                 conditions)."
            ),
        }
    }
}

/// Returns a text that the mean over all conditions is decided, if it is although no single condition is.
fn on_average(samples: &Samples, bound: Bound, level: f64) -> &'static str {
    match samples.overall(bound).map(|overall| bound.chances(&overall)) {
        Some((holds, _)) if holds <= level / 2.0 => "; on average over the conditions, it holds",
        Some((_, fails)) if fails <= level / 2.0 => "; on average over the conditions, the contrary holds",
        _ => "",
    }
}

/// Returns the probabilities, by chance, that all conditions are for the claim, and that all are against it.
fn everywhere(chances: &[(f64, f64)]) -> (f64, f64) {
    chances.iter().fold((0.0, 0.0), |(all, none), (holds, fails)| (all.max(*holds), none.max(*fails)))
}

fn sides(chances: &[(f64, f64)], level: f64) -> Vec<Side> {
    let either: Vec<f64> = chances.iter().map(|(holds, fails)| (2.0 * holds.min(*fails)).min(1.0)).collect();
    let (all, none) = everywhere(chances);
    let side = |((holds, fails), adjusted): (&(f64, f64), f64)| match adjusted <= level {
        _ if all <= level / 2.0 => Side::For,
        _ if none <= level / 2.0 => Side::Against,
        true if holds < fails => Side::For,
        true => Side::Against,
        false => Side::Unsure,
    };
    chances.iter().zip(holm(&either)).map(side).collect()
}
