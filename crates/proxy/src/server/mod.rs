//! The process: listeners, threads, and maintenance.

mod accept;
mod bind;
mod binding;
pub mod control;
pub mod front;
pub mod given;
pub(crate) mod health;
mod intercepted;
pub mod listen;
pub mod liveness;
pub(crate) mod names;
mod seats;
mod supervise;
