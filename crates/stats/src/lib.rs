//! The statistics database: one row for each request, roll-ups by the hour, the contents of the cache, and predictions for other
//! caches, in SQLite, MariaDB, MySQL or PostgreSQL.
//!
//! A [`Recorder`] takes a [`Transaction`] for each request, without waiting, and a separate thread writes
//! them in batches. A thread with more requests than may have separate rows sums them in a [`Tally`]. A
//! database that is down, slow or full does not delay the caller: rows wait in a bounded queue, equal ones
//! are merged beyond it, and lost ones are counted. A [`Database`] reads: the figures for administrators, and
//! any read-only query of a user. The schema is documented in `docs/statistics.md`.
//!
//! This crate has no HTTP, and does not interpret the words in a row. Only outcomes are interpreted, by the
//! table in [`outcome`], so that hits and misses are the same here as in the proxy's own counters.

mod backlog;
mod batch;
mod connection;
mod database;
mod event;
mod failure;
mod figures;
mod insert;
#[cfg(test)]
mod laws;
mod options;
pub mod outcome;
mod queries;
mod rank;
mod recorder;
mod retention;
mod rollup;
mod row;
mod schema;
mod shared;
mod store;
mod sums;
mod tally;
mod target;
mod transaction;
mod writer;

pub use database::{Database, QueryError, Table};
pub use event::{Event, OnEvent};
pub use failure::OpenError;
pub use figures::Figures;
pub use options::{OpenCheck, Options, Retention};
pub use queries::{Counts, Dimension, Group, Measure};
pub use recorder::Recorder;
pub use sums::{Mark, Measures};
pub use tally::{BatchSums, Tally};
pub use target::describe;
pub use transaction::{Content, Prediction, Text, Transaction};
