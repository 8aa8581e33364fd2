//! The task of a request that memory cannot answer at once, or whose reply is too large to be sent at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use super::content::{self, Source};
use super::stream::Stream;
use super::tunnel;
use crate::base::in_place;
use crate::exchange::link::Link;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply};
use crate::exchange::request::Request;
use crate::exchange::sink::SendError;
use crate::features::arrive::PendingRequest;
use crate::features::dispatch;
use crate::flow::serve;
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::http::head::{Framing, Refusal};
use crate::observe::memo::RequestRecord;

/// A request that memory could not answer at once.
pub(super) struct Ask {
    pub(super) pending: PendingRequest,
    pub(super) head_only: bool,
    pub(super) since: Instant,
}

/// A reply whose head was written already, and perhaps the first frames of its content.
pub(super) struct Begun {
    /// Its content is the rest.
    pub(super) reply: Reply,
    /// The bytes that were written.
    pub(super) sent: u64,
    pub(super) memo: Option<RequestRecord>,
    pub(super) since: Instant,
}

/// Answers a request.
pub(super) async fn answer(mut stream: Stream, worker: Arc<Worker>, plan: Arc<Plan>, ask: Box<Ask>) {
    let Ask { pending, head_only, since } = *ask;
    let PendingRequest { mut request, delimited, expects, memo, permit, .. } = pending;
    let settings = &plan.settings;
    let link = Link::new(true);
    let content = match (delimited, &permit) {
        // The bytes in a tunnel are no content.
        (Framing::Length(0), None) => {
            content::none(&stream.session(), &settings.timeouts).await.map(|()| (None, Upload::Empty))
        }
        (delimited, _) => {
            content::split(stream.session(), delimited, &link, &settings.limits, &settings.timeouts)
        }
    };
    let (source, content) = match content {
        Ok(content) => content,
        Err(refusal) => return refuse(&mut stream, &worker, &plan, (refusal, head_only), memo).await,
    };
    link.expects(expects && source.is_some());
    (request.content, request.link) = (content, Some(link.clone()));
    let talked = {
        let reply = pin!(reply(&mut stream, &worker, &plan, request, link, head_only));
        talk(reply, source).await
    };
    match talked {
        Ok((mut reply, sent)) => {
            worker.times.served(reply.outcome.kind, since.elapsed());
            match (sent, std::mem::replace(&mut reply.content, Content::None)) {
                (Ok(()), Content::Tunnel(tunnel)) => {
                    tunnel::run(&mut stream, tunnel, settings.timeouts.tunnel).await;
                }
                (Ok(()), _) => {}
                (Err(error), _) => tracing::debug!("stream reset: {error}"),
            }
            worker.witness.replied(&plan, &reply, stream.sent, memo);
        }
        Err(refusal) => refuse(&mut stream, &worker, &plan, (refusal, head_only), memo).await,
    }
}

/// Sends the content of a reply whose head was written.
pub(super) async fn finish(mut stream: Stream, worker: Arc<Worker>, plan: Arc<Plan>, begun: Box<Begun>) {
    let Begun { mut reply, sent, memo, since } = *begun;
    stream.sent = sent;
    if let Err(error) = stream.content(&mut reply).await {
        tracing::debug!("stream reset: {error}");
    }
    worker.witness.replied(&plan, &reply, stream.sent, memo);
    worker.times.served(reply.outcome.kind, since.elapsed());
}

/// Answers a request that is refused. If its answer has begun, the stream is reset instead.
async fn refuse(
    stream: &mut Stream,
    worker: &Worker,
    plan: &Plan,
    (refusal, head_only): (Refusal, bool),
    memo: Option<RequestRecord>,
) {
    let mut reply = serve::refusal(refusal);
    tracing::debug!("refused with {}: {}", refusal.status.as_u16(), refusal.reason);
    let _ = stream.reply(&mut reply, head_only, &plan.banner).await;
    worker.witness.replied(plan, &reply, stream.sent, memo);
}

/// Replies to a request while its content is carried.
///
/// # Errors
/// The refusal of content that is not acceptable.
async fn talk(
    mut reply: Pin<&mut impl Future<Output = (Box<Reply>, Result<(), SendError>)>>,
    source: Option<Source<'_>>,
) -> Result<(Box<Reply>, Result<(), SendError>), Refusal> {
    if let Some(source) = source {
        let mut pump = Box::pin(source.pump());
        tokio::select! {
            biased;
            replied = &mut reply => return Ok(replied),
            result = &mut pump => result?,
        }
    }
    Ok(reply.await)
}

/// Returns the reply to a request, and the result of sending it.
async fn reply(
    stream: &mut Stream,
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: Box<Request>,
    link: Link,
    head_only: bool,
) -> (Box<Reply>, Result<(), SendError>) {
    // Boxed: the future is large, and every future around it would be as large, and be moved.
    let (is_handshake, is_secure) = (request.upgrade.is_some(), request.is_secure());
    let mut serve = in_place::pinned(|| dispatch::serve(worker, plan, request));
    let mut left = false;
    let mut reply = loop {
        let served = poll_fn(|cx| match serve.as_mut().poll(cx) {
            Poll::Pending if !link.is_empty() => Poll::Ready(None),
            Poll::Pending if !left && stream.is_gone(cx) => {
                left = true;
                link.leave();
                serve.as_mut().poll(cx).map(Some)
            }
            polled => polled.map(Some),
        });
        let served = served.await;
        link.take().iter().for_each(|interim| stream.interim(interim));
        if let Some(reply) = served {
            break reply;
        }
    };
    drop(serve);
    if is_handshake {
        tunnel::translate(&mut reply);
    }
    let banner = plan.banner_of(&reply, || is_secure);
    let sent = stream.reply(&mut reply, head_only, banner).await;
    reply.is_sent();
    (reply, sent)
}
