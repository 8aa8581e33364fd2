//! Live experiments: the real program, started as a child and used over sockets, in front of an origin with known pages and
//! delays.
//!
//! An [`experiments::Experiment`] takes its measurements through a [`Bench`], which writes each at once; conclusions are
//! drawn from the written ones, so that an interrupted run has a report, too.
//!
//! Changing data is served by three small [`services`] to clients that [`drive`] them; a [`Ledger`] finds answers that were
//! out of date.
//!
//! Not here: the inside of the proxy. It is observed from outside only.

mod bench;
mod child;
pub mod course;
mod drive;
pub mod experiments;
mod findings;
mod http;
mod journal;
mod ledger;
mod line;
pub mod load;
mod machine;
pub mod origin;
mod prices;
mod proxy;
mod replayed;
mod report;
pub mod services;
mod slots;
mod statistics;
mod subprocess;
mod timer;

use std::fmt::{self, Display};

pub use bench::{Bench, Scale, Size, Watch};
pub use drive::{Exchange, Outcome, Plan, Source, Times, drive};
pub use findings::{Basis, Decided, Figure, Finding, Findings, Grid, Ruling};
pub use journal::{Head, Journal};
pub use ledger::{Ledger, Stale, Versions};
pub use machine::Host;
pub use prices::{Machine, Prices};
pub use report::{Part, Provenance, write as write_report};
pub use slots::Slots;
pub use statistics::{Bound, Claim, ClaimKind, Evidence, Interval, Samples, Verdict};

/// Why a measurement, and the experiment with it, came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The user asked for it.
    Stopped,
    /// It cannot be done: one line.
    Failed(String),
}

impl Halt {
    /// That `what` failed, and how.
    fn because(what: &str, why: impl Display) -> Self {
        Self::Failed(format!("{what}: {why}"))
    }
}

impl Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Halt {}
