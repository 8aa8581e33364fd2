//! The shared parts of commands: arguments, tables, the client of the admin listener; and those of [`larder_cli`].

use std::io;
use std::sync::Arc;

use larder_store::Store;

pub(crate) mod admin;
pub(crate) mod admin_tls;
pub(crate) mod admin_token;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod json;
pub(crate) mod open_files;
pub(crate) mod state;
pub(crate) mod tables;
pub(crate) mod tcp_sockets;
pub(crate) mod terminal;
pub(crate) mod traces;
pub(crate) mod words;

pub(crate) use larder_cli::{Failure, choice, files, numbers, progress, say, units};

/// Makes a store leave room, from now on, for the memory that the allocator holds without using it.
pub(crate) type WatchAllocator = fn(Arc<Store>) -> io::Result<()>;
