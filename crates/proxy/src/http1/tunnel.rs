//! Connections that leave HTTP: `CONNECT` tunnels and accepted upgrades. Bytes go both ways until
//! both sides are done, or have been silent for too long.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::time::sleep;

use crate::base::clock;
use crate::exchange::reply::Tunnel;
use crate::net::io::{Reading, Writing};
use crate::net::stream::Stream;
use crate::origin::Upgraded;

/// Sends what is left for the client, then carries bytes between its connection and the other end. A tunnel in which
/// nothing moves for `idle` ends. The bytes that the client got.
pub(super) async fn run(reading: Reading, mut writing: Writing, tunnel: Tunnel, idle: Duration) -> u64 {
    if writing.flush().await.is_err() {
        return 0;
    }
    match reading.into_half() {
        Ok((read, input)) => match writing.into_half().reunite(read) {
            Ok(client) => carry_for(client, input.unread(), tunnel, idle).await,
            Err(_) => 0,
        },
        Err(reading) => carry_for(Secured { reading, writing }, &[], tunnel, idle).await,
    }
}

/// Carries bytes between `client` and the other end; `early` are bytes that the client sent already.
async fn carry_for<C>(client: C, early: &[u8], tunnel: Tunnel, idle: Duration) -> u64
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let (moved, sent) = (AtomicU64::new(clock::millis()), AtomicU64::new(0));
    let client = Watched { stream: client, moved: &moved, sent: &sent };
    let carried = async {
        match tunnel {
            Tunnel::Tcp(origin) => carry(client, early, origin).await,
            Tunnel::Upgraded(upgraded) => carry_upgraded(client, early, upgraded).await,
        }
    };
    let carried = tokio::select! {
        carried = carried => carried,
        () = silence(&moved, idle) => Err(io::ErrorKind::TimedOut.into()),
    };
    if let Err(error) = carried {
        tracing::debug!("tunnel ended: {error}");
    }
    sent.load(Ordering::Relaxed)
}

async fn carry_upgraded<C>(mut client: Watched<'_, C>, early: &[u8], origin: Upgraded) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    client.write_all(&origin.early).await?;
    client.flush().await?;
    match origin.stream {
        Stream::Plain(stream) => carry(client, early, stream).await,
        Stream::Tls(stream) => carry(client, early, stream).await,
    }
}

async fn carry<C, O>(mut client: Watched<'_, C>, early: &[u8], mut origin: O) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    O: AsyncRead + AsyncWrite + Unpin,
{
    origin.write_all(early).await?;
    copy_bidirectional(&mut client, &mut origin).await.map(drop)
}

/// Ends when `moved` lies `idle` in the past.
async fn silence(moved: &AtomicU64, idle: Duration) {
    loop {
        let silent = clock::millis().saturating_sub(moved.load(Ordering::Relaxed));
        match idle.saturating_sub(Duration::from_millis(silent)) {
            Duration::ZERO => return,
            left => sleep(left).await,
        }
    }
}

/// A client's end of a tunnel, through which all bytes go, whatever their direction.
struct Watched<'m, C> {
    stream: C,
    /// When bytes last went through, in `clock::millis`.
    moved: &'m AtomicU64,
    /// Bytes that went to the client.
    sent: &'m AtomicU64,
}

impl<C> Watched<'_, C> {
    fn touch(&self) {
        self.moved.store(clock::millis(), Ordering::Relaxed);
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Watched<'_, C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_ready() {
            self.touch();
        }
        polled
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Watched<'_, C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(written) = &polled {
            self.touch();
            self.sent.fetch_add(written.as_ref().map_or(0, |count| *count as u64), Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A client's end of a tunnel under TLS.
struct Secured {
    reading: Reading,
    writing: Writing,
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reading.input.is_empty() && ready!(self.reading.poll_receive(cx))? == 0 {
            // What was cut off must not reach the other end as whole.
            let ended =
                if self.reading.is_over() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            return Poll::Ready(ended);
        }
        let unread = self.reading.input.unread();
        let count = unread.len().min(buffer.remaining());
        buffer.put_slice(&unread[..count]);
        self.reading.input.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writing.poll_seal(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing.poll_send_sealed(cx).map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing.poll_finish(cx)
    }
}
