//! Objects in one directory: a log of records, and the policy that keeps it within its size.
//!
//! A [`Disk`] appends each object as one contiguous record to a segment file and finds it again by an index
//! in memory. What it returns is what was written, byte for byte: whatever does not add up, after a crash, a
//! torn write or a flipped bit, is a miss. It outlives restarts by a snapshot of the index and a scan of the
//! records behind it. One thread writes; its callers never wait for the disk unless they ask to
//! ([`Disk::sync`], [`Disk::snapshot`], [`Disk::close`]) or read.
//!
//! Not here: HTTP, runtimes, logs and the clock. What went wrong is told as an [`Event`]; the time, in seconds,
//! is the caller's. All access to files goes through [`Files`], so that tests can break them.

mod body;
mod checked;
mod checks;
mod cleaner;
mod disk;
mod engine;
mod event;
mod files;
mod index;
mod inventory;
mod log;
mod lookup;
mod open;
pub mod private;
mod queue;
mod record;
mod recovery;
mod scan;
mod segment;
mod shared;
mod snapshot;
mod streams;
mod usage;
mod writer;

pub use body::{Body, Damaged, Found, Span};
pub use checks::{check_records, check_snapshot};
pub use disk::{About, Disk, OpenError, Options};
pub use event::{Event, Report};
pub use files::{Directory, File, Files, Stamp};
pub use inventory::{Listed, Pruned, Verified};
pub use lookup::AtOnce;
pub use usage::Usage;
pub use writer::Writer;
