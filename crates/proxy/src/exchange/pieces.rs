//! Content of several pieces, which are known, or are found or fetched while it is sent.

use bytes::Bytes;
use larder_store::Entry;
use larder_store::fill::Reader;
use tokio::sync::mpsc::{Receiver, error::TryRecvError};

/// One piece of a reply that has several.
#[derive(Debug)]
pub enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// Bytes of a stored response, from the first position up to and not including the second.
    Stored(Entry, u64, u64),
}

impl Piece {
    /// Returns the bytes of the piece.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored(_, from, to) => to - from,
        }
    }

    /// Returns the stored response of the piece, if there is one.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Stored(entry, ..) => Some(entry),
            Self::Bytes(_) => None,
        }
    }
}

/// The pieces of a reply's content, in their order. If they end before `left` bytes were taken, the content is truncated.
#[derive(Debug)]
pub struct PieceQueue {
    pieces: Receiver<QueuedPiece>,
    left: u64,
}

/// A piece that is found, or arrives.
#[derive(Debug)]
pub(crate) enum QueuedPiece {
    /// A piece that is at hand.
    Ready(Piece),
    /// This many bytes of a fill, which the reader reads from their first one on.
    Arriving(Reader, u64),
}

impl PieceQueue {
    /// Returns the queue of `pieces` that have `length` bytes together.
    pub(crate) fn new(pieces: Receiver<QueuedPiece>, length: u64) -> Self {
        Self { pieces, left: length }
    }

    /// Returns the bytes that have not been taken.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Returns the next piece if it is there; the inner `None` at the end.
    pub(crate) fn ready(&mut self) -> Option<Option<QueuedPiece>> {
        match self.pieces.try_recv() {
            Ok(piece) => Some(Some(self.count(piece))),
            Err(TryRecvError::Disconnected) => Some(None),
            Err(TryRecvError::Empty) => None,
        }
    }

    /// Waits for the next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<QueuedPiece> {
        let piece = self.pieces.recv().await?;
        Some(self.count(piece))
    }

    fn count(&mut self, piece: QueuedPiece) -> QueuedPiece {
        let length = match &piece {
            QueuedPiece::Ready(piece) => piece.len(),
            QueuedPiece::Arriving(_, length) => *length,
        };
        self.left = self.left.saturating_sub(length);
        piece
    }
}
