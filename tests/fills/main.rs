//! Fills in flight: one for many readers, disconnecting sides, the choice of the origin, the queue, and the end of the
//! process.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod endings;
mod origins;
mod process;
mod sharing;
