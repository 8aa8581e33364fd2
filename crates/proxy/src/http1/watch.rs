//! Watches a client that waits for its answer, so that a fetch ends when its client has left.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::upload::Receiver;
use crate::net::io::ReadHalf;
use crate::wire::content::Source;

/// The bytes that a client may send before its answer until it is no longer watched.
const AHEAD: usize = 16 << 10;

/// The time that the answer, or each of its steps, may take after the client has closed its sending side. Most such
/// clients have left; a few only have no further request, and still read.
const GRACE: Duration = Duration::from_secs(5);

/// A watch on a client that waits for its answer, or for the rest of it.
pub(super) struct Watch<'c> {
    reading: Option<&'c mut ReadHalf>,
    grace: Option<Pin<Box<Sleep>>>,
}

impl<'c> Watch<'c> {
    /// Watches the client of a request without content; `source`, if there is one, notices an early end itself.
    pub(super) fn beside<'s>(
        source: Result<Source<'s, Receiver<'c>>, Receiver<'c>>,
    ) -> (Option<Source<'s, Receiver<'c>>>, Self) {
        match source {
            Ok(source) => (Some(source), Self { reading: None, grace: None }),
            Err(receiver) => (None, Self { reading: Some(receiver.reading), grace: None }),
        }
    }

    /// Ready once, when the client has left. Bytes that it sends meanwhile are kept: they belong to the next request.
    pub(super) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.grace.is_none()
            && let Some(reading) = &mut self.reading
        {
            match reading.poll_receive(cx) {
                Poll::Pending => {
                    reading.input.release_buffers();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(1..)) if reading.input.unread().len() < AHEAD => {}
                Poll::Ready(Ok(1..)) => self.reading = None,
                Poll::Ready(Ok(0)) => self.grace = Some(Box::pin(sleep(GRACE))),
                Poll::Ready(Err(_)) => {
                    self.reading = None;
                    return Poll::Ready(());
                }
            }
        }
        match &mut self.grace {
            None => Poll::Pending,
            Some(grace) => {
                ready!(grace.as_mut().poll(cx));
                (self.reading, self.grace) = (None, None);
                Poll::Ready(())
            }
        }
    }

    /// The same while the answer is sent, after each step of that: then only a client that waits for its origin may have
    /// left. Without it, that would be noticed when the origin sends the next bytes.
    pub(super) fn poll_left_amid(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let (Some(grace), Some(reading)) = (&mut self.grace, &self.reading)
            && (reading.is_full(cx) || !grace.is_elapsed())
        {
            grace.as_mut().reset(Instant::now() + GRACE);
        }
        self.poll_left(cx)
    }
}
