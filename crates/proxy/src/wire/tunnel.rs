//! Streams that leave HTTP: `CONNECT` (RFC 9113 section 8.5), and WebSocket by extended `CONNECT` (RFC 8441, RFC 9220),
//! which is forwarded to origins as an upgrade of HTTP/1.1.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_semantics::status::Why;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::content::Piece;
use super::stream::{RawStream, Reset, Stream};
use crate::base::clock;
use crate::base::outcome::{Kind, Outcome};
use crate::exchange::reply::{Content, Reply, Source, Tunnel};
use crate::exchange::request::Request;
use crate::exchange::tunnel::{Abort, carry_for};

/// The only supported protocol of extended `CONNECT`.
const WEBSOCKET: &str = "websocket";

/// Whether an extended `CONNECT` may request `protocol`.
pub(crate) fn is_known(protocol: &str) -> bool {
    protocol.eq_ignore_ascii_case(WEBSOCKET)
}

/// Makes `request` the handshake of a WebSocket over HTTP/1.1, with a generated key (RFC 8441 section 5.1).
pub(crate) fn shake_hands(request: &mut Request) {
    let mut nonce = [0; 16];
    // A failure is ignored: without randomness TLS would fail, too, and the key only has to differ between handshakes.
    let _ = rand::fill(&mut nonce);
    request.upgrade = Some(HeaderValue::from_static(WEBSOCKET));
    if let Ok(key) = HeaderValue::from_str(&STANDARD.encode(nonce)) {
        request.fields.insert(header::SEC_WEBSOCKET_KEY, key);
    }
}

/// Translates the reply to that handshake to the equivalent reply to extended `CONNECT`.
pub(super) fn translate(reply: &mut Reply) {
    match (&reply.content, &mut reply.fields) {
        (Content::Tunnel(_), Source::Fields(fields)) => {
            reply.status = StatusCode::OK;
            fields.remove(header::SEC_WEBSOCKET_ACCEPT);
        }
        // The client would take a success for the beginning of a tunnel.
        _ if reply.status.is_success() => {
            let text = format!("502: the origin answered {} and began no tunnel\n", reply.status.as_str());
            let outcome = Outcome::forwarded(Kind::Failed, Why::OriginMalformed);
            *reply = Reply::text(StatusCode::BAD_GATEWAY, text, outcome);
        }
        _ => {}
    }
}

/// Carries bytes between the client of `stream` and the other end of `tunnel`.
pub(super) async fn run<S: RawStream>(stream: &mut Stream<S>, tunnel: Tunnel, idle: Duration) {
    let (sent, carried) = {
        let ends = StreamEnd { stream: &*stream, unread: Bytes::new(), read_at: clock::millis() };
        carry_for(ends, tunnel, idle, Abort::Reset).await
    };
    stream.sent += sent;
    match carried {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::TimedOut => stream.raw.reset(Reset::Cancel),
        Err(_) => stream.raw.reset(Reset::Connect),
    }
}

/// A stream as the client's end of a tunnel.
struct StreamEnd<'s, S: RawStream> {
    stream: &'s Stream<S>,
    /// Content that the other end has not taken.
    unread: Bytes,
    /// The time at which the other end last took content, in `clock::millis`.
    read_at: u64,
}

impl<S: RawStream> StreamEnd<'_, S> {
    /// Whether the client has left after it had sent all content, and the other end took some of that within the last
    /// `timeouts.stall`.
    fn has_left_whole(&self) -> bool {
        let is_recent = clock::millis().saturating_sub(self.read_at) <= self.stream.stall;
        is_recent && self.stream.raw.has_left_whole()
    }
}

impl<S: RawStream> AsyncRead for StreamEnd<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            match ready!(self.stream.raw.poll_content(cx)) {
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
        self.stream.raw.release(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: RawStream> AsyncWrite for StreamEnd<'_, S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.stream.raw.poll_send(cx, bytes) {
            // An answer that cannot be sent must not end the tunnel before all content of its client has reached the
            // other end.
            Poll::Ready(Err(_)) if self.has_left_whole() => Poll::Ready(Ok(bytes.len())),
            sent => sent,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The task of the connection sends it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.raw.end(&HeaderMap::new());
        Poll::Ready(Ok(()))
    }
}
