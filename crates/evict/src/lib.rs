//! The selection of the objects that a cache keeps: eviction policies, and the shard that a policy controls.
//!
//! A [`Shard`] holds keys, values and one [`Policy`], and keeps the sum of its objects' weights within a [`Capacity`]. The
//! same policy code serves live requests and replays traces: a [`Replay`] is a shard for requests whose keys were numbered
//! beforehand. A user names a policy by a [`Spec`] such as `lru`; [`POLICIES`] lists them.
//!
//! Outside this crate: locks, clocks, sockets, logs, and the meaning of a value. A shard belongs to one thread at a
//! time, and time is a count of requests.

mod any_policy;
mod filter;
mod filters;
mod index;
mod listing;
mod numbered;
mod params;
mod parts;
mod policies;
mod policy;
mod registry;
mod replay;
mod request;
mod shard;
mod slab;
mod spec;
mod spec_error;

pub use any_policy::AnyPolicy;
pub use filter::{Filter, FilteredParams, FilteredPolicy};
pub use filters::*;
pub use listing::{Listing, PolicyVisitor};
pub use numbered::{Attributes, ObjectAttributes, UnitAttributes};
pub use params::{Param, Params};
pub use parts::sketch::Sketch;
pub use policies::*;
pub use policy::{By, Capacity, Object, Policy, Residents, Slot};
pub use registry::AnyShard;
pub use replay::Replay;
pub use request::{Request, Shape, spread};
pub use shard::{InsertResult, Shard};
pub use spec::Spec;
pub use spec_error::SpecError;
