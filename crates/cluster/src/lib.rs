//! What the nodes of a cluster have to agree on, as arithmetic: given the same members, every node computes the
//! same owner of every key.
//!
//! [`Ring`] says which node keeps a key, and which come next when that one is busy or gone. [`Load`] says when a
//! node is busy. [`key_hash`] is the number that a key has on every machine.
//!
//! What has been purged they tell each other by a stream of [`Message`]s. A [`Follower`] misses none of it unnoticed;
//! [`Lag`] is for how long a node may rely on what it has been told.
//!
//! What a node accepts from another one is at least as new as its [`Floor`].
//!
//! All of it carries a [`Seal`], where nodes share a token.
//!
//! What the engine keeps of responses is a [`record`]; a [`Breaker`] says when it is left alone with that.
//!
//! Not here: who the members are and how that is found out, sockets, runtimes, clocks.

mod acknowledged;
pub mod breaker;
mod floor;
mod follower;
mod hash;
mod lag;
mod load;
pub mod message;
mod point;
mod position;
pub mod record;
mod ring;
mod score;
pub mod seal;

pub use acknowledged::Acknowledged;
pub use breaker::Breaker;
pub use floor::{Demand, Floor};
pub use follower::{Follower, Missed};
pub use hash::key_hash;
pub use lag::Lag;
pub use load::Load;
pub use message::Message;
pub use point::{NoPoint, Point};
pub use position::{NoPosition, Position};
pub use ring::{Node, Ring};
pub use seal::Seal;
