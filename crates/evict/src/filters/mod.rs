//! The admission filters, a file each. A new one is a file here and a line in `registry.rs`.

mod adapt_size;
mod frequency;
mod second_hit;
mod size_limit;

pub use adapt_size::{AdaptSize, AdaptSizeParams};
pub use frequency::Frequency;
pub(crate) use frequency::outweighs;
pub use second_hit::SecondHit;
pub use size_limit::{SizeLimit, SizeLimitParams};
