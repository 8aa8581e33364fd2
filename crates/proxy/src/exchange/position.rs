//! Positions in the stream of purges: those that clients send, and those for which other nodes wait.

use larder_cluster::{Follower, Point, Position, key_hash};

/// The position that this node has to reach before it answers a request from stored responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequiredPosition {
    /// The position of the requesting node: the purges that it has applied and ordered, as it reported them.
    Place(Box<str>),
    /// The position that the client sends.
    Shown(ClientPosition),
}

/// A position that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientPosition {
    /// A hash of the name of the engine's process: positions of different processes cannot be compared.
    engine: u64,
    position: Position,
}

impl ClientPosition {
    pub(crate) fn of(point: &Point) -> Self {
        Self { engine: key_hash(point.engine.as_bytes()), position: point.position }
    }

    pub(crate) fn text(self) -> String {
        format!("{}.{:016x}", self.position, self.engine)
    }

    /// Splits the text of a position from its seal. `None` for malformed text.
    pub(crate) fn read(text: &str) -> Option<(Self, &str)> {
        let (text, seal) = text.rsplit_once('.')?;
        let (position, engine) = text.split_once('.')?;
        let shown = Self { engine: u64::from_str_radix(engine, 16).ok()?, position: position.parse().ok()? };
        // Only the canonical text is accepted.
        (shown.text() == text).then_some((shown, seal))
    }

    pub(crate) fn is_reached(self, follower: &Follower) -> bool {
        follower.point().is_some_and(|point| {
            let reached = Self::of(&point);
            reached.engine == self.engine && reached.position >= self.position
        })
    }
}
