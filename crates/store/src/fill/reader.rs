//! The reading end of a fill: each reader reads at its own pace, from its own position.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::{ContentEnd, Fill, StoreRefusal, Verdict};
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
    /// This many bytes of the content of an entry that was stored meanwhile, from this position.
    Stored(Entry, u64, u64),
    /// The end of the body.
    End(ContentEnd),
}

impl Reader {
    pub(super) fn new(fill: Arc<Fill>) -> Self {
        let mut readers = fill.readers.lock();
        readers.next += 1;
        let id = readers.next;
        readers.positions.insert(id, 0);
        drop(readers);
        Self { fill, position: 0, to: u64::MAX, id }
    }

    /// Returns an identifier of the fetch, unique among those in progress.
    pub fn fetch(&self) -> usize {
        Arc::as_ptr(&self.fill).addr()
    }

    pub(super) fn fill(&self) -> &Fill {
        &self.fill
    }

    /// Returns the cache key of the fetch.
    pub fn key(&self) -> &[u8] {
        &self.fill.key
    }

    /// Waits for the fill's verdict.
    pub async fn verdict(&self) -> Verdict {
        self.fill.until(|progress| progress.verdict.clone()).await
    }

    /// Whether the fill has its verdict, so that nobody has to wait for it.
    pub fn has_verdict(&self) -> bool {
        self.fill.progress.lock().verdict.is_some()
    }

    /// Whether this reader, of a request that has waited for the head, may read the content. If no tier stores the
    /// content, only the leading client reads it: in a window, a slow reader would hold up all others.
    pub fn is_shared(&self) -> bool {
        self.fill.shared.load(Ordering::Acquire)
    }

    /// Whether a client has waited too long for the head, so that others need not try.
    pub fn is_late(&self) -> bool {
        self.fill.late.load(Ordering::Relaxed)
    }

    /// Records that a client has waited too long for the head.
    pub fn set_late(&self) {
        self.fill.late.store(true, Ordering::Relaxed);
    }

    /// Returns how many bytes of the content have arrived.
    pub fn arrived(&self) -> u64 {
        self.fill.progress.lock().len
    }

    /// Returns whether the complete response has been stored; `None` before its end.
    pub fn result(&self) -> Option<Result<(), StoreRefusal>> {
        self.fill.progress.lock().result
    }

    /// Reads only the bytes from `from` up to and not including `to`. To be called before the first piece is read.
    pub fn narrow(&mut self, from: u64, to: u64) {
        (self.position, self.to) = (from, to);
        self.sent();
    }

    /// Waits for the next piece, at most 256 KiB.
    pub async fn next(&mut self) -> Piece {
        const MOST: u64 = 256 << 10;
        let (position, to) = (self.position, self.to);
        if position >= to {
            return Piece::End(ContentEnd::Complete);
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
        match self.fill.buffer.lock().piece(position, most) {
            Some((piece, len)) => {
                self.position += len;
                piece
            }
            None => Piece::End(ContentEnd::Truncated),
        }
    }

    /// Reports that all bytes returned so far have been sent, which lets a windowed fill continue.
    pub fn sent(&self) {
        self.fill.readers.lock().positions.insert(self.id, self.position);
        self.fill.moved.notify_waiters();
    }

    /// Returns the content's length, once all of the content has arrived.
    pub fn total(&self) -> Option<u64> {
        let progress = self.fill.progress.lock();
        progress.ending.map(|_| progress.len)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.fill.readers.lock().positions.remove(&self.id);
        self.fill.moved.notify_waiters();
    }
}
