//! Sends a request's content on its stream.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use http_body::Frame;
use tokio::task::JoinHandle;

use crate::http::body::{ClientGone, Upload};
use crate::http::chunked::may_trail;

/// Bytes of content that are kept until the answer comes, in case that the origin does not process them.
const MOST_KEPT: usize = 64 << 10;

/// A request's content on its way out, in a task of its own. Dropped, the task ends, and with it the stream if that is still open.
#[derive(Debug)]
pub(super) struct Sending {
    task: JoinHandle<()>,
    content: Arc<Content>,
}

#[derive(Debug)]
struct Content {
    kept: Mutex<Kept>,
    moves: AtomicBool,
}

/// Content, and what was sent of it.
#[derive(Debug, Default)]
struct Kept {
    rest: Upload,
    data: Vec<Bytes>,
    length: usize,
    trailers: Option<HeaderMap>,
    /// Not all that was sent is here.
    is_partial: bool,
}

impl Sending {
    /// Sends all of `content` on `stream`.
    pub(super) fn start(stream: SendStream<Bytes>, content: Upload) -> Self {
        let kept = Mutex::new(Kept { rest: content, ..Kept::default() });
        let content = Arc::new(Content { kept, moves: AtomicBool::new(false) });
        Self { task: tokio::spawn(send(stream, Arc::clone(&content))), content }
    }

    /// Whether some has left since this was asked before.
    pub(super) fn has_moved(&self) -> bool {
        self.content.moves.swap(false, Ordering::Relaxed)
    }

    /// What was sent is not needed again.
    pub(super) fn forget(&self) {
        self.content.kept().forget();
    }

    /// All of the content; nothing if it was too much.
    pub(super) fn take_back(self) -> Upload {
        std::mem::take(&mut *self.content.kept()).into_whole().unwrap_or_default()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Content {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// The next frame of the content, which is kept as well.
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
        let frame = match poll_fn(|cx| content.kept().poll_frame(cx)).await {
            // An origin that takes no more has answered, or has failed: its answer says which.
            None => return drop(stream.send_data(Bytes::new(), true)),
            // What is not whole must not seem to be.
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

/// Sends `data` as the windows of the origin allow; false if it takes no more.
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
