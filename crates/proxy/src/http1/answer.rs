//! Answers a request that memory could not answer at once: sends interim responses, then the reply.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::watch::Watch;
use crate::exchange::link::{Interim, Link};
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Framing, Reply};
use crate::exchange::request::Request;
use crate::exchange::send::{send, send_interim};
use crate::exchange::sink::SendError;
use crate::flow::worker::Worker;
use crate::net::io::WriteHalf;
use crate::wire::answer::{self, WaitingClient};

/// The error of a client that has left while its answer was sent.
const LEFT: io::ErrorKind = io::ErrorKind::ConnectionAborted;

/// Returns the reply to a request that memory could not answer at once, and the result of sending it.
pub(super) async fn answer(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: Box<Request>,
    writing: &mut WriteHalf,
    (link, watch): (Link, Watch<'_, '_>),
    framing: &mut Framing,
) -> (Box<Reply>, Result<(), SendError>) {
    let is_secure = request.is_secure();
    let mut client = Client { writing, watch };
    let mut reply = answer::answer(worker, plan, request, &link, &mut client).await;
    let Client { writing, mut watch } = client;
    writing.wake();
    framing.keep_alive &= !reply.close && !reply.ends_with_connection(framing);
    let banner = plan.banner_of(&reply, || is_secure);
    let sent = {
        let mut sending = pin!(send(writing, &mut reply, framing, banner));
        let polled = poll_fn(|cx| match sending.as_mut().poll(cx) {
            Poll::Pending => watch.poll_left_amid(cx).map(|()| Err(SendError::Client(LEFT.into()))),
            sent => sent,
        });
        polled.await
    };
    reply.is_sent();
    (reply, sent)
}

/// The two directions of the client's connection.
struct Client<'w, 'c> {
    writing: &'w mut WriteHalf,
    watch: Watch<'w, 'c>,
}

impl WaitingClient for Client<'_, '_> {
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.watch.poll_left(cx)
    }

    async fn interim(&mut self, interim: &Interim) {
        if let Err(error) = send_interim(self.writing, interim).await {
            tracing::trace!("interim response not sent: {error}");
        }
    }
}
