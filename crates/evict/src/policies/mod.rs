//! The policies, a file each. A new one is a file here and a line in `registry.rs`.

mod adaptive;
mod arc;
mod belady;
mod belady_size;
mod clock;
mod fifo;
mod greedy_dual;
mod hyperbolic;
mod lecar;
mod lfu;
mod lhd;
mod lirs;
mod lru;
mod lru_k;
mod maxs;
mod rand;
mod s3fifo;
mod sieve;
mod slru;
mod tinylfu;
mod two_q;
mod wtinylfu;

pub use adaptive::{Adaptive, AdaptiveParams};
pub use arc::Arc;
pub use belady::Belady;
pub use belady_size::BeladySize;
pub use clock::{Clock, ClockParams};
pub use fifo::Fifo;
pub use greedy_dual::{Cost, CostPerByte, Count, CountedCostPerByte, Gds, Gdsf, GreedyDual, Lfuda, Worth};
pub use hyperbolic::Hyperbolic;
pub use lecar::{LeCaR, LeCaRParams};
pub use lfu::Lfu;
pub use lhd::Lhd;
pub use lirs::{Lirs, LirsParams};
pub use lru::Lru;
pub use lru_k::{LruK, LruKParams};
pub use maxs::Maxs;
pub use rand::Rand;
pub use s3fifo::{S3Fifo, S3FifoParams};
pub use sieve::Sieve;
pub use slru::{Slru, SlruParams};
pub use tinylfu::TinyLfu;
pub use two_q::{TwoQ, TwoQParams};
pub use wtinylfu::{WTinyLfu, WTinyLfuParams};

pub use crate::parts::urn::Samples;
