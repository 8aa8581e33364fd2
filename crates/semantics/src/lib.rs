//! HTTP caching (RFC 9111) as pure functions: heads and `now` in, a decision with its reason out.
//!
//! The order of a request's life: [`key`] names what is asked for, [`vary`] selects among its
//! variants and [`no_vary_search`] other URLs that have the same answer, [`reuse`] says whether a stored response may answer ([`directives`], [`freshness`]),
//! [`revalidate`] asks and answers conditional requests, [`storable`] judges what the origin sent,
//! [`invalidate`] what an unsafe request spoils, [`groups`] what goes with it, [`range`] cuts and
//! joins. [`status`] is the list of reasons, and [`explain`] says of a response what counts in it and
//! what does not.
//!
//! Times are seconds since 1970 and durations are seconds, both `u32` and saturating. There is no
//! clock, no socket and no store here.

mod choices;
pub mod date;
pub mod directives;
pub mod explain;
pub mod fields;
pub mod freshness;
pub mod groups;
pub mod invalidate;
pub mod key;
pub mod no_vary_search;
pub mod range;
pub mod reuse;
pub mod revalidate;
pub mod status;
pub mod storable;
pub mod vary;
mod wire;
