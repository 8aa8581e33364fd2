//! The rules that the nodes of a cluster have to agree on, as arithmetic: from the same members, every node computes the
//! same owner of every key.
//!
//! - [`Ring`]: the node that owns a key, and the next ones if that one is busy or down. [`Load`] decides when a node is
//!   busy. [`key_hash`] is the hash of a key, the same on every machine.
//! - [`Message`]: an entry of the stream by which nodes exchange purges. A [`Follower`] detects missed entries;
//!   [`Lag`] is the time for which a node may rely on the entries that it has read.
//! - [`Floor`]: the oldest position that a node accepts from another node.
//! - [`Seal`]: authenticates all of this, if the nodes have a token.
//! - [`record`]: the format of responses on the engine; a [`Breaker`] stops the use of a failing engine.
//!
//! Not here: membership and its discovery, sockets, runtimes, clocks.

mod acknowledgement;
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

pub use acknowledgement::Acknowledgement;
pub use breaker::Breaker;
pub use floor::{Demand, Floor};
pub use follower::{Follower, GapReason};
pub use hash::key_hash;
pub use lag::Lag;
pub use load::Load;
pub use message::Message;
pub use point::{NoPoint, Point};
pub use position::{NoPosition, Position};
pub use ring::{Node, Ring};
pub use seal::Seal;
