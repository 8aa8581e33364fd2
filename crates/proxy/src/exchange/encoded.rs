//! Content that is compressed or decompressed while it is sent.
//!
//! What has arrived is sent before a wait for more, so that a slow response is not held back. A worker encodes or decodes
//! a little at a time, and lets other requests run in between.

use std::io;

use http::HeaderMap;
use larder_coding::{Encoder, StreamDecoder};
use larder_semantics::coding::Coding;
use larder_words::debug_as;
use tokio::task::yield_now;

use crate::exchange::sink::{SendError, Sink};
use crate::net::byte_budget::Share;
use crate::net::concurrency::Permit;

/// The bytes that are encoded before other requests run, and the most that are decoded.
const TURN: usize = 16 << 10;

/// The encoder or decoder through which the content of a reply is sent.
pub struct ContentCoder {
    /// `None` after the end.
    coder: Option<Coder>,
    _permit: Option<Permit>,
    _share: Option<Share>,
}

enum Coder {
    Encoder(Encoder),
    Decoder(StreamDecoder),
}

impl ContentCoder {
    /// Returns the encoder of `coding`. Errors: there is no encoder, for want of memory.
    pub(crate) fn encoder(coding: Coding, permit: Permit) -> io::Result<Self> {
        let coder = Some(Coder::Encoder(Encoder::new(coding)?));
        Ok(Self { coder, _permit: Some(permit), _share: None })
    }

    /// Returns `decoder`, whose memory is this share of a budget.
    pub(crate) fn decoder(decoder: StreamDecoder, share: Share) -> Self {
        Self { coder: Some(Coder::Decoder(decoder)), _permit: None, _share: Some(share) }
    }

    /// Returns a sink that sends content to `sink` in the coding, or without it.
    pub(super) fn before<'e, S: Sink>(&'e mut self, sink: &'e mut S) -> CodingSink<'e, S> {
        CodingSink { sink, coder: &mut self.coder, holds_back: false }
    }
}

debug_as!(ContentCoder, |_| "ContentCoder");

/// A sink in front of another one, which gets the bytes in another coding.
pub(super) struct CodingSink<'e, S> {
    sink: &'e mut S,
    coder: &'e mut Option<Coder>,
    /// Whether the encoder may hold bytes back.
    holds_back: bool,
}

impl<S: Sink> CodingSink<'_, S> {
    /// Sends the bytes that the encoder has written, or that can be decoded.
    async fn send(&mut self) -> Result<(), SendError> {
        match self.coder {
            Some(Coder::Encoder(encoder)) => {
                let coded = std::mem::take(encoder.coded());
                self.sink.bytes(&coded).await?;
                *encoder.coded() = coded;
                encoder.coded().clear();
            }
            Some(Coder::Decoder(decoder)) => {
                let mut part = vec![0; TURN];
                loop {
                    match decoder.read(&mut part).map_err(failed)? {
                        0 => break,
                        len => self.sink.bytes(&part[..len]).await?,
                    }
                    yield_now().await;
                }
            }
            None => {}
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
            match self.coder {
                Some(Coder::Encoder(encoder)) => {
                    encoder.content().write_all(bytes).map_err(failed)?;
                    self.holds_back = true;
                }
                Some(Coder::Decoder(decoder)) => decoder.put(bytes),
                None => return Ok(()),
            }
            self.send().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        if let Some(Coder::Encoder(encoder)) = self.coder.as_mut().filter(|_| self.holds_back) {
            encoder.content().flush().map_err(failed)?;
            self.holds_back = false;
            self.send().await?;
        }
        self.sink.flush().await
    }

    async fn end(&mut self, _: &HeaderMap) -> Result<(), SendError> {
        if let Some(Coder::Decoder(decoder)) = self.coder {
            decoder.end();
            self.send().await?;
        } else if let Some(Coder::Encoder(encoder)) = self.coder.take() {
            let rest = encoder.finish().map_err(failed)?;
            self.sink.bytes(&rest).await?;
        }
        // Trailers may be about the bytes that the origin sent.
        self.sink.end(&HeaderMap::new()).await
    }
}

/// Converts the error of a coder: the client must not take the content for complete.
fn failed(error: io::Error) -> SendError {
    SendError::Truncated(format!("cannot change its coding: {error}"))
}
