//! The destination of a reply's content: a connection, or a stream of one.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use http::HeaderMap;
use larder_store::lines::write_line;

use crate::http::chunked::may_trail;
use crate::net::content::ContentFile;
use crate::net::io::WriteHalf;

/// The most bytes of pipelined replies that are gathered in the buffer for one write.
pub(crate) const GATHER: usize = 64 << 10;

/// The bytes of a file that are read at once.
const BLOCK: u64 = 64 << 10;

/// The reason why a reply was not sent completely. The connection has to be closed in either case.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The client has left, or does not read.
    #[error("client: {0}")]
    Client(#[from] io::Error),
    /// The content ended early; the client must not take it for complete.
    #[error("content truncated: {0}")]
    Truncated(String),
}

/// Takes the content of one reply, after its head.
pub(crate) trait Sink: Send {
    /// Sends `bytes`, or keeps them until the next flush. Fails if the client has left, or does not read.
    fn bytes(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), SendError>> + Send;

    /// Sends the bytes of `content` in `range`. By default, they are read and sent as [`bytes`](Self::bytes).
    fn file(
        &mut self,
        content: ContentFile<'_>,
        range: Range<u64>,
    ) -> impl Future<Output = Result<(), SendError>> + Send {
        let (file, Range { start: mut at, end }) = content.in_file(range);
        async move {
            while at < end {
                let mut block = vec![0; (end - at).min(BLOCK) as usize];
                file.read_exact_at(&mut block, at).map_err(cut_short)?;
                self.bytes(&block).await?;
                at += block.len() as u64;
            }
            Ok(())
        }
    }

    /// Sends the bytes that were kept.
    fn flush(&mut self) -> impl Future<Output = Result<(), SendError>> + Send;

    /// Returns the most bytes from a disk that are loaded at once, before the next check whether bytes are in the page
    /// cache.
    fn stretch(&self) -> u64 {
        1 << 20
    }

    /// Ends the content. The bytes for that may be kept until the next flush.
    fn end(&mut self, trailers: &HeaderMap) -> impl Future<Output = Result<(), SendError>> + Send;
}

/// A connection of HTTP/1.1, to which the content is written directly.
pub(crate) struct Direct<'w> {
    writing: &'w mut WriteHalf,
    chunked: bool,
}

impl<'w> Direct<'w> {
    /// Creates a sink for content that is `chunked`, or delimited in another way.
    pub(crate) fn new(writing: &'w mut WriteHalf, chunked: bool) -> Self {
        Self { writing, chunked }
    }

    fn open_chunk(&mut self, len: u64) {
        if self.chunked {
            self.writing.out.extend_from_slice(format!("{len:x}\r\n").as_bytes());
        }
    }

    fn close_chunk(&mut self) {
        if self.chunked {
            self.writing.out.extend_from_slice(b"\r\n");
        }
    }
}

impl Sink for Direct<'_> {
    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.open_chunk(bytes.len() as u64);
        if self.writing.out.len() + bytes.len() <= GATHER {
            self.writing.out.extend_from_slice(bytes);
        } else {
            self.writing.flush_with_more().await?;
            self.writing.write(bytes).await?;
        }
        self.close_chunk();
        Ok(())
    }

    async fn file(&mut self, content: ContentFile<'_>, range: Range<u64>) -> Result<(), SendError> {
        self.open_chunk(range.end - range.start);
        self.writing.flush_with_more().await?;
        self.writing.send_file(content, range).await.map_err(cut_short)?;
        self.close_chunk();
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        Ok(self.writing.flush().await?)
    }

    async fn end(&mut self, trailers: &HeaderMap) -> Result<(), SendError> {
        if self.chunked {
            self.writing.out.extend_from_slice(b"0\r\n");
            for (name, value) in trailers.iter().filter(|(name, _)| may_trail(name)) {
                write_line(&mut self.writing.out, name.as_str().as_bytes(), value.as_bytes());
            }
            self.writing.out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }
}

/// Converts the error of sending a file. A file that ends early is not the client's fault.
pub(crate) fn cut_short(error: io::Error) -> SendError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => SendError::Truncated("the file was cut short".to_owned()),
        _ => SendError::Client(error),
    }
}
