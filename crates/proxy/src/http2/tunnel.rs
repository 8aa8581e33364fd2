//! Streams that leave HTTP: `CONNECT` (RFC 9113 section 8.5), and WebSocket by extended `CONNECT` (RFC 8441), which is
//! forwarded to origins as an upgrade of HTTP/1.1.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_http2::Code;
use larder_semantics::status::Why;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::session::Piece;
use super::stream::Stream;
use crate::base::clock;
use crate::exchange::reply::{Content, Reply, Source, Tunnel};
use crate::exchange::request::Request;
use crate::exchange::tunnel::{Abort, carry_for};
use crate::flow::context::failure;

/// The only supported protocol of extended `CONNECT`.
const WEBSOCKET: &str = "websocket";

/// Whether an extended `CONNECT` may request `protocol`.
pub(super) fn is_known(protocol: &str) -> bool {
    protocol.eq_ignore_ascii_case(WEBSOCKET)
}

/// Makes `request` the handshake of a WebSocket over HTTP/1.1, with a generated key (RFC 8441 section 5.1).
pub(super) fn shake_hands(request: &mut Request) {
    let mut nonce = [0; 16];
    // A failure is ignored: without randomness TLS would fail, too, and the key only has to differ between handshakes.
    let _ = rand::fill(&mut nonce);
    request.upgrade = Some(HeaderValue::from_static(WEBSOCKET));
    if let Ok(key) = HeaderValue::from_str(&STANDARD.encode(nonce)) {
        request.fields.insert(header::SEC_WEBSOCKET_KEY, key);
    }
}

/// Translates the reply to that handshake to the equivalent reply of HTTP/2.
pub(super) fn translate(reply: &mut Reply) {
    match (&reply.content, &mut reply.fields) {
        (Content::Tunnel(_), Source::Fields(fields)) => {
            reply.status = StatusCode::OK;
            fields.remove(header::SEC_WEBSOCKET_ACCEPT);
        }
        // The client would take a success for the beginning of a tunnel.
        _ if reply.status.is_success() => {
            *reply = failure(StatusCode::BAD_GATEWAY, Why::OriginMalformed);
        }
        _ => {}
    }
}

/// Carries bytes between the client of `stream` and the other end of `tunnel`.
pub(super) async fn run(stream: &mut Stream, tunnel: Tunnel, idle: Duration) {
    let (sent, carried) = {
        let ends = Ends { stream, unread: Bytes::new(), read_at: clock::millis() };
        carry_for(ends, &[], tunnel, idle, Abort::Reset).await
    };
    stream.sent += sent;
    match carried {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::TimedOut => stream.reset(Code::CANCEL),
        Err(_) => stream.reset(Code::CONNECT_ERROR),
    }
}

/// A stream as the client's end of a tunnel.
struct Ends<'s> {
    stream: &'s mut Stream,
    /// Content that the other end has not taken.
    unread: Bytes,
    /// The time at which the other end last took content, in `clock::millis`.
    read_at: u64,
}

impl AsyncRead for Ends<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            match ready!(self.stream.poll_content(cx)) {
                Piece::Data(data) => self.unread = data,
                Piece::End(_) => return Poll::Ready(Ok(())),
                Piece::Gone => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        }
        let count = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..count]);
        self.read_at = clock::millis();
        self.unread.advance(count);
        // If the other end reads slowly, the client's window stays closed.
        self.stream.release(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Ends<'_> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.stream.poll_send_some(cx, bytes) {
            // An answer that cannot be sent must not end the tunnel before all content of its client has reached the
            // other end.
            Poll::Ready(Err(_)) if self.stream.has_left_whole(self.read_at) => Poll::Ready(Ok(bytes.len())),
            sent => sent,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The task of the connection sends it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.finish(&HeaderMap::new());
        Poll::Ready(Ok(()))
    }
}
