//! Sends a request's content on an HTTP/2 stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use http_body::Frame;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::http::body::{ClientGone, Upload};
use crate::http::chunked::may_trail;

/// Bytes of content that are kept until the response arrives, in case the origin does not process them.
const MOST_KEPT: usize = 64 << 10;

/// The content of a request, sent by its own task. Dropping it ends the task, and the stream if that is still open.
#[derive(Debug)]
pub(super) struct StreamSender {
    task: JoinHandle<()>,
    content: Arc<Content>,
}

#[derive(Debug)]
struct Content {
    kept: Mutex<ContentCopy>,
    moves: AtomicBool,
}

/// Content, with a copy of its sent part.
#[derive(Debug, Default)]
struct ContentCopy {
    rest: Upload,
    data: Vec<Bytes>,
    length: usize,
    trailers: Option<HeaderMap>,
    /// Whether a part of the sent content was not kept.
    is_partial: bool,
}

impl StreamSender {
    /// Starts a task that sends `content` on `stream`.
    pub(super) fn start(stream: SendStream<Bytes>, content: Upload) -> Self {
        let kept = Mutex::new(ContentCopy { rest: content, ..ContentCopy::default() });
        let content = Arc::new(Content { kept, moves: AtomicBool::new(false) });
        Self { task: tokio::spawn(send(stream, Arc::clone(&content))), content }
    }

    /// Whether content was sent since the last call.
    pub(super) fn has_moved(&self) -> bool {
        self.content.moves.swap(false, Ordering::Relaxed)
    }

    /// Drops the kept copy of sent content.
    pub(super) fn forget(&self) {
        self.content.kept.lock().forget();
    }

    /// Returns the whole content; empty if it was too long to be kept.
    pub(super) fn take_back(self) -> Upload {
        std::mem::take(&mut *self.content.kept.lock()).into_whole().unwrap_or_default()
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Content {}

impl ContentCopy {
    /// Returns the next frame of the content, and keeps a copy.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientGone>>> {
        let frame = ready!(self.rest.poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && !self.is_partial
        {
            self.length += frame.data_ref().map_or(0, Bytes::len);
            self.data.extend(frame.data_ref().cloned());
            self.trailers = frame.trailers_ref().cloned();
            if self.length > MOST_KEPT {
                self.forget();
            }
        }
        Poll::Ready(frame)
    }

    fn forget(&mut self) {
        (self.data, self.trailers, self.is_partial) = (Vec::new(), None, true);
    }

    fn into_whole(self) -> Option<Upload> {
        let trailers = self.trailers.map(Frame::trailers).into_iter();
        (!self.is_partial)
            .then(|| self.rest.with_again(self.data.into_iter().map(Frame::data).chain(trailers)))
    }
}

async fn send(mut stream: SendStream<Bytes>, content: Arc<Content>) {
    loop {
        let frame = match poll_fn(|cx| content.kept.lock().poll_frame(cx)).await {
            // An error means that the origin accepts no more: the response, or its error, tells why.
            None => return drop(stream.send_data(Bytes::new(), true)),
            // A truncated request must not look complete.
            Some(Err(ClientGone)) => return stream.send_reset(Reason::CANCEL),
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(data) => {
                if !send_data(&mut stream, data, &content.moves).await {
                    return;
                }
            }
            Err(frame) => return end(&mut stream, frame.into_trailers().unwrap_or_default()),
        }
    }
}

/// Sends `data` as flow control permits. Returns false if the origin accepts no more.
async fn send_data(stream: &mut SendStream<Bytes>, mut data: Bytes, moves: &AtomicBool) -> bool {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let mut room = stream.capacity();
        if room == 0 {
            room = match poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(Ok(room)) => room,
                Some(Err(_)) | None => return false,
            };
        }
        if stream.send_data(data.split_to(room.min(data.len())), false).is_err() {
            return false;
        }
        moves.store(true, Ordering::Relaxed);
    }
    true
}

fn end(stream: &mut SendStream<Bytes>, trailers: HeaderMap) {
    let kept = trailers.iter().filter(|(name, _)| may_trail(name));
    let trailers: HeaderMap = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    let _ = match trailers.is_empty() {
        true => stream.send_data(Bytes::new(), true),
        false => stream.send_trailers(trailers),
    };
}
