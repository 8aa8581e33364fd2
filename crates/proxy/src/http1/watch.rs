//! Watches a client that waits for its answer, so that a fetch ends when its client has left.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep};

use crate::net::io::ReadHalf;

/// The place of a connection's reading half once nothing of a request has yet to arrive.
pub(super) type Unread<'c> = Mutex<Option<&'c mut ReadHalf>>;

/// The bytes that a client may send before its answer until it is no longer watched.
const AHEAD: usize = 16 << 10;

/// The time that the answer, or each of its steps, may take after the client has closed its sending side. Most such
/// clients have left; a few only have no further request, and still read.
const GRACE: Duration = Duration::from_secs(5);

/// A watch on a client that waits for its answer, or for the rest of it. It begins when the request's content has arrived;
/// before that, the content's source notices an early end.
pub(super) struct Watch<'w, 'c> {
    unread: &'w Unread<'c>,
    reading: Option<&'c mut ReadHalf>,
    grace: Option<Pin<Box<Sleep>>>,
}

impl<'w, 'c> Watch<'w, 'c> {
    pub(super) fn new(unread: &'w Unread<'c>) -> Self {
        Self { unread, reading: None, grace: None }
    }

    /// Ready once, when the client has left. Bytes that it sends meanwhile are kept: they belong to the next request.
    pub(super) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.reading.is_none() {
            self.reading = self.unread.lock().take();
        }
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
