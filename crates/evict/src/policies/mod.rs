//! The policies, a file each. A new one is a file here and a line in `registry.rs`.

mod fifo;
mod lru;

pub use fifo::Fifo;
pub use lru::Lru;
