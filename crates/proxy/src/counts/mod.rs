//! Counters and histograms, which every layer above may write.

pub(crate) mod accounts;
pub(crate) mod counters;
pub(crate) mod histogram;
