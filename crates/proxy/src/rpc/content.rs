//! Reads a page's content where it has to be put together before, or cut up while, it is sent.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use larder_rpc::Failure;
use larder_store::fill::{self, Ending};
use larder_store::{Entry, Extent};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{decode, failure};
use crate::exchange::reply::{Content, Piece, Reply, Source};
use crate::origin::Chunk;

/// Bytes that are read from a file at once.
const BLOCK: u64 = 64 << 10;
/// What the budget is counted in.
const UNIT: usize = 4 << 10;
/// Bytes of pages that are being put together, in the whole process.
const MOST: usize = 256 << 20;

/// What all calls together may hold in pages that are put together before they are sent.
#[derive(Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST / UNIT)))
    }
}

/// What one call holds of the budget.
pub(super) struct Share {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Budget {
    /// Nothing yet.
    pub(super) fn share(&self) -> Share {
        Share { budget: Arc::clone(&self.0), held: None, bytes: 0 }
    }
}

impl Share {
    /// Makes room for so many bytes more; false when others hold it.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        self.bytes += bytes;
        let missing = self.bytes.div_ceil(UNIT).saturating_sub(held);
        if missing == 0 {
            return true;
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(&self.budget).try_acquire_many_owned(missing) else { return false };
        match &mut self.held {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        true
    }
}

/// A page as a whole, and its share of the budget.
pub(super) struct Collected {
    pub(super) bytes: Bytes,
    pub(super) share: Share,
}

/// Why a page cannot be put together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It has more bytes than this.
    TooLong(u64),
    /// All calls together hold too much.
    Crowded,
    /// The origin stopped, or what it sent is not what it said.
    Broken(String),
}

impl Obstacle {
    pub(super) fn failure(self, url: &str) -> Failure {
        match self {
            Self::TooLong(most) => failure(url, 502, format!("the page has more than {most} bytes")),
            Self::Crowded => failure(url, 503, "too many pages are being put together; try again"),
            Self::Broken(why) => failure(url, 502, why),
        }
    }
}

/// Reads a reply's content from its beginning.
pub(super) struct Pieces<'r> {
    reply: &'r mut Reply,
    /// Bytes that have been read of what is stored, or pieces of several.
    at: u64,
    /// What is left of a piece of a fill that lies in a file.
    file: Option<(Arc<Extent>, u64, u64)>,
}

impl<'r> Pieces<'r> {
    pub(super) fn of(reply: &'r mut Reply) -> Self {
        Self { reply, at: 0, file: None }
    }

    /// The next bytes, few enough to be held; `None` at the end.
    ///
    /// # Errors
    /// Why there are no more, though there should be.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        match &mut self.reply.content {
            Content::Bytes(bytes) => Ok(Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty())),
            Content::Stored(..) => self.stored().await,
            Content::Fill(_) => self.filling().await,
            Content::Origin(download) => loop {
                match download.next().await? {
                    Some(Chunk::Data(data)) => return Ok(Some(Bytes::copy_from_slice(data))),
                    Some(Chunk::Trailers(_)) => {}
                    None => return Ok(None),
                }
            },
            Content::Pieces(pieces) => {
                let piece = usize::try_from(self.at).ok().and_then(|at| pieces.get(at));
                self.at += 1;
                match piece {
                    None => Ok(None),
                    Some(Piece::Bytes(bytes)) => Ok(Some(bytes.clone())),
                    Some(Piece::Stored(entry, from, to)) => read(entry, *from, to - from).await.map(Some),
                }
            }
            // No reply to these clients is coded by us (`Reply::unnegotiated`).
            Content::None | Content::Tunnel(_) | Content::Coded(_) => Ok(None),
        }
    }

    async fn stored(&mut self) -> Result<Option<Bytes>, String> {
        let (Content::Stored(from, to), Source::Entry(entry)) = (&self.reply.content, &self.reply.fields)
        else {
            return Ok(None);
        };
        let left = (to - from).saturating_sub(self.at).min(BLOCK);
        if left == 0 {
            return Ok(None);
        }
        let position = from + self.at;
        self.at += left;
        read(entry, position, left).await.map(Some)
    }

    async fn filling(&mut self) -> Result<Option<Bytes>, String> {
        let Content::Fill(reader) = &mut self.reply.content else { return Ok(None) };
        if self.file.is_none() {
            match reader.next().await {
                fill::Piece::Bytes(bytes) => {
                    reader.sent();
                    return Ok(Some(bytes));
                }
                fill::Piece::Stored(entry, from, len) => {
                    reader.sent();
                    return read(&entry, from, len).await.map(Some);
                }
                fill::Piece::File(extent, from, len) => self.file = Some((extent, from, len)),
                fill::Piece::End(Ending::Complete) => return Ok(None),
                fill::Piece::End(Ending::Truncated) => {
                    return Err("the origin stopped in the middle".to_owned());
                }
            }
        }
        let Some((extent, from, len)) = &mut self.file else { return Ok(None) };
        let bytes = block(extent, *from, (*len).min(BLOCK))?;
        (*from, *len) = (*from + bytes.len() as u64, *len - bytes.len() as u64);
        if *len == 0 {
            self.file = None;
            reader.sent();
        }
        Ok(Some(bytes))
    }
}

async fn read(entry: &Entry, from: u64, len: u64) -> Result<Bytes, String> {
    let len = usize::try_from(len).map_err(|error| error.to_string())?;
    entry.body().load(from, len).await.map_err(|error| error.to_string())
}

fn block(extent: &Extent, from: u64, len: u64) -> Result<Bytes, String> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|error| error.to_string())?];
    extent.read(from, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes.into())
}

/// Puts a page of at most `most` bytes together, its coding undone.
///
/// # Errors
/// What stands in the way.
pub(super) async fn collect(
    reply: &mut Reply,
    coding: Option<decode::Coding>,
    most: u64,
    budget: &Budget,
) -> Result<Collected, Obstacle> {
    let mut share = budget.share();
    let mut whole = BytesMut::new();
    let mut pieces = Pieces::of(reply);
    while let Some(piece) = pieces.next().await.map_err(Obstacle::Broken)? {
        if (whole.len() + piece.len()) as u64 > most {
            return Err(Obstacle::TooLong(most));
        }
        if !share.grow(piece.len()) {
            return Err(Obstacle::Crowded);
        }
        whole.extend_from_slice(&piece);
    }
    let coded = Collected { bytes: whole.freeze(), share };
    let Some(coding) = coding else { return Ok(coded) };
    // It takes as long as it takes, and a worker has other clients.
    let work = tokio::task::spawn_blocking(move || decode::decode(coding, coded, most));
    work.await.unwrap_or_else(|error| Err(Obstacle::Broken(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_what_all_hold_together() {
        let budget = Budget::default();
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.grow(MOST / 2) && other.grow(MOST / 2 - UNIT));
        assert!(other.grow(UNIT) && !one.grow(1));
        drop(other);
        let mut third = budget.share();
        assert!(third.grow(MOST / 2) && !third.grow(1));
    }
}
