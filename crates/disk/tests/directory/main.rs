//! A store in one directory: its lookups, its laws, and its state after crashes, kills and faults.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

mod cleaner;
mod crashes;
mod faults;
mod kills;
mod laws;
mod lookups;
mod mounts;
mod overwritten;
mod pruning;
mod store;
mod superseded;
mod support;
