//! Objects in one directory: a log of records, and the policy that keeps it within its size.
//!
//! A [`Disk`] appends each object as one contiguous record to a segment file and finds it by an index in memory. It returns
//! the bytes that were written: anything inconsistent, after a crash, a torn write or a flipped bit, is a miss. The index
//! survives restarts by a snapshot and a scan of the records behind it. One thread writes; callers wait for the disk only
//! in reads and in [`Disk::sync`], [`Disk::snapshot`] and [`Disk::close`].
//!
//! This crate has no HTTP, no runtime, no log and no clock. Failures are reported as [`Event`]s; the caller supplies
//! the time, in seconds. All access to files goes through [`Files`], so that tests can inject faults.

mod body;
mod checks;
mod cleaner;
mod disk;
mod engine;
mod event;
mod files;
mod full;
mod index;
mod inventory;
mod log;
mod lookup;
mod open;
mod open_error;
pub mod private;
mod queue;
mod record;
mod recovery;
mod scan;
mod segment;
mod segment_checks;
mod shared;
mod snapshot;
mod ticket;
mod usage;
mod writer;

pub use body::{Body, Damage, Span, StoredObject};
pub use checks::{check_records, check_snapshot};
pub use disk::{Disk, ObjectInfo, Options};
pub use event::{Event, OnEvent};
pub use files::{Directory, File, Files, Space, Stamp};
pub use inventory::{ObjectSummary, PruneResult, VerifyResult};
pub use lookup::AtOnce;
pub use open_error::OpenError;
pub use usage::Usage;
pub use writer::Writer;
