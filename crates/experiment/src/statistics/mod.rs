//! Conclusions from repeated measurements. Pure: numbers in, verdicts out.
//!
//! The unit of repetition is the list of requests. Both sides of a comparison get the same lists, so a value is a
//! difference within a list. Several runs over one list count as one value, their mean. A claim defines the values that
//! have to be above or below a threshold, and its [`ClaimKind`] defines how its conditions decide it.
//!
//! A report decides many claims. [`level`] controls the share of false verdicts among all of them, and Holm's method
//! controls the conditions within one claim.
//!
//! Sources: Student's t for paired samples; Holm, A simple sequentially rejective multiple test procedure (Scandinavian
//! Journal of Statistics 6, 1979); Benjamini and Hochberg, Controlling the false discovery rate (JRSS B 57, 1995); Benjamini
//! and Bogomolov, Selective inference on multiple families of hypotheses (JRSS B 76, 2014), for conditions within claims;
//! Berger, Multiparameter hypothesis testing (Technometrics 24, 1982), for claims about all conditions; Welch and Satterthwaite
//! for means of conditions that have no list in common.

mod bound;
mod claim;
mod family;
mod interval;
mod samples;
#[cfg(test)]
mod truth;

pub use bound::Bound;
pub(super) use claim::Side;
pub use claim::{Claim, ClaimKind, Evidence, Verdict};
pub(super) use family::level;
pub use interval::Interval;
pub use samples::Samples;
pub(crate) use samples::mean;

/// The allowed share of false verdicts in a report.
pub(super) const FALSE_VERDICTS: f64 = 0.05;
