//! The handover from a running process to its successor.

pub(crate) mod frame;
pub(crate) mod memory;
mod state;
