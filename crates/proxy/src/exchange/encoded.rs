//! Content that is compressed while it is sent.
//!
//! What has arrived is sent before a wait for more, so that a slow response is not held back. A worker encodes a little
//! at a time, and lets other requests run in between.

use std::io;

use http::HeaderMap;
use larder_coding::Encoder;
use larder_semantics::coding::Coding;
use larder_words::debug_as;
use tokio::task::yield_now;

use crate::exchange::sink::{SendError, Sink};
use crate::net::concurrency::Permit;

/// The bytes that are encoded before other requests run.
const TURN: usize = 16 << 10;

/// The encoder through which the content of a reply is sent.
pub struct ContentEncoder {
    /// `None` after the end.
    encoder: Option<Encoder>,
    _permit: Permit,
}

impl ContentEncoder {
    /// # Errors
    /// There is no encoder, for want of memory.
    pub(crate) fn new(coding: Coding, permit: Permit) -> io::Result<Self> {
        let encoder = Some(Encoder::new(coding)?);
        Ok(Self { encoder, _permit: permit })
    }

    /// Returns a sink that sends content in the coding to `sink`.
    pub(super) fn before<'e, S: Sink>(&'e mut self, sink: &'e mut S) -> CodingSink<'e, S> {
        CodingSink { sink, encoder: &mut self.encoder, holds_back: false }
    }
}

debug_as!(ContentEncoder, |_| "ContentEncoder");

/// A sink in front of another one, which gets the coded bytes.
pub(super) struct CodingSink<'e, S> {
    sink: &'e mut S,
    encoder: &'e mut Option<Encoder>,
    /// Whether the encoder may hold bytes back.
    holds_back: bool,
}

impl<S: Sink> CodingSink<'_, S> {
    /// Sends the bytes that the encoder has written.
    async fn send(&mut self) -> Result<(), SendError> {
        let Some(encoder) = self.encoder else { return Ok(()) };
        let coded = std::mem::take(encoder.coded());
        self.sink.bytes(&coded).await?;
        if let Some(encoder) = self.encoder {
            *encoder.coded() = coded;
            encoder.coded().clear();
        }
        Ok(())
    }
}

impl<S: Sink> Sink for CodingSink<'_, S> {
    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        for (turn, bytes) in bytes.chunks(TURN).enumerate() {
            if turn > 0 {
                yield_now().await;
            }
            let Some(encoder) = self.encoder else { return Ok(()) };
            encoder.content().write_all(bytes).map_err(failed)?;
            self.holds_back = true;
            self.send().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        if let Some(encoder) = self.encoder.as_mut().filter(|_| self.holds_back) {
            encoder.content().flush().map_err(failed)?;
            self.holds_back = false;
            self.send().await?;
        }
        self.sink.flush().await
    }

    async fn end(&mut self, trailers: &HeaderMap) -> Result<(), SendError> {
        if let Some(encoder) = self.encoder.take() {
            let rest = encoder.finish().map_err(failed)?;
            self.sink.bytes(&rest).await?;
        }
        self.sink.end(trailers).await
    }
}

/// Converts the error of an encoder: the client must not take the content for complete.
fn failed(error: io::Error) -> SendError {
    SendError::Truncated(format!("cannot compress it: {error}"))
}
