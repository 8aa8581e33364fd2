//! A connection's bytes: plain, or under TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::io::poll_read_buf;

use crate::http1::io::receive;

/// A connection to an origin.
#[derive(Debug)]
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Under TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads into the spare capacity of `buffer`, which must have some: how many bytes, 0 at the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                match receive(stream, buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    received => return Poll::Ready(received),
                }
            },
            Self::Tls(stream) => poll_read_buf(Pin::new(stream), cx, buffer),
        }
    }

    /// Writes some of `bytes`: how many.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Pushes out what was written.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Whether an idle connection is still good: open, and with nothing to read. Costs no call to the
    /// kernel as long as that has no news.
    pub(super) fn is_quiet(&mut self) -> bool {
        match self {
            Self::Plain(stream) => {
                let tried = stream.try_read(&mut [0]);
                tried.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            }
            Self::Tls(stream) => {
                let mut unasked = Vec::with_capacity(1);
                let mut nobody = Context::from_waker(Waker::noop());
                poll_read_buf(Pin::new(stream), &mut nobody, &mut unasked).is_pending()
            }
        }
    }
}
