//! The process: listeners, threads, and maintenance.

mod accept;
pub(crate) mod health;
pub mod listen;
