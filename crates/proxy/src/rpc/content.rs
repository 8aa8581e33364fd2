//! Buffers the content of a page that cannot be sent before it is complete.

use std::time::Duration;

use bytes::BytesMut;
use http::HeaderMap;

use super::budget::{Obstacle, WholePage};
use super::{Visitor, decode};
use crate::base::low_priority;
use crate::exchange::reply::Reply;
use crate::exchange::send::send_content;
use crate::exchange::sink::{SendError, Sink};
use crate::net::byte_budget::Share;

/// How long a page waits for its turn to be decoded.
const PATIENCE: Duration = Duration::from_secs(30);

/// The content so far.
struct PageBuffer {
    whole: BytesMut,
    share: Share,
    /// The most bytes of content.
    most: u64,
    /// The reason why it takes no more bytes.
    obstacle: Option<Obstacle>,
}

impl Sink for PageBuffer {
    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        if (self.whole.len() + bytes.len()) as u64 > self.most {
            self.obstacle = Some(Obstacle::TooLong(self.most));
        } else if !self.share.grow(bytes.len()) {
            self.obstacle = Some(Obstacle::Crowded);
        }
        match &self.obstacle {
            None => {
                self.whole.extend_from_slice(bytes);
                Ok(())
            }
            Some(_) => Err(SendError::Truncated("there is no room for it".to_owned())),
        }
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        Ok(())
    }

    async fn end(&mut self, _trailers: &HeaderMap) -> Result<(), SendError> {
        Ok(())
    }
}

/// Buffers a page of at most `most` bytes for `visitor`, and decodes it. The error is the reason why the page cannot be
/// buffered.
pub(super) async fn collect(
    reply: &mut Reply,
    coding: Option<decode::Coding>,
    most: u64,
    visitor: &Visitor,
) -> Result<WholePage, Obstacle> {
    let share = visitor.doors.budget.share(visitor.client.ip());
    let mut sink = PageBuffer { whole: BytesMut::new(), share, most, obstacle: None };
    let sent = send_content(&mut sink, reply).await;
    let PageBuffer { whole, share, obstacle, .. } = sink;
    match (sent, obstacle) {
        (Ok(()), _) => {}
        (Err(_), Some(obstacle)) => return Err(obstacle),
        (Err(SendError::Truncated(why)), None) => return Err(Obstacle::Broken(why)),
        (Err(SendError::Client(error)), None) => return Err(Obstacle::Broken(error.to_string())),
    }
    let coded = WholePage { bytes: whole.freeze(), share };
    let Some(coding) = coding else { return Ok(coded) };
    let cache = &visitor.worker.cache;
    let permit = cache.decoder.turn(visitor.client.ip(), PATIENCE).await.ok_or(Obstacle::Crowded)?;
    let work = move || {
        // It goes on after its client has left.
        let _permit = permit;
        decode::decode(coding, coded, most)
    };
    let decoded = low_priority::run("decode", work).await;
    decoded.unwrap_or_else(|| Err(Obstacle::Broken("its content was not decoded".to_owned())))
}
