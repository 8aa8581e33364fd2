//! Sends replies: writes content to any [`Sink`], and heads of HTTP/1.1.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::HeaderMap;
use larder_store::fill::{self, ContentEnd, Reader};
use larder_store::{Body, Record, Storage};

use crate::exchange::link::Interim;
use crate::exchange::paced::PacedSink;
use crate::exchange::pieces::{Piece, PieceQueue, QueuedPiece};
use crate::exchange::reply::{self, Banner, Content, Framing, Reply, Source};
use crate::exchange::sink::{Direct, GATHER, SendError, Sink};
use crate::http::fields::FieldWriter;
use crate::net::content::ContentFile;
use crate::net::io::WriteHalf;
use crate::origin::{Chunk, Download};

/// Writes `reply` to the buffer, with its content if that is small and in memory. Returns false if only the head was
/// written, and the content has to be sent.
pub(crate) fn gather(out: &mut Vec<u8>, reply: &Reply, framing: &Framing, banner: &Banner) -> bool {
    reply.write_head(out, framing, banner);
    if framing.head_only || reply.is_bodiless() {
        return true;
    }
    let Some(content) = at_hand(reply) else { return false };
    let small = content.is_empty() || out.len() + content.len() <= GATHER;
    if small {
        out.extend_from_slice(content);
    }
    small
}

/// Returns the whole content of `reply`, if it is in memory as one piece and may be sent at once.
pub(crate) fn at_hand(reply: &Reply) -> Option<&[u8]> {
    if reply.bandwidth.is_some() {
        return None;
    }
    match (&reply.content, &reply.fields) {
        (Content::None, _) => Some(&[]),
        (Content::Bytes(bytes), _) => Some(bytes),
        (Content::Origin(download), _) if reply.length == Some(0) && download.is_over() => Some(&[]),
        (Content::Stored(from, to), Source::Entry(entry)) => match entry.body().place() {
            Storage::Heap(bytes) => bytes.get(*from as usize..*to as usize),
            Storage::File(_) | Storage::Disk(_) | Storage::Slices(_) => None,
        },
        (Content::Coded(coding), Source::Entry(entry)) => match entry.coded()?.form(*coding)?.place() {
            Storage::Heap(bytes) => Some(bytes),
            Storage::File(_) | Storage::Disk(_) | Storage::Slices(_) => None,
        },
        _ => None,
    }
}

/// Returns the memory file with the content of `reply`, and the range to send, if the content is in one and may be sent
/// at once.
pub(crate) fn in_file(reply: &Reply) -> Option<(ContentFile<'_>, Range<u64>)> {
    let (Content::Stored(from, to), Source::Entry(entry), None) =
        (&reply.content, &reply.fields, &reply.bandwidth)
    else {
        return None;
    };
    let Storage::File(extent) = entry.body().place() else { return None };
    Some((ContentFile::Complete(extent), *from..*to))
}

/// Sends `reply`. A small one may stay in the buffer until the next flush.
pub(crate) async fn send(
    writing: &mut WriteHalf,
    reply: &mut Reply,
    framing: &Framing,
    banner: &Banner,
) -> Result<(), SendError> {
    if gather(&mut writing.out, reply, framing, banner) {
        return Ok(());
    }
    let chunked = reply.is_chunked(framing);
    send_content(&mut Direct::new(writing, chunked), reply).await
}

/// Sends an interim response.
pub(crate) async fn send_interim(writing: &mut WriteHalf, interim: &Interim) -> io::Result<()> {
    reply::write_status_line(&mut writing.out, interim.status);
    writing.out.forward(&interim.fields);
    writing.out.extend_from_slice(b"\r\n");
    // Before a reply has begun, a refusal may still be sent instead.
    let sent = writing.sent;
    writing.flush().await?;
    writing.sent = sent;
    Ok(())
}

/// Sends the content of `reply` after its head. Its end may stay in the buffer until the next flush.
pub(crate) async fn send_content(sink: &mut impl Sink, reply: &mut Reply) -> Result<(), SendError> {
    match reply.bandwidth.clone() {
        None => content(sink, reply).await,
        // In a box: replies without a limit have a smaller future.
        Some(schedule) => Box::pin(content(&mut PacedSink::new(sink, &schedule), reply)).await,
    }
}

async fn content(sink: &mut impl Sink, reply: &mut Reply) -> Result<(), SendError> {
    let trailers = match &mut reply.content {
        // Boxed: the states of an encoder would enlarge the future of every request.
        Content::Encoded(content, encoder) => {
            return Box::pin(send_encoded(encoder.before(sink), content)).await;
        }
        // The bytes of a tunnel are no content of this reply.
        Content::Tunnel(_) => return Ok(()),
        content @ (Content::Fill(_) | Content::Origin(_) | Content::Queue(_)) => {
            arriving(sink, content).await?
        }
        _ => complete(sink, reply).await.map(|()| HeaderMap::new())?,
    };
    sink.end(&trailers).await
}

async fn send_encoded(mut sink: impl Sink, content: &mut Content) -> Result<(), SendError> {
    let trailers = arriving(&mut sink, content).await?;
    sink.end(&trailers).await
}

/// Sends content of an origin, without its end. Returns its trailers.
async fn arriving(sink: &mut impl Sink, content: &mut Content) -> Result<HeaderMap, SendError> {
    match content {
        Content::Fill(reader) => filling(sink, reader).await.map(|()| HeaderMap::new()),
        Content::Origin(download) => passing(sink, download).await,
        // Boxed: few replies are made of slices.
        Content::Queue(queue) => Box::pin(queued(sink, queue)).await.map(|()| HeaderMap::new()),
        _ => Ok(HeaderMap::new()),
    }
}

/// Sends content that is complete, without its end.
pub(crate) async fn send_stored(sink: &mut impl Sink, reply: &Reply) -> Result<(), SendError> {
    match &reply.bandwidth {
        None => complete(sink, reply).await,
        Some(schedule) => Box::pin(complete(&mut PacedSink::new(sink, schedule), reply)).await,
    }
}

async fn complete(sink: &mut impl Sink, reply: &Reply) -> Result<(), SendError> {
    match (&reply.content, &reply.fields) {
        (Content::Bytes(bytes), _) => sink.bytes(bytes).await,
        (Content::Stored(from, to), Source::Entry(entry)) => stored(sink, entry.body(), *from, *to).await,
        (Content::Coded(coding), Source::Entry(entry)) => {
            match entry.coded().and_then(|coded| coded.form(*coding)) {
                Some(form) => stored(sink, form, 0, form.len()).await,
                None => Err(SendError::Truncated("the form is not there".to_owned())),
            }
        }
        (Content::Pieces(pieces), _) => all(sink, pieces).await,
        _ => Ok(()),
    }
}

async fn stored(sink: &mut impl Sink, body: &Body, from: u64, to: u64) -> Result<(), SendError> {
    match body.place() {
        Storage::Heap(bytes) => sink.bytes(&bytes[from as usize..to as usize]).await,
        Storage::File(extent) => sink.file(ContentFile::Complete(extent), from..to).await,
        Storage::Disk(record) => recorded(sink, record, from, to).await,
        Storage::Slices(_) => Err(SendError::Truncated("its slices are in other entries".to_owned())),
    }
}

/// Sends bytes from a disk. Bytes that are verified and in the page cache are sent from the file; others are read and
/// checked on a thread for blocking work.
async fn recorded(sink: &mut impl Sink, record: &Arc<Record>, from: u64, to: u64) -> Result<(), SendError> {
    let mut at = from;
    while at < to {
        let end = to.min(at + sink.stretch());
        match record.at_hand(at..end) {
            Some((file, offset)) => sink.file(ContentFile::Other(file), offset..offset + (end - at)).await?,
            None => {
                let bytes = record.load(at..end).await;
                let bytes = bytes.map_err(|error| SendError::Truncated(error.to_string()))?;
                sink.bytes(&bytes).await?;
            }
        }
        at = end;
    }
    Ok(())
}

async fn all(sink: &mut impl Sink, pieces: &[Piece]) -> Result<(), SendError> {
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => sink.bytes(bytes).await?,
            Piece::Stored(entry, from, to) => stored(sink, entry.body(), *from, *to).await?,
        }
    }
    Ok(())
}

async fn filling(sink: &mut impl Sink, reader: &mut Reader) -> Result<(), SendError> {
    loop {
        // Content that has arrived is sent with the head, without a wait for later content.
        let piece = {
            let mut next = pin!(reader.next());
            match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
                Poll::Ready(piece) => piece,
                Poll::Pending => {
                    sink.flush().await?;
                    next.await
                }
            }
        };
        match piece {
            fill::Piece::Bytes(bytes) => sink.bytes(&bytes).await?,
            fill::Piece::File(extent, from, len) => {
                let (file, start) = extent.at(from);
                sink.file(ContentFile::Other(file), start..start + len).await?;
            }
            fill::Piece::Stored(entry, from, len) => stored(sink, entry.body(), from, from + len).await?,
            fill::Piece::End(ContentEnd::Complete) => return Ok(()),
            fill::Piece::End(ContentEnd::Truncated) => {
                return Err(SendError::Truncated("the origin stopped in the middle".to_owned()));
            }
        }
        reader.sent();
    }
}

/// Sends pieces as they are found or arrive.
async fn queued(sink: &mut impl Sink, queue: &mut PieceQueue) -> Result<(), SendError> {
    loop {
        let next = match queue.ready() {
            Some(next) => next,
            None => {
                sink.flush().await?;
                queue.next().await
            }
        };
        match next {
            Some(QueuedPiece::Ready(piece)) => all(sink, &[piece]).await?,
            Some(QueuedPiece::Arriving(mut reader, _)) => filling(sink, &mut reader).await?,
            None if queue.left() == 0 => return Ok(()),
            None => return Err(SendError::Truncated("a slice could not be fetched".to_owned())),
        }
    }
}

/// Forwards the content of an origin, and returns its trailers.
async fn passing(sink: &mut impl Sink, download: &mut Download) -> Result<HeaderMap, SendError> {
    let mut trailers = HeaderMap::new();
    loop {
        // Content that arrived with the head is sent with it, without a wait for later content.
        let next = match download.ready() {
            Some(next) => next,
            None => {
                sink.flush().await?;
                download.next().await
            }
        };
        match next.map_err(SendError::Truncated)? {
            Some(Chunk::Data(data)) => sink.bytes(data).await?,
            Some(Chunk::Trailers(fields)) => trailers = fields,
            None => return Ok(trailers),
        }
    }
}
