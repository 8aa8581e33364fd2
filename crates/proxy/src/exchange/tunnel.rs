//! Carries bytes in both directions between a client and the other end of its tunnel.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::base::clock;
use crate::exchange::reply::{Tunnel, Uninterceptable};
use crate::net::linger::LINGER;
use crate::net::stream::Stream;
use crate::origin::UpgradedConnection;

/// The signal to the other end of a `CONNECT` tunnel when the client's end fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// A close, after all bytes that the client has sent.
    Close,
    /// A reset (RFC 9113 section 8.5).
    Reset,
}

/// Carries bytes between `client` and the other end until both sides are done. A tunnel without traffic for `idle` is
/// ended. Returns the number of bytes sent to the client, and the result.
pub(crate) async fn carry_for<C>(
    client: C,
    tunnel: Tunnel,
    idle: Duration,
    abort: Abort,
) -> (u64, io::Result<()>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let (moved, sent, shut) = (AtomicU64::new(clock::millis()), AtomicU64::new(0), Notify::new());
    let client = WatchedStream { stream: client, moved: &moved, sent: &sent, shut: &shut };
    let carried = async {
        match tunnel {
            Tunnel::Intercepted(mut near, uninterceptable) => tokio::select! {
                carried = carry(client, &mut near) => carried,
                () = closed(&shut, &uninterceptable) => Ok(()),
            },
            Tunnel::Tcp(mut origin) => {
                let carried = carry(client, &mut origin).await;
                if carried.is_err() && abort == Abort::Reset {
                    let _ = origin.set_zero_linger();
                }
                carried
            }
            Tunnel::Upgraded(upgraded) => carry_upgraded(client, upgraded).await,
        }
    };
    let carried = tokio::select! {
        carried = carried => carried,
        () = silence(&moved, idle) => Err(io::ErrorKind::TimedOut.into()),
    };
    if let Err(error) = &carried {
        tracing::debug!("tunnel ended: {error}");
    }
    (sent.load(Ordering::Relaxed), carried)
}

async fn carry_upgraded<C>(mut client: WatchedStream<'_, C>, origin: UpgradedConnection) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    client.write_all(&origin.early).await?;
    client.flush().await?;
    match origin.stream {
        Stream::Plain(stream) => carry(client, stream).await,
        Stream::Tls(stream) => carry(client, stream).await,
    }
}

async fn carry<C, O>(mut client: WatchedStream<'_, C>, mut origin: O) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    O: AsyncRead + AsyncWrite + Unpin,
{
    copy_bidirectional(&mut client, &mut origin).await.map(drop)
}

/// Waits until a client whose tunnel this process answers has had time to close its end, after this process has closed its
/// own. As with any server, nobody reads what the client sends then.
async fn closed(shut: &Notify, uninterceptable: &Uninterceptable) {
    shut.notified().await;
    sleep(LINGER).await;
    if uninterceptable.get().is_some() {
        std::future::pending().await
    }
}

/// Waits until `moved` is `idle` in the past.
async fn silence(moved: &AtomicU64, idle: Duration) {
    loop {
        let silent = clock::millis().saturating_sub(moved.load(Ordering::Relaxed));
        match idle.saturating_sub(Duration::from_millis(silent)) {
            Duration::ZERO => return,
            left => sleep(left).await,
        }
    }
}

/// A client's end of a tunnel, which all bytes of both directions pass.
struct WatchedStream<'m, C> {
    stream: C,
    /// The time of the last traffic, in `clock::millis`.
    moved: &'m AtomicU64,
    /// Bytes sent to the client.
    sent: &'m AtomicU64,
    /// Told when no more bytes follow for the client.
    shut: &'m Notify,
}

impl<C> WatchedStream<'_, C> {
    fn touch(&self) {
        self.moved.store(clock::millis(), Ordering::Relaxed);
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for WatchedStream<'_, C> {
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

impl<C: AsyncWrite + Unpin> AsyncWrite for WatchedStream<'_, C> {
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
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        if polled.is_ready() {
            self.shut.notify_one();
        }
        polled
    }
}
