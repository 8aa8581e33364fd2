//! The policies, a file each. A new one is a file here and a line in `registry.rs`.

mod clock;
mod fifo;
mod greedy_dual;
mod lfu;
mod lru;
mod s3fifo;
mod sieve;

pub use clock::{Clock, ClockParams};
pub use fifo::Fifo;
pub use greedy_dual::{Cost, CostPerByte, Count, CountedCostPerByte, Gds, Gdsf, GreedyDual, Lfuda, Worth};
pub use lfu::Lfu;
pub use lru::Lru;
pub use s3fifo::{S3Fifo, S3FifoParams};
pub use sieve::Sieve;
