//! The shared parts of commands: arguments, units, tables, progress, the client of the admin listener, and failures.

use std::io;
use std::sync::Arc;

use larder_store::Store;

pub(crate) mod admin;
pub(crate) mod admin_tls;
pub(crate) mod admin_token;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod exit_with_parent;
pub(crate) mod files;
pub(crate) mod numbers;
mod output;
pub(crate) mod progress;
pub(crate) mod state;
pub(crate) mod tables;
pub(crate) mod terminal;
pub(crate) mod traces;
pub(crate) mod units;
pub(crate) mod words;

pub(crate) use output::{Failure, say};

/// Makes a store leave room, from now on, for the memory that the allocator holds without using it.
pub(crate) type WatchAllocator = fn(Arc<Store>) -> io::Result<()>;
