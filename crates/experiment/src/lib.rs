//! Experiments: the real program, started as a child and used over sockets, in front of an origin with known pages and
//! delays. The program `larder-lab` runs them.
//!
//! An [`experiments::Experiment`] takes its measurements through a [`Bench`], which writes each at once; conclusions are
//! drawn from the written ones, so that an interrupted run has a report, too.
//!
//! Three small [`services`] serve changing data to clients, which [`drive()`] runs; a [`Ledger`] finds answers that were
//! out of date.
//!
//! Outside this crate: the inside of the proxy. It is only observed from outside.

mod bench;
pub mod cache_lines;
mod child;
pub mod course;
mod drive;
pub mod experiments;
mod findings;
mod http;
mod journal;
mod ledger;
mod link;
mod machine;
pub mod origin;
mod prices;
mod proxy;
mod replayed;
mod report;
mod server_thread;
pub mod services;
mod size;
mod slots;
mod statistics;
mod subprocess;

pub use bench::{Bench, Scale, Watch};
pub use drive::{Exchange, Outcome, Plan, Source, Times, drive};
pub use findings::{Basis, ClaimSource, Figure, Finding, Findings, Grid, JudgedFinding, Ruling};
pub use journal::{Head, Journal};
pub use larder_load::Halt;
pub use ledger::{Ledger, StaleError, Versions};
pub use machine::{Host, SpentTime};
pub use prices::{Fees, Machine, Prices};
pub use report::{Part, Provenance, write as write_report};
pub use size::Size;
pub use slots::Slots;
pub use statistics::{Bound, Claim, ClaimKind, Evidence, Interval, Samples, Verdict};
