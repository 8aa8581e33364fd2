//! Tag pools: the current entity-tags of a backend's responses.
//!
//! A gateway beside a backend stores the current entity-tag of each response, and no content. A GET with that tag is
//! answered with 304, without a request to the backend. There is a pool for each first path segment; a request that
//! may change something blanks the pool of its segment and those coupled to it, when it arrives and when it has been
//! answered. Blanking is one addition: a tag counts only in the generation it was made in.
//!
//! [`Pools::ask`] decides about a request. It returns a [`Ticket`] for one that reads, a [`Change`] for one that may write,
//! which follow the request to its response. A tag is stored under the generation that its ticket read before the request
//! was forwarded. So a response that overlaps a write leaves no valid tag.
//!
//! This crate has no sockets, no runtime, no clock (the time is a parameter), and does not store content.

mod answer;
mod ask;
mod change;
mod couplings;
mod identity;
mod pool;
mod pools;
mod push;
mod segment;
mod settings;
mod tag;

pub use answer::{Ticket, Verdict};
pub use ask::TagDecision;
pub use change::Change;
pub use couplings::Couplings;
pub use pool::PoolReport;
pub use pools::Pools;
pub use segment::Segment;
pub use settings::{Push, Settings};
pub use tag::entity_tag;
