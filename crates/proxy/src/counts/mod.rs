//! Counters, histograms and spans, which all higher layers write.

pub(crate) mod accounts;
pub(crate) mod counters;
pub(crate) mod gauge;
pub(crate) mod histogram;
#[cfg_attr(not(feature = "otlp"), path = "no_span.rs")]
pub(crate) mod span;
pub(crate) mod versions;
