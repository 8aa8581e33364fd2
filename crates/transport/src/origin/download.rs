//! The content of an origin's response as it arrives.

use std::any::Any;
use std::future::poll_fn;
use std::time::Duration;

use http::HeaderMap;

use super::exchange::Piece;
use super::failure::Failure;
use super::inspection::Inspection;
use super::load::OriginLoad;
use super::source::Source;
use crate::base::in_place;
use crate::counts::accounts::Meter;
use crate::http::response::Framing;
use crate::net::concurrency::Permit;
use crate::net::stream::Stream;

/// Unwanted content of up to this many bytes is read to its end, for at most `PATIENCE`.
const WORTH_READING: u64 = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(1);

/// The content of an origin's response as it arrives. It is boxed from the start, since it is large and is moved often.
#[derive(Debug)]
pub struct Download {
    /// `None` once all content has been read.
    source: Option<Source>,
    /// Length of the piece that the caller holds, at the start of the source's buffer.
    lent: usize,
    length: Option<u64>,
    limit: Duration,
    permit: Option<Permit>,
    in_progress: Option<OriginLoad>,
    meter: Option<Meter>,
    /// Bytes that were read ahead; they are returned first.
    early: Option<Vec<u8>>,
    handed: Vec<u8>,
    /// Dropped once the last of the content is returned.
    guard: Option<Box<dyn Any + Send + Sync>>,
    inspection: Option<Box<Inspection>>,
    /// Whether the inspection has refused the content.
    is_refused: bool,
}

/// A piece of a response's content.
#[derive(Debug)]
pub enum Chunk<'d> {
    /// Content bytes.
    Data(&'d [u8]),
    /// Trailers.
    Trailers(HeaderMap),
}

/// A connection that has switched to another protocol.
#[derive(Debug)]
pub struct UpgradedConnection {
    /// The connection.
    pub stream: Stream,
    /// Bytes that the origin has already sent in that protocol.
    pub early: Vec<u8>,
}

impl Download {
    /// Creates a download from `source` with the given `framing`. Each piece may take `limit`.
    pub(super) fn new(mut source: Source, framing: Framing, limit: Duration) -> Box<Self> {
        source.within(limit);
        let length = match framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::Close => None,
        };
        in_place::boxed(|| Self {
            source: Some(source),
            lent: 0,
            length,
            limit,
            permit: None,
            in_progress: None,
            meter: None,
            early: None,
            handed: Vec::new(),
            guard: None,
            inspection: None,
            is_refused: false,
        })
    }

    /// Examines the content as it arrives. Trailers are dropped then.
    #[must_use]
    pub fn inspected(mut self: Box<Self>, inspection: Inspection) -> Box<Self> {
        self.inspection = Some(inspection).filter(|inspection| !inspection.is_idle()).map(Box::new);
        self
    }

    /// Returns the end of a download whose content is replaced by `content`.
    #[must_use]
    pub fn replaced(mut self: Box<Self>, content: Vec<u8>) -> Box<Self> {
        self.replace(content);
        self
    }

    /// Replaces the content. A connection with content that was not read is closed.
    pub(super) fn replace(&mut self, content: Vec<u8>) {
        drop(self.source.take());
        self.end();
        (self.length, self.inspection, self.lent) = (Some(content.len() as u64), None, 0);
        self.early = Some(content);
    }

    /// Adds content that precedes this to its examination.
    pub fn precede(&mut self, piece: &[u8]) {
        self.inspection.iter_mut().for_each(|inspection| inspection.precede(piece));
    }

    /// Whether the content was refused when it was complete: it is not what it has to be.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Holds `permit`, if there is one, until the content ends.
    #[must_use]
    pub fn holding(mut self: Box<Self>, permit: Option<Permit>) -> Box<Self> {
        self.permit = permit;
        self
    }

    /// Holds `in_progress` until the content ends.
    #[must_use]
    pub fn in_progress(mut self: Box<Self>, in_progress: Option<OriginLoad>) -> Box<Self> {
        self.in_progress = in_progress.filter(|_| self.source.is_some());
        self
    }

    /// Counts arriving content with `meter`.
    #[must_use]
    pub fn counted(mut self: Box<Self>, meter: Meter) -> Box<Self> {
        self.meter = Some(meter);
        self
    }

    /// Puts `early`, which was already read from the download, back at its beginning.
    #[must_use]
    pub fn behind(mut self: Box<Self>, early: Vec<u8>) -> Box<Self> {
        self.early = Some(early);
        self
    }

    /// Keeps `guard` until the last of the content is returned, or the download is dropped.
    #[must_use]
    pub fn guarded(mut self: Box<Self>, guard: impl Any + Send + Sync) -> Box<Self> {
        self.guard = self.source.is_some().then(|| Box::new(guard) as _);
        self
    }

    /// Returns the next piece; `None` at the end.
    ///
    /// # Errors
    /// The reason why the content is truncated, for the log.
    pub async fn next(&mut self) -> Result<Option<Chunk<'_>>, String> {
        if let Some(early) = self.early.take() {
            self.handed = early;
            return Ok(Some(Chunk::Data(&self.handed)));
        }
        if self.inspection.is_some() {
            return self.next_inspected().await;
        }
        let Some(source) = self.source.as_mut() else { return Ok(None) };
        source.consume(std::mem::take(&mut self.lent));
        source.within(self.limit);
        let piece = poll_fn(|cx| source.poll_content(cx)).await;
        self.chunk(piece)
    }

    /// Returns the content that is left, of at most `most` bytes. The error is the reason why it is not whole, in one
    /// line.
    pub async fn whole(&mut self, most: usize) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        while let Some(chunk) = self.next().await? {
            let Chunk::Data(data) = chunk else { continue };
            if content.len() + data.len() > most {
                return Err(format!("it is longer than {most} bytes"));
            }
            content.extend_from_slice(data);
        }
        Ok(content)
    }

    /// [`next`](Self::next) for content that is examined.
    async fn next_inspected(&mut self) -> Result<Option<Chunk<'_>>, String> {
        while let Some(source) = self.source.as_mut() {
            source.consume(std::mem::take(&mut self.lent));
            source.within(self.limit);
            let piece = poll_fn(|cx| source.poll_content(cx)).await;
            if !matches!(self.chunk(piece)?, Some(Chunk::Data(_))) {
                continue;
            }
            let (Some(source), Some(inspection)) = (&self.source, &mut self.inspection) else { break };
            if inspection.add(source.bytes(self.lent)) {
                return Ok(self.inspection.as_ref().map(|inspection| Chunk::Data(inspection.passed())));
            }
        }
        let Some(inspection) = self.inspection.as_mut().filter(|inspection| !inspection.is_over()) else {
            return Ok(None);
        };
        if let Err(refused) = inspection.end().await {
            self.is_refused = true;
            return Err(refused);
        }
        let last = self.inspection.as_ref().map(|inspection| inspection.passed());
        Ok(last.filter(|last| !last.is_empty()).map(Chunk::Data))
    }

    /// Returns the next piece, if it has arrived already.
    pub fn ready(&mut self) -> Option<Result<Option<Chunk<'_>>, String>> {
        if let Some(early) = self.early.take() {
            self.handed = early;
            return Some(Ok(Some(Chunk::Data(&self.handed))));
        }
        if self.inspection.is_some() {
            return None;
        }
        let Some(source) = self.source.as_mut() else { return Some(Ok(None)) };
        source.consume(std::mem::take(&mut self.lent));
        let piece = source.next_piece().transpose()?;
        Some(self.chunk(piece))
    }

    fn chunk(&mut self, piece: Result<Piece, Failure>) -> Result<Option<Chunk<'_>>, String> {
        let piece = piece.map_err(|failure| match failure {
            Failure::TimedOut => format!("no more data within {:?}", self.limit),
            failure => failure.to_string(),
        })?;
        match piece {
            Piece::Data(length) => {
                self.lent = length;
                if self.source.as_ref().is_some_and(Source::is_last) {
                    self.guard = None;
                }
                self.meter.iter().for_each(|meter| meter.count(length));
                Ok(self.source.as_ref().map(|source| Chunk::Data(source.bytes(length))))
            }
            Piece::Trailers(trailers) => Ok(Some(Chunk::Trailers(trailers))),
            Piece::End => {
                self.end();
                Ok(None)
            }
        }
    }

    /// Ends the download of content without a reader. Short content is read to its end in the background, since a new
    /// connection would cost more.
    pub fn spare(mut self: Box<Self>) {
        if self.is_here() && self.inspection.is_none() {
            while let Some(Ok(Some(_))) = self.ready() {}
            return;
        }
        if self.length.is_some_and(|length| length > WORTH_READING) {
            return;
        }
        tokio::spawn(tokio::time::timeout(PATIENCE, async move {
            let mut left = WORTH_READING;
            while let Ok(Some(chunk)) = self.next().await {
                let length = if let Chunk::Data(data) = chunk { data.len() as u64 } else { 0 };
                let Some(rest) = left.checked_sub(length) else { return };
                left = rest;
            }
        }));
    }

    /// Whether all remaining content is in a buffer.
    pub fn is_here(&self) -> bool {
        self.source.as_ref().is_none_or(Source::is_here)
    }

    /// Whether no content is left.
    pub fn is_over(&self) -> bool {
        self.source.is_none() && self.early.is_none() && self.inspection.is_none()
    }

    /// Ends the download if its content has no bytes.
    pub(super) fn end_if_empty(&mut self) {
        if self.length == Some(0) {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(source) = self.source.take() {
            source.finish();
        }
        (self.permit, self.in_progress, self.guard) = (None, None, None);
    }

    /// Returns the length in the origin's `Content-Length`.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns the connection after a response that switches protocols. `None` if the download has ended.
    pub fn into_upgraded(self: Box<Self>) -> Option<UpgradedConnection> {
        let (stream, early) = self.source?.into_parts()?;
        Some(UpgradedConnection { stream, early })
    }
}
