//! Fetches under way: one for many readers, what happens when a side leaves, which origin is asked,
//! how many may wait, and how the process ends.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod endings;
mod origins;
mod process;
mod sharing;
