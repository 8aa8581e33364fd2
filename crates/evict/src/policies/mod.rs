//! The policies, a file each. A new one is a file here and a line in `registry.rs`.

mod clock;
mod fifo;
mod lru;
mod s3fifo;
mod sieve;

pub use clock::{Clock, ClockParams};
pub use fifo::Fifo;
pub use lru::Lru;
pub use s3fifo::{S3Fifo, S3FifoParams};
pub use sieve::Sieve;
