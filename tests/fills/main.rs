//! Fetches under way: one for many readers, what happens when a side leaves, which origin is asked,
//! how many may wait, and how the process ends.

mod endings;
mod origins;
mod process;
mod sharing;
