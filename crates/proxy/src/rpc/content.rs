//! Reads the content of a page that is buffered before it is sent, or sent in chunks.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use larder_store::fill::{self, Ending};
use larder_store::{Entry, Extent};

use super::budget::{Collected, Obstacle};
use super::{Visitor, decode};
use crate::base::low_priority;
use crate::exchange::reply::{Content, Piece, Reply, Source};
use crate::origin::Chunk;

/// Bytes that are read from a file at once.
const BLOCK: u64 = 64 << 10;
/// How long a page waits for its turn to be decoded.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads the content of a response from its beginning.
pub(super) struct Pieces<'r> {
    reply: &'r mut Reply,
    /// The number of bytes read of stored content, or the number of pieces read of content in several pieces.
    at: u64,
    /// The rest of a piece of a fill that is in a file.
    file: Option<(Arc<Extent>, u64, u64)>,
}

impl<'r> Pieces<'r> {
    pub(super) fn of(reply: &'r mut Reply) -> Self {
        Self { reply, at: 0, file: None }
    }

    /// Returns the next bytes, at most the size of a block or a piece; `None` at the end.
    ///
    /// # Errors
    /// The reason why the content is incomplete.
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
            // Responses to these clients are never compressed by this proxy (`Reply::unnegotiated`).
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

/// Buffers a page of at most `most` bytes for `visitor`, and decodes it.
///
/// # Errors
/// The reason why the page cannot be buffered.
pub(super) async fn collect(
    reply: &mut Reply,
    coding: Option<decode::Coding>,
    most: u64,
    visitor: &Visitor,
) -> Result<Collected, Obstacle> {
    let mut share = visitor.doors.budget.share(visitor.client.ip());
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
    let cache = &visitor.worker.cache;
    let permit = cache.decoder.turn(visitor.client.ip(), PATIENCE).await.ok_or(Obstacle::Crowded)?;
    let work = move || {
        // It goes on after its client has left.
        let _permit = permit;
        decode::decode(coding, coded, most)
    };
    let decoded = low_priority::run("decode", work).await;
    decoded.unwrap_or_else(|| Err(Obstacle::Broken("its content was not decoded".to_owned())))
}
