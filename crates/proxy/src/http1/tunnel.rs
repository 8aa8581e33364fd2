//! Connections that leave HTTP/1: `CONNECT` tunnels and accepted upgrades.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::exchange::reply::{Reply, Tunnel};
use crate::exchange::tunnel::{Abort, carry_for};
use crate::flow::drain::ConnectionPermit;
use crate::net::io::{ReadHalf, WriteHalf};
use crate::observe::memo::RequestRecord;

/// The reply that opened a tunnel, and its length in bytes. The request is recorded when the tunnel ends, with all its
/// bytes.
pub(super) struct TunnelStart {
    pub(super) reply: Box<Reply>,
    pub(super) bytes: u64,
    pub(super) memo: Option<Box<RequestRecord>>,
    /// Counts the other end as a connection.
    pub(super) permit: Option<ConnectionPermit>,
    /// The longest time without traffic.
    pub(super) limit: Duration,
}

/// Sends the rest of the buffer to the client, then carries bytes between its connection and the other end. A tunnel
/// without traffic for `idle` is ended. Returns the number of bytes sent to the client.
pub(super) async fn run(reading: ReadHalf, mut writing: WriteHalf, tunnel: Tunnel, idle: Duration) -> u64 {
    if writing.flush().await.is_err() {
        return 0;
    }
    carry_for(ClientEnd { reading, writing }, tunnel, idle, Abort::Close).await.0
}

/// The client's end of a tunnel.
struct ClientEnd {
    reading: ReadHalf,
    writing: WriteHalf,
}

impl AsyncRead for ClientEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reading.input.is_empty() {
            let received = self.reading.poll_receive(cx);
            if received.is_pending() {
                self.reading.input.release_buffers();
            }
            if ready!(received)? == 0 {
                // A truncated stream must not reach the other end as complete.
                let ended =
                    if self.reading.is_over() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
                return Poll::Ready(ended);
            }
        }
        let unread = self.reading.input.unread();
        let count = unread.len().min(buffer.remaining());
        buffer.put_slice(&unread[..count]);
        self.reading.input.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientEnd {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writing.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing.poll_send_sealed(cx).map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing.poll_finish(cx)
    }
}
