//! Counters, histograms and spans, which all higher layers write.

pub(crate) mod accounts;
pub(crate) mod counters;
pub(crate) mod gauge;
pub(crate) mod histogram;
pub(crate) mod span;
pub(crate) mod statuses;
pub(crate) mod versions;
