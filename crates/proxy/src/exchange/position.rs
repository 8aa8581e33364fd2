//! Positions in the stream of purges, as clients show them and other nodes await them.

use larder_cluster::{Follower, Point, Position, key_hash};

/// What this node has to have obeyed before it answers a request from what it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// What the node that asks has obeyed and ordered, as it has said.
    Place(Box<str>),
    /// The position that the client shows.
    Shown(Shown),
}

/// A position that a client shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// A hash of the name of the engine's process.
    engine: u64,
    position: Position,
}

impl Shown {
    pub(crate) fn of(point: &Point) -> Self {
        Self { engine: key_hash(point.engine.as_bytes()), position: point.position }
    }

    pub(crate) fn text(self) -> String {
        format!("{}.{:016x}", self.position, self.engine)
    }

    /// The text of a position and its seal.
    pub(crate) fn read(text: &str) -> Option<(Self, &str)> {
        let (text, seal) = text.rsplit_once('.')?;
        let (position, engine) = text.split_once('.')?;
        let shown = Self { engine: u64::from_str_radix(engine, 16).ok()?, position: position.parse().ok()? };
        // There is one way to write it.
        (shown.text() == text).then_some((shown, seal))
    }

    pub(crate) fn is_reached(self, follower: &Follower) -> bool {
        follower.point().is_some_and(|point| {
            let reached = Self::of(&point);
            reached.engine == self.engine && reached.position >= self.position
        })
    }
}
