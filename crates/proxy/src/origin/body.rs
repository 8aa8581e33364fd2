//! Content on its way to an origin.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

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
    /// Frames, and the length if it is known.
    Frames(mpsc::Receiver<Result<Frame<Bytes>, ClientGone>>, Option<u64>),
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
            Self::Frames(frames, _) => frames.poll_recv(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Frames(_, Some(length)) => SizeHint::with_exact(*length),
            Self::Frames(_, None) => SizeHint::default(),
        }
    }
}
