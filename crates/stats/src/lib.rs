//! The statistics database: one row for each request, roll-ups by the hour, and what is in the cache, in SQLite,
//! MariaDB, MySQL or PostgreSQL.
//!
//! A [`Recorder`] takes a [`Transaction`] from whoever serves requests, without waiting, and a thread of its own
//! writes them in batches. A thread that serves more than may have rows of their own sums them in a [`Tally`]. A database that is down, slow or full costs its caller nothing: rows wait in a queue
//! with a limit, equal ones are merged beyond it, and what is lost even so is counted. A [`Database`] reads: the
//! figures that an administrator asks for, and any query of their own, without being able to change a thing.
//! The schema is documented in `docs/statistics.md`.
//!
//! Not here: HTTP, and what the words in a row mean. Only outcomes are understood, by the table in
//! [`outcome`], so that hits and misses are the same here as in the proxy's own counters.

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
mod tally;
mod target;
mod transaction;
mod writer;

pub use database::{Database, QueryError, Table};
pub use event::{Event, Report};
pub use failure::OpenError;
pub use figures::Figures;
pub use options::{Keep, Options};
pub use queries::{Counts, Dimension, Group, Measure};
pub use recorder::Recorder;
pub use tally::{Mark, Measures, Sheet, Tally};
pub use target::describe;
pub use transaction::{Content, Text, Transaction};
