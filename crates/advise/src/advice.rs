//! The recommendation of a policy, and the reasons for which there is none.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, GroupFilter, Survey};
use crate::panel::{FACTORS, Panel, RUNNING};
use crate::window::Interval;

/// The difference between the predicted hit ratio and the real one beyond which nothing is recommended.
pub(crate) const MOST_DIFFERENCE: f64 = 0.02;
/// The evictions of the running configuration's shadow below which nothing is recommended.
const LEAST_EVICTIONS: u64 = 20;
/// The part of the misses that another policy has to avoid.
const LEAST_GAIN: f64 = 0.02;

/// A policy that would be better at the running size.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Advice {
    /// The policy.
    pub policy: String,
    /// By how much its hit ratio is higher.
    pub gain: f64,
    /// The standard error of that.
    pub error: f64,
}

/// The reason for which nothing is recommended.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// There were no requests.
    NoRequests,
    /// The cache has evicted hardly anything.
    FewEvictions(u64),
    /// The shadow of the running configuration had another hit ratio than the cache.
    WrongPrediction(f64, f64),
    /// A policy was better by so much that it would be advised, but that may be chance.
    Chance(Advice),
}

impl Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRequests => write!(f, "no request could be counted yet"),
            Self::FewEvictions(seen) => {
                write!(
                    f,
                    "only {seen} objects were evicted, {LEAST_EVICTIONS} are needed: the cache is not full yet, or large enough"
                )
            }
            Self::WrongPrediction(predicted, measured) => {
                let is_less = predicted < measured;
                let (predicted, measured) = (predicted * 100.0, measured * 100.0);
                write!(
                    f,
                    "the running configuration was predicted to hit {predicted:.1}%, and hit {measured:.1}%"
                )?;
                if is_less {
                    write!(f, "; predictions begin without the contents that a process takes over")?;
                }
                Ok(())
            }
            Self::Chance(Advice { policy, gain, error }) => {
                let (gain, error) = (gain * 100.0, error * 100.0);
                write!(f, "{policy} would have hit {gain:.1} +-{error:.1} points more, which may be chance")
            }
        }
    }
}

impl Panel {
    /// Returns the policy to recommend, if one is better beyond chance. The best of many figures with errors is too
    /// good on average: so half of the sample chooses the policy, and the other half judges it. Errors: the reason for
    /// which no policy can be recommended.
    pub(crate) fn advise(
        &self,
        counts: &Interval,
        survey: &Survey<'_>,
        predicted: f64,
        measured: f64,
    ) -> Result<Option<Advice>, Doubt> {
        if counts.traffic.asked.requests <= 0.0 {
            return Err(Doubt::NoRequests);
        }
        if counts.evictions < LEAST_EVICTIONS {
            return Err(Doubt::FewEvictions(counts.evictions));
        }
        if (predicted - measured).abs() > MOST_DIFFERENCE {
            return Err(Doubt::WrongPrediction(predicted, measured));
        }
        let gain = |policy: usize, takes: GroupFilter| {
            survey.gain(&counts.shadows[policy * FACTORS.len() + RUNNING], takes)
        };
        let policies = 0..self.policies().count();
        let gains: Vec<_> = policies.map(|policy| gain(policy, |group| group % 2 == 0)).collect();
        let best = (0..).zip(&gains).max_by(|one, next| one.1.ratio.total_cmp(&next.1.ratio));
        let Some((_, best)) = best.filter(|(best, _)| *best != self.running()) else {
            return Ok(None);
        };
        // Of equally good policies the first one: by chance another of them would be the best in each window.
        let is_as_good = |gain: &Estimate| gain.ratio >= best.ratio - best.error;
        let chosen = (0..).zip(&gains).find(|(policy, gain)| *policy != self.running() && is_as_good(gain));
        let Some((chosen, _)) = chosen else { return Ok(None) };
        let Estimate { ratio, error } = gain(chosen, |group| group % 2 == 1);
        if ratio < LEAST_GAIN * (1.0 - measured) {
            return Ok(None);
        }
        let policy = self.policies().nth(chosen).map(ToString::to_string).unwrap_or_default();
        let advice = Advice { policy, gain: ratio, error };
        if ratio > 2.0 * error { Ok(Some(advice)) } else { Err(Doubt::Chance(advice)) }
    }
}
