//! Data structures for policies.

pub(crate) mod by_slot;
pub(crate) mod chunks;
pub(crate) mod counts;
pub(crate) mod frequency;
pub(crate) mod ghost;
pub(crate) mod heap;
pub(crate) mod list;
pub(crate) mod priority;
pub(crate) mod probation;
pub(crate) mod queue;
pub(crate) mod ranking;
pub(crate) mod run;
pub(crate) mod segment;
pub(crate) mod share;
pub(crate) mod sketch;
pub(crate) mod urn;
