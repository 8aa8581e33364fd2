//! HTTP caching (RFC 9111) as pure functions: they take heads and `now`, and return a decision with its reason.
//!
//! The modules, in the order in which a request needs them:
//! - [`key`] identifies the target;
//! - [`vary`] selects among its variants, and [`no_vary_search`] finds other URLs with the same response;
//! - [`reuse`] decides whether a stored response may be used, by its [`directives`] and [`freshness`];
//! - [`revalidate`] makes and answers conditional requests;
//! - [`storable`] decides whether the origin's response may be stored;
//! - [`methods`] has the safe and the idempotent ones;
//! - [`invalidate`] and [`groups`] decide which responses an unsafe request invalidates, in the types of [`purge`];
//! - [`range`] cuts and joins parts of a response;
//! - [`stored_head`] encodes what a tier keeps of a response beside its content;
//! - [`coding`] selects responses to compress, and [`early_hints`] links to send before a response;
//! - [`readings`] lists what origins may read in cookies and queries;
//! - [`purpose`] detects prefetches.
//!
//! [`status`] is the list of reasons, and [`explain`] reports which fields of a response have an effect.
//!
//! Times are seconds since 1970 and durations are seconds, both `u32` and saturating. This crate has no
//! clock, no socket and no store.

pub mod cache_status;
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
pub mod methods;
pub mod no_vary_search;
pub mod partition;
pub mod purge;
pub mod purpose;
pub mod range;
pub mod readings;
pub mod reuse;
pub mod revalidate;
mod rules;
pub mod status;
pub mod storable;
pub mod stored_head;
pub mod vary;
mod wire;
