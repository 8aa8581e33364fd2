//! Turns a reply into bytes on a client's connection.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::HeaderMap;
use larder_semantics::storable;
use larder_store::fill::{self, Ending, Reader};
use larder_store::lines::write_line;
use larder_store::{Body, Entry, Extent, Long, Record};

use crate::exchange::reply::{self, Banner, Content, Framing, Piece, Reply, Source};
use crate::exchange::request::Interim;
use crate::http::chunked::may_trail;
use crate::net::io::Writing;
use crate::origin::{Chunk, Download};

/// Replies that wait in the buffer for each other (pipelining) up to this many bytes.
pub(crate) const GATHER: usize = 64 << 10;

/// Bytes of a disk's that are sent before it is asked again whether the next are at hand.
const STRETCH: u64 = 1 << 20;

/// Why a reply was not sent whole. Either way the connection has to go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The client went away, or takes nothing.
    #[error("client: {0}")]
    Client(io::Error),
    /// The content ended early; the client must not take it for whole.
    #[error("content truncated: {0}")]
    Truncated(String),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::Client(error)
    }
}

/// Writes `reply` into the buffer: all of it if it is small and at hand. False when only the head
/// was written, and the content is still to be sent.
pub(crate) fn gather(out: &mut Vec<u8>, reply: &Reply, framing: &Framing, banner: &Banner) -> bool {
    reply.write_head(out, framing, banner);
    if framing.head_only || reply.is_bodiless() {
        return true;
    }
    let content = match (&reply.content, &reply.fields) {
        (Content::None, _) => return true,
        (Content::Bytes(bytes), _) => &bytes[..],
        (Content::Stored(from, to), Source::Entry(entry)) => match entry.body() {
            Body::Heap(bytes) => &bytes[*from as usize..*to as usize],
            Body::Long(_) => return false,
        },
        _ => return false,
    };
    let small = out.len() + content.len() <= GATHER;
    if small {
        out.extend_from_slice(content);
    }
    small
}

/// Sends `reply`. Small ones may stay in the buffer until the next flush.
pub(crate) async fn send(
    writing: &mut Writing,
    reply: &mut Reply,
    framing: &Framing,
    banner: &Banner,
) -> Result<(), SendError> {
    if gather(&mut writing.out, reply, framing, banner) {
        return Ok(());
    }
    send_content(writing, reply, reply.is_chunked(framing)).await
}

/// Sends an interim response.
///
/// # Errors
/// As [`Writing::flush`].
pub(crate) async fn send_interim(writing: &mut Writing, interim: &Interim) -> io::Result<()> {
    reply::write_status_line(&mut writing.out, interim.status);
    let concerns_hop = storable::is_hop_by_hop(&interim.fields);
    // A message without content has no length (RFC 9110 section 8.6).
    let is_length = |name: &[u8]| name.eq_ignore_ascii_case(b"content-length");
    interim.fields.write(&mut writing.out, |name| !is_length(name) && !concerns_hop(name));
    writing.out.extend_from_slice(b"\r\n");
    // As long as no reply has begun, a refusal may take its place.
    let sent = writing.sent;
    writing.flush().await?;
    writing.sent = sent;
    Ok(())
}

/// Sends the content of `reply` behind what is in the buffer. The end of it may stay there.
pub(crate) async fn send_content(
    writing: &mut Writing,
    reply: &mut Reply,
    chunked: bool,
) -> Result<(), SendError> {
    match &mut reply.content {
        Content::Fill(reader) => filling(writing, reader, chunked).await,
        Content::Origin(download) => passing(writing, download, chunked).await,
        _ => send_stored(writing, reply).await,
    }
}

/// Sends the content of a reply that is all there.
pub(crate) async fn send_stored(writing: &mut Writing, reply: &mut Reply) -> Result<(), SendError> {
    match (&reply.content, &reply.fields) {
        (Content::Bytes(bytes), _) => bytes_out(writing, bytes).await,
        (Content::Stored(from, to), Source::Entry(entry)) => stored(writing, entry, *from, *to).await,
        (Content::Pieces(pieces), _) => all(writing, pieces).await,
        _ => Ok(()),
    }
}

async fn bytes_out(writing: &mut Writing, bytes: &[u8]) -> Result<(), SendError> {
    if writing.out.len() + bytes.len() <= GATHER {
        writing.out.extend_from_slice(bytes);
        return Ok(());
    }
    writing.flush_with_more().await?;
    Ok(writing.write(bytes).await?)
}

async fn stored(writing: &mut Writing, entry: &Entry, from: u64, to: u64) -> Result<(), SendError> {
    match entry.body() {
        Body::Heap(bytes) => bytes_out(writing, &bytes[from as usize..to as usize]).await,
        Body::Long(long) => match &**long {
            Long::File(extent) => file(writing, extent, from, to - from).await,
            Long::Disk(record) => recorded(writing, record, from, to).await,
        },
    }
}

/// Sends bytes from a disk: by `sendfile` where they are known to be right and at hand, else read and checked
/// on a thread that may wait.
async fn recorded(writing: &mut Writing, record: &Arc<Record>, from: u64, to: u64) -> Result<(), SendError> {
    let mut at = from;
    while at < to {
        let end = to.min(at + STRETCH);
        match record.at_hand(at..end) {
            Some((file, offset)) => {
                writing.flush_with_more().await?;
                writing.send_file(file, offset, end - at).await.map_err(cut_short)?;
            }
            None => {
                let bytes = record.load(at..end).await;
                let bytes = bytes.map_err(|error| SendError::Truncated(error.to_string()))?;
                bytes_out(writing, &bytes).await?;
            }
        }
        at = end;
    }
    Ok(())
}

/// A file that ends early is no fault of the client's.
fn cut_short(error: io::Error) -> SendError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => SendError::Truncated("the file was cut short".to_owned()),
        _ => SendError::Client(error),
    }
}

async fn file(writing: &mut Writing, extent: &Extent, from: u64, len: u64) -> Result<(), SendError> {
    writing.flush_with_more().await?;
    let (file, offset) = extent.at(from);
    Ok(writing.send_file(file, offset, len).await?)
}

async fn all(writing: &mut Writing, pieces: &[Piece]) -> Result<(), SendError> {
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => bytes_out(writing, bytes).await?,
            Piece::Stored(entry, from, to) => stored(writing, entry, *from, *to).await?,
        }
    }
    Ok(())
}

async fn filling(writing: &mut Writing, reader: &mut Reader, chunked: bool) -> Result<(), SendError> {
    loop {
        // What is there already leaves with the head; nothing waits for what has yet to arrive.
        let piece = {
            let mut next = pin!(reader.next());
            match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
                Poll::Ready(piece) => piece,
                Poll::Pending => {
                    writing.flush().await?;
                    next.await
                }
            }
        };
        match piece {
            fill::Piece::Bytes(bytes) => {
                open_chunk(writing, chunked, bytes.len() as u64);
                writing.out.extend_from_slice(&bytes);
            }
            fill::Piece::File(extent, from, len) => {
                open_chunk(writing, chunked, len);
                file(writing, &extent, from, len).await?;
            }
            fill::Piece::Stored(entry, from, len) => {
                open_chunk(writing, chunked, len);
                stored(writing, &entry, from, from + len).await?;
            }
            fill::Piece::End(Ending::Complete) => {
                close_chunks(writing, chunked, &HeaderMap::new());
                return Ok(());
            }
            fill::Piece::End(Ending::Truncated) => {
                return Err(SendError::Truncated("the origin stopped in the middle".to_owned()));
            }
        }
        close_chunk(writing, chunked);
        writing.flush().await?;
        reader.sent();
    }
}

async fn passing(writing: &mut Writing, download: &mut Download, chunked: bool) -> Result<(), SendError> {
    let mut trailers = HeaderMap::new();
    loop {
        // What arrived with the head leaves with it; nothing waits for what has yet to arrive.
        let next = match download.ready() {
            Some(next) => next,
            None => {
                writing.flush().await?;
                download.next().await
            }
        };
        match next.map_err(SendError::Truncated)? {
            Some(Chunk::Data(data)) => {
                open_chunk(writing, chunked, data.len() as u64);
                bytes_out(writing, data).await?;
                close_chunk(writing, chunked);
            }
            Some(Chunk::Trailers(fields)) => trailers = fields,
            None => {
                close_chunks(writing, chunked, &trailers);
                return Ok(());
            }
        }
    }
}

fn open_chunk(writing: &mut Writing, chunked: bool, len: u64) {
    if chunked {
        writing.out.extend_from_slice(format!("{len:x}\r\n").as_bytes());
    }
}

fn close_chunk(writing: &mut Writing, chunked: bool) {
    if chunked {
        writing.out.extend_from_slice(b"\r\n");
    }
}

fn close_chunks(writing: &mut Writing, chunked: bool, trailers: &HeaderMap) {
    if chunked {
        writing.out.extend_from_slice(b"0\r\n");
        for (name, value) in trailers.iter().filter(|(name, _)| may_trail(name)) {
            write_line(&mut writing.out, name.as_str().as_bytes(), value.as_bytes());
        }
        writing.out.extend_from_slice(b"\r\n");
    }
}
