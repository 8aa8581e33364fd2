//! Sends a page in its envelope: streamed if its length is known, or else buffered first.

use bytes::Bytes;
use http::HeaderMap;
use larder_rpc::{Envelope, Failure, ReplyEncoder};

use super::budget::WholePage;
use super::content::collect;
use super::decode::Coding;
use super::{Visitor, failure, page};
use crate::base::settings::Door;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply};
use crate::exchange::send::{at_hand, send_content};
use crate::exchange::sink::{Direct, GATHER, SendError, Sink};
use crate::net::io::WriteHalf;

/// The parameters for sending a page.
pub(super) struct Delivery<'d, R> {
    pub(super) visitor: &'d Visitor,
    pub(super) plan: &'d Plan,
    /// The URL from the client.
    pub(super) url: &'d str,
    pub(super) encoder: &'d R,
}

impl<R: ReplyEncoder> Delivery<'_, R> {
    /// Sends `reply`'s content as the page, or a failure instead, which the inner result contains. The last bytes may
    /// wait for the next flush. Errors: the sent bytes are not a complete reply, so the connection has to be closed.
    pub(super) async fn send(
        &self,
        writing: &mut WriteHalf,
        reply: &mut Reply,
    ) -> Result<Result<(), Failure>, SendError> {
        match self.try_send(writing, reply).await? {
            Ok(()) => Ok(Ok(())),
            Err(failure) => {
                writing.out.extend_from_slice(&self.encoder.failure(&failure));
                Ok(Err(failure))
            }
        }
    }

    async fn try_send(
        &self,
        writing: &mut WriteHalf,
        reply: &mut Reply,
    ) -> Result<Result<(), Failure>, SendError> {
        let (coding, length) = match shape(reply) {
            Ok(shape) => shape,
            Err(why) => return Ok(Err(failure(self.url, 502, why))),
        };
        let length = match length {
            Some(length) if self.is_sendable(reply) => length,
            // The envelope of the line protocol does not depend on the length.
            None if coding.is_none() && self.visitor.door == Door::Line => 0,
            _ => {
                if let Some(Err(failure)) = length.map(|length| self.envelope(length)) {
                    return Ok(Err(failure));
                }
                return self.collected(writing, reply, coding).await;
            }
        };
        let envelope = match self.envelope(length) {
            Ok(envelope) => envelope,
            Err(failure) => return Ok(Err(failure)),
        };
        writing.out.extend_from_slice(&envelope.head);
        if envelope.chunks {
            let mut chunks = Chunks { writing: &mut *writing, envelope: &envelope, parts: Vec::new() };
            match send_content(&mut chunks, reply).await {
                // The protocol can say that the content ended early.
                Err(SendError::Truncated(why)) => return Ok(Err(failure(self.url, 502, why))),
                sent => sent?,
            }
        } else {
            send_content(&mut Direct::new(writing, false), reply).await?;
        }
        writing.out.extend_from_slice(&envelope.tail);
        Ok(Ok(()))
    }

    async fn collected(
        &self,
        writing: &mut WriteHalf,
        reply: &mut Reply,
        coding: Option<Coding>,
    ) -> Result<Result<(), Failure>, SendError> {
        let most = self.plan.settings.doors.max_page;
        let whole = collect(reply, coding, most, self.visitor).await;
        let WholePage { bytes, share: _held } = match whole {
            Ok(whole) => whole,
            Err(obstacle) => return Ok(Err(self.logged(obstacle.failure(self.url)))),
        };
        if let Err(failure) = check_nul(self.encoder, self.url, &bytes) {
            return Ok(Err(self.logged(failure)));
        }
        let envelope = match self.envelope(bytes.len() as u64) {
            Ok(envelope) => envelope,
            Err(failure) => return Ok(Err(failure)),
        };
        for part in envelope.around(bytes) {
            if writing.out.len() + part.len() > GATHER {
                writing.flush_with_more().await?;
            }
            match part.len() {
                0..=GATHER => writing.out.extend_from_slice(&part),
                _ => writing.write(&part).await?,
            }
        }
        Ok(Ok(()))
    }

    /// Whether the page need not be read to its end before it is sent.
    fn is_sendable(&self, reply: &Reply) -> bool {
        !self.encoder.ends_at_nul() || at_hand(reply).is_some_and(|page| !page.contains(&0))
    }

    fn envelope(&self, length: u64) -> Result<Envelope, Failure> {
        let envelope = usize::try_from(length).ok().and_then(|length| self.encoder.page(length));
        envelope.ok_or_else(|| {
            let door = self.visitor.door.name();
            let why = format!("the page has {length} bytes, too many for an answer by {door}");
            self.logged(failure(self.url, 502, why))
        })
    }

    /// Logs an available page that cannot be sent, since not every protocol reports the reason to its client.
    fn logged(&self, failure: Failure) -> Failure {
        tracing::warn!(client = %self.visitor.client, url = self.url, "{}", failure.why);
        failure
    }
}

/// The destination of content that is sent in chunks.
struct Chunks<'c> {
    writing: &'c mut WriteHalf,
    envelope: &'c Envelope,
    parts: Vec<Bytes>,
}

impl Sink for Chunks<'_> {
    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        for piece in bytes.chunks(GATHER) {
            self.envelope.part(Bytes::copy_from_slice(piece), &mut self.parts);
            self.parts.drain(..).for_each(|part| self.writing.out.extend_from_slice(&part));
            if self.writing.out.len() >= GATHER {
                self.writing.flush().await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        Ok(self.writing.flush().await?)
    }

    async fn end(&mut self, _trailers: &HeaderMap) -> Result<(), SendError> {
        Ok(())
    }
}

/// Checks that the client gets all of `page`. Errors: the client would read the page up to a NUL byte in it.
pub(super) fn check_nul(encoder: &impl ReplyEncoder, url: &str, page: &[u8]) -> Result<(), Failure> {
    let nul = page.iter().position(|byte| encoder.ends_at_nul() && *byte == 0);
    nul.map_or(Ok(()), |at| {
        let why = format!(
            "the page has a NUL byte at byte {at}, which ends a string: call PROXY_FETCH_BYTES for its bytes"
        );
        Err(failure(url, 502, why))
    })
}

/// Returns the coding of a page, and its length as it is sent, if that is known.
pub(super) fn shape(reply: &Reply) -> Result<(Option<Coding>, Option<u64>), String> {
    if matches!(reply.content, Content::None) {
        return Ok((None, Some(0)));
    }
    let coding = Coding::of(page::field(&reply.fields, "content-encoding").as_deref())?;
    Ok((coding, reply.length.filter(|_| coding.is_none())))
}
