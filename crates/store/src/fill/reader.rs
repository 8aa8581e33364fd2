//! The reading end of a fill: each reader at its own pace, from its own position.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::{Buffer, Ending, Fill, Progress, Verdict, locked};
use crate::{Body, Extent};

/// Reads a fill from its start, or a range of it, as it arrives.
#[derive(Debug)]
pub struct Reader {
    fill: Arc<Fill>,
    progress: watch::Receiver<Progress>,
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
        let progress = fill.progress.subscribe();
        Self { fill, progress, position: 0, to: u64::MAX, id }
    }

    pub(super) fn fill(&self) -> &Fill {
        &self.fill
    }

    /// Waits for what the fill turns out to be.
    pub async fn verdict(&mut self) -> Verdict {
        match self.progress.wait_for(|progress| progress.verdict.is_some()).await {
            Ok(progress) => progress.verdict.clone().unwrap_or(Verdict::Released),
            Err(_) => Verdict::Released,
        }
    }

    /// Reads only bytes `from` up to and not including `to`. To be said before the first piece.
    pub fn narrow(&mut self, from: u64, to: u64) {
        (self.position, self.to) = (from, to);
        self.sent();
    }

    /// Waits for the next piece, at most 256 KiB.
    ///
    /// # Errors
    /// When a memory file cannot be read.
    pub async fn next(&mut self) -> io::Result<Piece> {
        const MOST: u64 = 256 << 10;
        let (position, to) = (self.position, self.to);
        if position >= to {
            return Ok(Piece::End(Ending::Complete));
        }
        let there = self.progress.wait_for(|p| p.len > position || p.ending.is_some()).await;
        let (len, ending) = there.map_or((0, Some(Ending::Truncated)), |p| (p.len, p.ending));
        if len <= position {
            return Ok(Piece::End(ending.unwrap_or(Ending::Truncated)));
        }
        let take = len.min(to).saturating_sub(position).min(MOST);
        let file = match &*locked(&self.fill.buffer) {
            Buffer::File(extent) => Some(Arc::clone(extent)),
            Buffer::Entry(entry) => match entry.body() {
                Body::File(extent) => Some(Arc::clone(extent)),
                Body::Heap(_) | Body::Disk(_) => None,
            },
            Buffer::Heap(_) => None,
        };
        let piece = match file {
            Some(extent) => Piece::File(extent, position, take),
            None => Piece::Bytes(self.fill.copy(position, take as usize)?),
        };
        self.position += take;
        Ok(piece)
    }

    /// Says that everything handed out so far has left, which lets a windowed fill go on.
    pub fn sent(&self) {
        locked(&self.fill.readers).positions.insert(self.id, self.position);
        self.fill.moved.send_replace(());
    }

    /// The content's length, once all of it is there.
    pub fn total(&self) -> Option<u64> {
        let progress = self.progress.borrow();
        progress.ending.map(|_| progress.len)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        locked(&self.fill.readers).positions.remove(&self.id);
        self.fill.moved.send_replace(());
    }
}
