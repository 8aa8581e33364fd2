//! What is stored and what was purged.

pub(crate) mod doubt;
pub(crate) mod reclaim;
