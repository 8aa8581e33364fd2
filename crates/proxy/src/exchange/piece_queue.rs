//! Content whose pieces are found or fetched while it is sent.

use larder_store::fill::Reader;
use tokio::sync::mpsc::{Receiver, error::TryRecvError};

use crate::exchange::reply::Piece;

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
