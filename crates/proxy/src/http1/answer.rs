//! Answers a request that memory could not answer at once: sends interim responses, then the reply.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::watch::Watch;
use crate::base::in_place;
use crate::exchange::link::Link;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Framing, Reply};
use crate::exchange::request::Request;
use crate::exchange::send::{send, send_interim};
use crate::exchange::sink::SendError;
use crate::features::dispatch;
use crate::flow::worker::Worker;
use crate::net::io::Writing;

/// Returns the reply to a request that memory could not answer at once, and the result of sending it.
pub(super) async fn answer(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: Box<Request>,
    writing: &mut Writing,
    (link, mut watch): (Link, Watch<'_>),
    framing: &mut Framing,
) -> (Box<Reply>, Result<(), SendError>) {
    // Boxed: the future is large, and every future around it would be as large, and be moved.
    let is_secure = request.is_secure();
    let mut serve = in_place::pinned(|| dispatch::serve(worker, plan, request));
    let mut reply = loop {
        let served = poll_fn(|cx| match serve.as_mut().poll(cx) {
            Poll::Pending if !link.is_empty() => Poll::Ready(None),
            Poll::Pending if watch.poll_left(cx).is_ready() => {
                link.leave();
                serve.as_mut().poll(cx).map(Some)
            }
            polled => polled.map(Some),
        });
        let served = served.await;
        for interim in link.take() {
            if let Err(error) = send_interim(writing, &interim).await {
                tracing::trace!("interim response not sent: {error}");
            }
        }
        if let Some(reply) = served {
            break reply;
        }
    };
    drop(serve);
    writing.wake();
    framing.keep_alive &= !reply.close && !reply.ends_with_connection(framing);
    let banner = plan.banner_of(&reply, || is_secure);
    let sent = send(writing, &mut reply, framing, banner).await;
    reply.is_sent();
    (reply, sent)
}
