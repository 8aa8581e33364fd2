//! What the proxy says about itself: counters, access lines, figures, rows of the statistics database, the live log,
//! traces.

pub(crate) mod access;
pub(crate) mod contents;
pub(crate) mod couplings;
pub(crate) mod ledger;
pub(crate) mod memo;
pub(crate) mod sums;
pub(crate) mod top;
#[cfg_attr(not(feature = "otlp"), path = "untraced.rs")]
pub(crate) mod trace;
pub(crate) mod transaction;
pub(crate) mod verdicts;
pub(crate) mod watch;
