//! The laboratory: what a cache would have done with the requests of yesterday, or of a workload made up.
//!
//! A [`trace`] is read from a file or generated, its objects are numbered once, and then it is replayed through
//! the policies of `larder-evict`: the very code that serves.
//!
//! Not here: sockets. A live experiment starts the real binary and talks to it as a user would.

pub mod curve;
pub mod describe;
pub mod plot;
pub mod replay;
pub mod stack;
pub mod sweep;
pub mod trace;
pub mod workload;
