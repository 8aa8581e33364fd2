//! The laboratory: what a cache would have done with the requests of yesterday, or of a workload made up.
//!
//! A [`trace`] is read from a file or generated, its objects are numbered once, and then it is replayed through
//! the policies of `larder-evict`: the very code that serves.
//!
//! Only [`live`] knows sockets: its experiments start the real program and talk to it as a user would, and it has what
//! they need at both ends, a backend and clients.

pub mod curve;
pub mod describe;
pub mod live;
pub mod nodes;
pub mod plot;
pub mod replay;
pub mod stack;
pub mod sweep;
pub mod trace;
pub mod workload;
