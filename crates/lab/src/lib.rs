//! The laboratory: simulates caches on recorded or generated requests.
//!
//! A [`trace`] is read from a file or generated, and its objects are numbered once. Then it is replayed through the
//! policies of `larder-evict`, the same code that serves requests.

pub mod anomaly;
pub mod curve;
pub mod describe;
pub mod html;
pub mod nodes;
mod parallel;
pub mod plot;
pub mod prefetch;
pub mod replay;
pub mod stack;
pub mod subject;
pub mod sweep;
pub mod trace;
pub mod workload;
