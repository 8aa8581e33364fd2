//! Answers that are sent while they are still being made: content in pieces, and events for as long as a client listens
//! (server-sent events, as the HTML standard defines them).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, header};
use http_body_util::Either;
use hyper::body::{Body, Frame, SizeHint};
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{Answer, prepared};
use crate::base::shown::write_json;

/// The most pieces that wait for the client.
const PIECES: usize = 4;

/// The content of an answer that is still being made.
pub(super) struct Stream {
    receiver: Receiver<io::Result<Bytes>>,
    /// Bytes that remain to be sent, if that is known.
    left: Option<u64>,
}

/// Returns an answer of `length` bytes, if that is known, and the sender of its content.
pub(super) fn open(kind: &'static str, length: Option<u64>) -> (Sender<io::Result<Bytes>>, Response<Answer>) {
    let (sender, receiver) = channel(PIECES);
    (sender, prepared(kind, Either::Right(Stream { receiver, left: length })))
}

impl Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.receiver.poll_recv(cx).map(|piece| {
            let piece = piece?;
            if let (Some(left), Ok(piece)) = (&mut self.left, &piece) {
                *left = left.saturating_sub(piece.len() as u64);
            }
            Some(piece.map(Frame::data))
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Sends events to a client.
pub(super) struct Events {
    sender: Sender<io::Result<Bytes>>,
    /// Events that wait for the next send.
    piece: Vec<u8>,
}

impl Events {
    /// Adds an event; `name` is empty for ordinary events.
    pub(super) fn add(&mut self, name: &str, data: &impl Serialize) {
        let start = self.piece.len();
        if !name.is_empty() {
            self.piece.extend_from_slice(format!("event: {name}\n").as_bytes());
        }
        self.piece.extend_from_slice(b"data: ");
        // This JSON has no line breaks, which would end the event.
        match write_json(&mut self.piece, data) {
            Ok(()) => self.piece.extend_from_slice(b"\n\n"),
            Err(_) => self.piece.truncate(start),
        }
    }

    /// Sends the added events, or a comment as a sign of life if there are none. False once the client has
    /// disconnected.
    pub(super) async fn send(&mut self) -> bool {
        let mut piece = std::mem::take(&mut self.piece);
        if piece.is_empty() {
            piece.extend_from_slice(b":\n\n");
        }
        self.sender.send(Ok(piece.into())).await.is_ok()
    }
}

/// Returns an answer with the events that `work` sends. It ends when the client disconnects.
pub(super) fn events<W>(work: impl FnOnce(Events) -> W) -> Response<Answer>
where
    W: Future<Output = ()> + Send + 'static,
{
    let (sender, mut response) = open("text/event-stream", None);
    // Reverse proxies that buffer a whole answer before they pass it on would show no events for a long time.
    response.headers_mut().insert("x-accel-buffering", header::HeaderValue::from_static("no"));
    let work = work(Events { sender: sender.clone(), piece: Vec::new() });
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            () = sender.closed() => {}
        }
    });
    response
}
