//! Counters, histograms and spans, which all higher layers write.

pub mod accounts;
pub mod counters;
pub mod gauge;
pub mod histogram;
pub mod span;
pub mod statuses;
pub mod versions;
