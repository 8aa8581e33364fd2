//! The process: sockets, its start and end, and maintenance.

mod bind;
mod binding;
pub(crate) mod control;
pub(crate) mod given;
mod health;
pub(crate) mod listen;
pub(crate) mod liveness;
mod names;
mod supervise;
