//! What the proxy says about itself: counters, access lines, figures.

pub(crate) mod access;
pub(crate) mod counters;
