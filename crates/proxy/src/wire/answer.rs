//! Waits for the reply to a request, while its client gets interim responses and may leave.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::base::in_place;
use crate::exchange::link::{Interim, Link};
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::features::dispatch;
use crate::flow::worker::Worker;

/// A client that waits for the answer to its request.
pub(crate) trait WaitingClient: Send {
    /// Ready when the client has left; it is not polled again.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Sends an interim response. An error has no consequence: the final response follows.
    fn interim(&mut self, interim: &Interim) -> impl Future<Output = ()> + Send;
}

/// Returns the reply to a request that memory could not answer at once. `link` is the request's.
pub(crate) async fn answer(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: Box<Request>,
    link: &Link,
    client: &mut impl WaitingClient,
) -> Box<Reply> {
    // Boxed: the future is large, and every future around it would be as large, and be moved.
    let mut serve = in_place::pinned(|| dispatch::serve(worker, plan, request));
    let mut left = false;
    loop {
        let served = poll_fn(|cx| match serve.as_mut().poll(cx) {
            Poll::Pending if !link.is_empty() => Poll::Ready(None),
            Poll::Pending if !left && client.poll_left(cx).is_ready() => {
                left = true;
                link.leave();
                serve.as_mut().poll(cx).map(Some)
            }
            polled => polled.map(Some),
        });
        let served = served.await;
        for interim in link.take() {
            client.interim(&interim).await;
        }
        if let Some(reply) = served {
            return reply;
        }
    }
}
