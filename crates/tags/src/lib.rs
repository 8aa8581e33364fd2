//! Tag pools: which versions of a backend's answers are still current.
//!
//! A gateway beside a backend remembers, for each answer, the entity-tag it has now, and no content. A GET that
//! shows that tag is answered 304 without the backend. There is a pool for each first path segment; a request
//! that may change something blanks the pool of its segment and those coupled to it, when it arrives and when it
//! has been answered. Blanking is one addition: a tag counts only in the generation it was made in.
//!
//! [`Pools::ask`] says what to do with a request; what it hands out follows the request to its answer: a
//! [`Ticket`] for one that reads, a [`Change`] for one that may write. A tag is stored under the generation that
//! its ticket read before the request was forwarded. So no answer that overlaps a write leaves a tag behind that
//! outlives it.
//!
//! Not here: sockets, runtimes, clocks (the time is a parameter) and the content of answers.

mod answer;
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
pub use change::Change;
pub use couplings::Couplings;
pub use pool::Report;
pub use pools::{Asked, Pools};
pub use segment::Segment;
pub use settings::{Push, Settings};
pub use tag::entity_tag;
