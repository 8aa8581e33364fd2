//! Connections to the engine that the nodes of a cluster share: Valkey or Redis.
//!
//! Outside this crate: keys and their meaning, deadlines of commands, and the health of the engine.

mod address;
mod link;

pub use address::EngineAddress;
pub use link::{Link, connect};
