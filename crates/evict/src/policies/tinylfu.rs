//! TinyLFU: LRU, where what comes has to be asked for more often than what leaves.

use crate::filter::Filtered;
use crate::filters::Frequency;
use crate::policies::Lru;

/// LRU behind the filter [`Frequency`].
pub type TinyLfu = Filtered<Frequency, Lru>;
