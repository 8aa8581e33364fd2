//! Fills in flight: one for many readers, disconnecting sides, the choice of the origin, the queue, and the end of the
//! process.

mod endings;
mod one_entity;
mod origins;
mod process;
mod sessions;
mod sharing;
mod slices;
