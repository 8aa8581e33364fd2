//! The content of a response that passed the pools: unchanged, or reassembled.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use larder_tags::Change;

/// The content of a response.
pub struct TagBody<B: Body> {
    /// Bytes that were read for a tag.
    early: Option<Bytes>,
    trailers: Option<HeaderMap>,
    failed: Option<B::Error>,
    rest: Option<Pin<Box<B>>>,
    /// Dropped before the last of the content is returned.
    change: Option<Change>,
}

/// The result of reading content for its tag.
pub(crate) enum ReadResult<B: Body> {
    /// All of the content.
    Whole(Bytes, TagBody<B>),
    /// The content is too long, or incomplete.
    Not(TagBody<B>),
}

impl<B: Body> TagBody<B> {
    /// Returns empty content.
    pub(crate) fn empty() -> Self {
        Self { early: None, trailers: None, failed: None, rest: None, change: None }
    }

    /// Returns `body` unchanged; `change` is held until its end.
    pub(crate) fn of(body: B, change: Option<Change>) -> Self {
        match body.is_end_stream() {
            true => Self::empty(),
            false => Self { rest: Some(Box::pin(body)), change, ..Self::empty() },
        }
    }

    /// Reads `body`, if it has no more than `most` bytes.
    pub(crate) async fn read(body: B, most: u64) -> ReadResult<B> {
        let (mut rest, mut early, mut trailers) = (Box::pin(body), BytesMut::new(), None);
        loop {
            match rest.frame().await {
                None => {
                    let early = early.freeze();
                    let body = Self { early: Some(early.clone()), trailers, ..Self::empty() };
                    return ReadResult::Whole(early, body);
                }
                Some(Err(error)) => {
                    let early = Some(early.freeze());
                    return ReadResult::Not(Self { early, failed: Some(error), ..Self::empty() });
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => early.extend_from_slice(&whole(data)),
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
            }
            if early.len() as u64 > most {
                let (early, rest) = (Some(early.freeze()), Some(rest));
                return ReadResult::Not(Self { early, rest, ..Self::empty() });
            }
        }
    }
}

fn whole(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}

impl<B: Body> Body for TagBody<B>
where
    B::Error: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(early) = self.early.take().filter(|early| !early.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(early))));
        }
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        let Some(rest) = self.rest.as_mut() else { return Poll::Ready(None) };
        let frame = ready!(rest.as_mut().poll_frame(cx));
        if frame.is_none() || rest.is_end_stream() {
            (self.rest, self.change) = (None, None);
        }
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(whole))))
    }

    fn is_end_stream(&self) -> bool {
        let is_read = self.early.as_ref().is_none_or(Bytes::is_empty);
        is_read && self.trailers.is_none() && self.failed.is_none() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let early = self.early.as_ref().map_or(0, |early| early.len() as u64);
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), |rest| rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + early);
        if let Some(upper) = rest.upper().filter(|_| self.failed.is_none()) {
            hint.set_upper(upper + early);
        }
        hint
    }
}
