//! Request content to be sent to an origin.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc;

/// The client's side of the channel: sends frames, or an error if the client failed.
pub type Frames = mpsc::Sender<Result<Frame<Bytes>, ClientGone>>;

/// The client stopped in the middle of its content.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the client stopped in the middle of its request")]
pub struct ClientGone;

/// A request's content from the client's connection. The bounded channel gives backpressure.
#[derive(Debug, Default)]
pub enum Upload {
    /// No content.
    #[default]
    Empty,
    /// Content in frames.
    Frames(ClientFrames),
}

/// Frames from a client.
#[derive(Debug)]
pub struct ClientFrames {
    frames: mpsc::Receiver<Result<Frame<Bytes>, ClientGone>>,
    /// Frames that were taken from the channel and not yet returned: `None` is the end.
    early: VecDeque<Option<Result<Frame<Bytes>, ClientGone>>>,
    length: Option<u64>,
    received: u64,
    /// Whether the end has arrived.
    ended: bool,
}

impl Upload {
    /// Creates content whose frames arrive over a channel of one frame, while another one is sent. Without a length,
    /// trailers are always the last frame, even if there are none: a client that has left must not seem to have sent all
    /// content.
    pub fn channel(length: Option<u64>) -> (Frames, Self) {
        let (sender, frames) = mpsc::channel(1);
        (
            sender,
            Self::Frames(ClientFrames { frames, early: VecDeque::new(), length, received: 0, ended: false }),
        )
    }

    /// Whether there is no content.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Whether there is content whose length is known only at its end.
    pub(crate) fn is_of_unknown_length(&self) -> bool {
        matches!(self, Self::Frames(ClientFrames { length: None, .. }))
    }

    /// Returns the length of the content, if it is known.
    #[inline]
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Frames(incoming) => incoming.length,
        }
    }

    /// Waits for the first frame, the end, or the failure of the client.
    pub async fn begun(&mut self) {
        if let Self::Frames(incoming) = self
            && incoming.early.is_empty()
            && incoming.received == 0
        {
            let first = incoming.frames.recv().await;
            incoming.early.push_back(first);
        }
    }

    /// Returns the content with these first frames put back, after they were taken from it.
    pub fn with_again(mut self, frames: impl DoubleEndedIterator<Item = Frame<Bytes>>) -> Self {
        if let Self::Frames(incoming) = &mut self {
            for frame in frames.rev() {
                incoming.received -= frame.data_ref().map_or(0, |data| data.len() as u64);
                incoming.ended &= !frame.is_trailers();
                incoming.early.push_front(Some(Ok(frame)));
            }
        }
        self
    }

    /// Whether the announced length has arrived.
    #[inline]
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Frames(incoming) => incoming.length == Some(incoming.received),
        }
    }

    /// Returns the next frame; `None` after the last. Content of unknown length ends with trailers.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientGone>>> {
        let Self::Frames(incoming) = self else { return Poll::Ready(None) };
        if incoming.ended || incoming.length == Some(incoming.received) {
            return Poll::Ready(None);
        }
        let polled = match incoming.early.pop_front() {
            Some(first) => Poll::Ready(first),
            None => incoming.frames.poll_recv(cx),
        };
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                incoming.received += frame.data_ref().map_or(0, |data| data.len() as u64);
                incoming.ended |= frame.is_trailers();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => Poll::Ready(Some(Err(ClientGone))),
            polled => polled,
        }
    }
}
