//! Sends a request's content while the exchange waits for the response.

use std::io::Write;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName};
use larder_store::lines::write_line;

use super::failure::Failure;
use crate::http::body::Upload;
use crate::net::deadline::Deadline;
use crate::net::stream::Stream;

/// The content of a request while it is sent.
#[derive(Debug, Default)]
pub(super) struct ContentSender {
    content: Upload,
    /// Bytes that are ready to be sent, and the number of sent ones.
    out: Vec<u8>,
    sent: usize,
    ended: bool,
    /// Whether the origin accepts no more bytes; it may have sent a response nevertheless.
    refused: bool,
}

impl ContentSender {
    pub(super) fn new(content: Upload) -> Self {
        Self { content, ..Self::default() }
    }

    /// Whether all content is sent.
    pub(super) fn is_done(&self) -> bool {
        !self.refused && self.out.is_empty() && (self.ended || self.content.is_empty())
    }

    /// Sends as much as possible without waiting; each sent piece restarts `deadline`. Fails when the client stops in
    /// the middle of its request.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        deadline: &mut Deadline,
    ) -> Result<(), Failure> {
        while !self.refused && !self.is_done() {
            if !self.out.is_empty() {
                match self.poll_out(cx, stream) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(taken) => self.refused = !taken,
                }
                deadline.restart();
                continue;
            }
            match self.content.poll_frame(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(None) => self.end(&HeaderMap::new())?,
                Poll::Ready(Some(Err(_))) => return Err(Failure::ClientGone),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.put(&data),
                    Err(frame) => self.end(&frame.into_trailers().unwrap_or_default())?,
                },
            }
        }
        Ok(())
    }

    /// Sends the bytes in `out`. Returns false when the origin accepts no more.
    fn poll_out(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> Poll<bool> {
        while self.sent < self.out.len() {
            match stream.poll_write(cx, &self.out[self.sent..]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count @ 1..)) => self.sent += count,
                Poll::Ready(_) => return Poll::Ready(false),
            }
        }
        match stream.poll_flush(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(flushed) if flushed.is_err() => return Poll::Ready(false),
            Poll::Ready(_) => {}
        }
        self.out.clear();
        self.sent = 0;
        Poll::Ready(true)
    }

    fn put(&mut self, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let chunked = self.content.is_of_unknown_length();
        if chunked {
            // Writing to a vector does not fail.
            let _ = write!(self.out, "{:x}\r\n", data.len());
        }
        self.out.extend_from_slice(data);
        if chunked {
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn end(&mut self, trailers: &HeaderMap) -> Result<(), Failure> {
        self.ended = true;
        if !self.content.is_of_unknown_length() {
            return if self.content.is_whole() { Ok(()) } else { Err(Failure::ClientGone) };
        }
        self.out.extend_from_slice(b"0\r\n");
        for (name, value) in trailers.iter().filter(|(name, _)| may_trail(name)) {
            write_line(&mut self.out, name.as_str().as_bytes(), value.as_bytes());
        }
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// Whether a field may be sent as a trailer. Many servers merge trailers into the header section, where fields that
/// frame, route or authorise a message would bypass checks (RFC 9110 section 6.5.1). So only these fields are
/// permitted.
fn may_trail(name: &HeaderName) -> bool {
    ["content-digest", "repr-digest", "digest", "content-md5"].contains(&name.as_str())
}
