//! TinyLFU: LRU, with admission only for objects that are requested more often than their victims.

use crate::filter::FilteredPolicy;
use crate::filters::Frequency;
use crate::policies::Lru;

/// LRU behind the filter [`Frequency`].
pub type TinyLfu = FilteredPolicy<Frequency, Lru>;
