//! The process: listeners, threads, and maintenance.

mod accept;
mod bind;
mod binding;
pub mod control;
pub mod front;
pub(crate) mod health;
pub mod listen;
pub(crate) mod names;
mod supervise;
