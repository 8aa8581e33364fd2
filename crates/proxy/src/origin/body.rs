//! Content on its way to an origin.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::clock;

/// What the client's side sends: frames, or the end of them because the client failed.
pub type Frames = mpsc::Sender<Result<Frame<Bytes>, ClientGone>>;

/// The client stopped in the middle of its content.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the client stopped in the middle of its request")]
pub struct ClientGone;

/// A request's content, as the client's connection delivers it; the channel's bound is the
/// back-pressure.
#[derive(Debug)]
pub enum Upload {
    /// None.
    Empty,
    /// Frames.
    Frames(Incoming),
}

/// Frames from a client.
#[derive(Debug)]
pub struct Incoming {
    frames: mpsc::Receiver<Result<Frame<Bytes>, ClientGone>>,
    length: Option<u64>,
    moved: Arc<AtomicU64>,
}

impl Upload {
    /// Content whose frames come over a channel of two: one being sent, one being read.
    pub fn channel(length: Option<u64>) -> (Frames, Self) {
        let (sender, frames) = mpsc::channel(2);
        let moved = Arc::new(AtomicU64::new(clock::millis()));
        (sender, Self::Frames(Incoming { frames, length, moved }))
    }

    /// Whether there is content whose length only its end will tell.
    pub(crate) fn is_of_unknown_length(&self) -> bool {
        matches!(self, Self::Frames(Incoming { length: None, .. }))
    }

    /// When content last moved, in `clock::millis`: readable while the content is being sent.
    pub(crate) fn moved(&self) -> Option<Arc<AtomicU64>> {
        match self {
            Self::Empty => None,
            Self::Frames(incoming) => Some(Arc::clone(&incoming.moved)),
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = ClientGone;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientGone>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Frames(incoming) => {
                let frame = incoming.frames.poll_recv(cx);
                if frame.is_ready() {
                    incoming.moved.store(clock::millis(), Ordering::Relaxed);
                }
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Frames(incoming) => incoming.length.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
