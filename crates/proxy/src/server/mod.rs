//! The process: listeners, threads, and maintenance.

pub(crate) mod health;
pub mod listen;
