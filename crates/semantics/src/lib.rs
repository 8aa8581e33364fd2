//! HTTP caching (RFC 9111) as pure functions: heads and `now` in, a decision with its reason out.
//!
//! In the order of a request's life: [`key`] identifies the target; [`vary`] selects among its variants, and
//! [`no_vary_search`] finds other URLs with the same response; [`reuse`] decides whether a stored response may be used
//! ([`directives`], [`freshness`]); [`revalidate`] makes and answers conditional requests; [`storable`] judges the origin's
//! response; [`invalidate`] and [`groups`] decide what an unsafe request invalidates, in the words of [`purge`]; [`range`] cuts and joins parts; [`coding`]
//! says which may be compressed; [`early_hints`] which links are sent before a response, and [`purpose`] what a request is for. [`status`] is the list of
//! reasons, and [`explain`] reports which fields of a response have an effect.
//!
//! Times are seconds since 1970 and durations are seconds, both `u32` and saturating. There is no
//! clock, no socket and no store here.

mod choices;
pub mod coding;
mod cookies;
pub mod date;
pub mod directives;
pub mod early_hints;
pub mod explain;
pub mod fields;
pub mod freshness;
pub mod groups;
pub mod history;
pub mod invalidate;
pub mod key;
pub mod lifetimes;
pub mod no_vary_search;
pub mod purge;
pub mod purpose;
pub mod range;
pub mod reuse;
pub mod revalidate;
mod rules;
pub mod status;
pub mod storable;
pub mod vary;
mod wire;
