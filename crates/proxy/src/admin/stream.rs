//! Answers that are still being made while they leave: content by pieces, and events for as long as somebody
//! listens (server-sent events, as the HTML standard defines them).

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

/// Pieces that wait for their reader.
const PIECES: usize = 4;

/// The content of an answer that is still being made.
pub(super) struct Stream {
    receiver: Receiver<io::Result<Bytes>>,
    /// Bytes to come, if that is known.
    left: Option<u64>,
}

/// An answer of `length` bytes, if that is known, and where its content goes.
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

/// Where events go.
pub(super) struct Events {
    sender: Sender<io::Result<Bytes>>,
    /// Events that wait for more.
    piece: Vec<u8>,
}

impl Events {
    /// Adds an event; `name` is empty for ordinary ones.
    pub(super) fn add(&mut self, name: &str, data: &impl Serialize) {
        if !name.is_empty() {
            self.piece.extend_from_slice(format!("event: {name}\n").as_bytes());
        }
        let start = self.piece.len();
        self.piece.extend_from_slice(b"data: ");
        // JSON in one line has no line ends in it, which would end the event.
        match serde_json::to_writer(&mut self.piece, data) {
            Ok(()) => self.piece.extend_from_slice(b"\n\n"),
            Err(_) => self.piece.truncate(start),
        }
    }

    /// Sends what was added; a sign of life if nothing was. False once the client has left.
    pub(super) async fn send(&mut self) -> bool {
        let mut piece = std::mem::take(&mut self.piece);
        if piece.is_empty() {
            piece.extend_from_slice(b":\n\n");
        }
        self.sender.send(Ok(piece.into())).await.is_ok()
    }
}

/// An answer of the events that `work` sends, which ends when the client has left.
pub(super) fn events<W>(work: impl FnOnce(Events) -> W) -> Response<Answer>
where
    W: Future<Output = ()> + Send + 'static,
{
    let (sender, mut response) = open("text/event-stream", None);
    // Reverse proxies that gather an answer before they pass it on would show nothing for long.
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
