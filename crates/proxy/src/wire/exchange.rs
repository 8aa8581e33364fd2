//! The task of a stream whose request memory cannot answer at once, or whose reply is too large to be sent at once.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;

use super::stream::{RawStream, Stream};
use super::{answer, content, tunnel};
use crate::exchange::link::Link;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply};
use crate::exchange::request::Request;
use crate::exchange::sink::SendError;
use crate::features::arrive::PendingRequest;
use crate::flow::serve;
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::http::head::{Framing, Refusal};
use crate::observe::memo::RequestRecord;

/// A request that memory could not answer at once.
pub(crate) struct FlowRequest {
    pub(crate) pending: PendingRequest,
    pub(crate) head_only: bool,
    pub(crate) since: Instant,
}

/// A reply whose head was written already, and perhaps the first frames of its content.
pub(crate) struct ReplyStart {
    /// Its content is the rest.
    pub(crate) reply: Reply,
    /// The bytes that were written.
    pub(crate) sent: u64,
    pub(crate) memo: Option<Box<RequestRecord>>,
    pub(crate) since: Instant,
}

pub(crate) async fn answer<S: RawStream>(
    mut stream: Stream<S>,
    worker: Arc<Worker>,
    plan: Arc<Plan>,
    ask: Box<FlowRequest>,
) {
    let FlowRequest { pending, head_only, since } = *ask;
    let PendingRequest { mut request, delimited, expects, memo, permit, .. } = pending;
    let (most, timeouts) = (request.max_body(&plan), request.timeouts(&plan));
    if let Cow::Owned(own) = &timeouts {
        stream.limit(own);
    }
    let link = Link::new(true);
    let content = match (delimited, &permit) {
        // The bytes in a tunnel are no content.
        (Framing::Length(0), None) => {
            let ended = content::none(&mut stream.raw, &timeouts).await;
            ended.map(|()| (None, Upload::Empty))
        }
        (delimited, _) => content::split(stream.raw.clone(), delimited, &link, most, &timeouts)
            .map(|(source, upload)| (source.ok(), upload)),
    };
    let (source, content) = match content {
        Ok(content) => content,
        Err(refusal) => {
            let refused = serve::refusal_of(&worker, &plan, Some(&request), refusal);
            return refuse(&mut stream, &worker, &plan, (refused, head_only), memo).await;
        }
    };
    link.expects(expects && source.is_some());
    (request.content, request.link) = (content, Some(link.clone()));
    let talked = {
        let reply = pin!(reply(&mut stream, &worker, &plan, request, link, head_only));
        content::talk(reply, source, drop).await
    };
    match talked {
        Ok(((mut reply, sent), _)) => {
            worker.times.served(reply.outcome.kind, since.elapsed());
            match (sent, std::mem::replace(&mut reply.content, Content::None)) {
                (Ok(()), Content::Tunnel(tunnel)) => {
                    let uninterceptable = tunnel.uninterceptable();
                    tunnel::run(&mut stream, tunnel, timeouts.tunnel).await;
                    uninterceptable
                        .iter()
                        .filter_map(|why| why.get())
                        .for_each(|why| reply.outcome.why = *why);
                }
                (Ok(()), _) => {}
                (Err(error), _) => tracing::debug!("stream reset: {error}"),
            }
            worker.witness.replied(&plan, &reply, stream.sent, memo);
        }
        Err(refusal) => {
            refuse(&mut stream, &worker, &plan, (serve::refusal(refusal), head_only), memo).await;
        }
    }
}

/// Sends the content of a reply whose head was written.
pub(crate) async fn finish<S: RawStream>(
    mut stream: Stream<S>,
    worker: Arc<Worker>,
    plan: Arc<Plan>,
    begun: Box<ReplyStart>,
) {
    let ReplyStart { mut reply, sent, memo, since } = *begun;
    stream.sent = sent;
    if let Err(error) = stream.content(&mut reply).await {
        tracing::debug!("stream reset: {error}");
    }
    worker.witness.replied(&plan, &reply, stream.sent, memo);
    worker.times.served(reply.outcome.kind, since.elapsed());
}

/// Answers a request that is refused. If its answer has begun, the stream is reset instead.
async fn refuse<S: RawStream>(
    stream: &mut Stream<S>,
    worker: &Worker,
    plan: &Plan,
    (mut reply, head_only): (Reply, bool),
    memo: Option<Box<RequestRecord>>,
) {
    tracing::debug!("refused with {}", reply.status.as_u16());
    let _ = stream.reply(&mut reply, head_only, &plan.banner).await;
    worker.witness.replied(plan, &reply, stream.sent, memo);
}

/// Returns the answer in place of `reply`, whose fields are more than its client accepts.
#[cold]
pub(crate) fn too_large(reply: &Reply) -> Reply {
    const LIST_TOO_LARGE: Refusal = Refusal {
        status: StatusCode::BAD_GATEWAY,
        reason: "the response has longer fields than the client's SETTINGS_MAX_HEADER_LIST_SIZE permits",
    };
    Reply { site: reply.site, hash: reply.hash, ..serve::refusal(LIST_TOO_LARGE) }
}

/// Returns the reply to a request, and the result of sending it.
async fn reply<S: RawStream>(
    stream: &mut Stream<S>,
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: Box<Request>,
    link: Link,
    head_only: bool,
) -> (Box<Reply>, Result<(), SendError>) {
    let (is_handshake, is_secure) = (request.upgrade.is_some(), request.is_secure());
    let mut reply = answer::answer(worker, plan, request, &link, stream).await;
    if is_handshake {
        tunnel::translate(&mut reply);
    }
    let banner = plan.banner_of(&reply, || is_secure);
    if !stream.raw.accepts(&reply, banner) {
        *reply = too_large(&reply);
    }
    let sent = stream.reply(&mut reply, head_only, banner).await;
    reply.is_sent();
    (reply, sent)
}
