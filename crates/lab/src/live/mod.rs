//! Live experiments: the real program, started as a child and used over sockets, in front of an origin with known pages and
//! delays.
//!
//! An [`experiments::Experiment`] takes its measurements through a [`Bench`], which writes each at once; conclusions are
//! drawn from the written ones, so that an interrupted run has a report, too.
//!
//! Three small [`services`] serve changing data to clients, which [`drive()`] runs; a [`Ledger`] finds answers that were
//! out of date.
//!
//! Outside this module: the inside of the proxy. It is only observed from outside.

mod bench;
mod child;
pub mod course;
mod drive;
pub mod experiments;
mod findings;
mod http;
mod journal;
mod ledger;
mod link;
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
pub use prices::{Fees, Machine, Prices};
pub use report::{Part, Provenance, write as write_report};
pub use slots::Slots;
pub use statistics::{Bound, Claim, ClaimKind, Evidence, Interval, Samples, Verdict};

/// The reason why a measurement, and its experiment, ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The user requested the end.
    Stopped,
    /// An error, in one line.
    Failed(String),
}

impl Halt {
    /// Returns the error that `what` failed because of `why`.
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
