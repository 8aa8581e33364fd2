//! The reading end of a fill: each reader at its own pace, from its own position.

use std::sync::Arc;

use bytes::Bytes;

use super::{Ending, Fill, Verdict, locked};
use crate::{Entry, Extent};

/// Reads a fill from its start, or a range of it, as it arrives.
#[derive(Debug)]
pub struct Reader {
    fill: Arc<Fill>,
    position: u64,
    to: u64,
    id: u64,
}

/// The next piece of a body.
#[derive(Debug)]
pub enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// This many bytes of the extent, from this position.
    File(Arc<Extent>, u64, u64),
    /// This many bytes of the content of what was stored meanwhile, from this position.
    Stored(Entry, u64, u64),
    /// No more.
    End(Ending),
}

impl Reader {
    pub(super) fn new(fill: Arc<Fill>) -> Self {
        let mut readers = locked(&fill.readers);
        readers.next += 1;
        let id = readers.next;
        readers.positions.insert(id, 0);
        drop(readers);
        Self { fill, position: 0, to: u64::MAX, id }
    }

    /// Tells the fetch from all others that are in progress.
    pub fn fetch(&self) -> usize {
        Arc::as_ptr(&self.fill).addr()
    }

    pub(super) fn fill(&self) -> &Fill {
        &self.fill
    }

    /// The cache key that is fetched.
    pub fn key(&self) -> &[u8] {
        &self.fill.key
    }

    /// Waits for what the fill turns out to be.
    pub async fn verdict(&self) -> Verdict {
        self.fill.until(|progress| progress.verdict.clone()).await
    }

    /// Reads only bytes `from` up to and not including `to`. To be said before the first piece.
    pub fn narrow(&mut self, from: u64, to: u64) {
        (self.position, self.to) = (from, to);
        self.sent();
    }

    /// Waits for the next piece, at most 256 KiB.
    pub async fn next(&mut self) -> Piece {
        const MOST: u64 = 256 << 10;
        let (position, to) = (self.position, self.to);
        if position >= to {
            return Piece::End(Ending::Complete);
        }
        let there = self.fill.until(|progress| match progress.ending {
            _ if progress.len > position => Some(Ok(progress.len)),
            ending => ending.map(Err),
        });
        let len = match there.await {
            Ok(len) => len,
            Err(ending) => return Piece::End(ending),
        };
        let most = len.min(to).saturating_sub(position).min(MOST);
        match locked(&self.fill.buffer).piece(position, most) {
            Some((piece, len)) => {
                self.position += len;
                piece
            }
            None => Piece::End(Ending::Truncated),
        }
    }

    /// Says that everything handed out so far has left, which lets a windowed fill go on.
    pub fn sent(&self) {
        locked(&self.fill.readers).positions.insert(self.id, self.position);
        self.fill.moved.notify_waiters();
    }

    /// The content's length, once all of it is there.
    pub fn total(&self) -> Option<u64> {
        let progress = self.fill.progress();
        progress.ending.map(|_| progress.len)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        locked(&self.fill.readers).positions.remove(&self.id);
        self.fill.moved.notify_waiters();
    }
}
