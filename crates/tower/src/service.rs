//! The service behind the pools, and the path of a request to it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::Body;
use larder_tags::{Change, Pools, TagDecision, Ticket, Verdict};
use tower_service::Service;

use crate::body::{ReadResult, TagBody};

/// A service behind tag pools.
#[derive(Clone, Debug)]
pub struct TagService<S> {
    service: S,
    pools: Arc<Pools>,
}

impl<S> TagService<S> {
    pub(crate) fn new(service: S, pools: Arc<Pools>) -> Self {
        Self { service, pools }
    }

    fn ask<B: Body>(&self, request: &Request<B>) -> TagDecision {
        let (method, uri, fields) = (request.method(), request.uri(), request.headers());
        let target = uri.path_and_query().map_or("", |target| target.as_str()).as_bytes();
        if *method == Method::GET && !request.body().is_end_stream() {
            return TagDecision::Pass(self.pools.pass(method, target));
        }
        let host = || fields.get(header::HOST).map_or(&b""[..], |host| host.as_bytes());
        let authority = uri.authority().map_or_else(host, |authority| authority.as_str().as_bytes());
        self.pools.ask(method, authority, target, fields)
    }
}

/// A response in progress.
type ResponseFuture<B, E> = Pin<Box<dyn Future<Output = Result<Response<TagBody<B>>, E>> + Send>>;

impl<S, A, B> Service<Request<A>> for TagService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    A: Body,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Send + Unpin,
{
    type Response = Response<TagBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<B, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        match self.ask(&request) {
            TagDecision::NotModified(fields) => Box::pin(async { Ok(not_modified(fields)) }),
            TagDecision::Forward(ticket) => {
                if Pools::is_conditioned_twice(request.headers()) {
                    Pools::leave_tags(request.headers_mut());
                }
                let asked = request.headers().clone();
                let answer = self.service.call(request);
                Box::pin(async move {
                    let answer = answer.await?;
                    Ok(tagged(&ticket, &asked, answer).await)
                })
            }
            TagDecision::Change(change) => {
                let answer = self.service.call(request);
                Box::pin(async move { Ok(changed(change, answer.await?)) })
            }
            TagDecision::Pass(lines) => {
                let answer = self.service.call(request);
                Box::pin(async move { Ok(with(answer.await?.map(|body| TagBody::of(body, None)), lines)) })
            }
        }
    }
}

async fn tagged<B: Body>(ticket: &Ticket, asked: &HeaderMap, answer: Response<B>) -> Response<TagBody<B>> {
    let (head, body) = answer.into_parts();
    match ticket.answer(asked, head.status, &head.headers, body.size_hint().exact()) {
        Verdict::Pass(lines) => with(Response::from_parts(head, TagBody::of(body, None)), lines),
        Verdict::NotModified(kept) => not_modified(kept),
        Verdict::Read(most, lines) => match TagBody::read(body, most).await {
            ReadResult::Not(body) => with(Response::from_parts(head, body), lines),
            ReadResult::Whole(content, body) => match ticket.content(asked, &head.headers, &content) {
                Verdict::NotModified(kept) => not_modified(kept),
                Verdict::Pass(lines) | Verdict::Read(_, lines) => {
                    with(Response::from_parts(head, body), lines)
                }
            },
        },
    }
}

fn changed<B: Body>(mut change: Change, answer: Response<B>) -> Response<TagBody<B>> {
    let lines = change.lines();
    change.answered(answer.status());
    with(answer.map(|body| TagBody::of(body, Some(change))), lines)
}

fn not_modified<B: Body>(fields: HeaderMap) -> Response<TagBody<B>> {
    let mut answer = Response::new(TagBody::empty());
    (*answer.status_mut(), *answer.headers_mut()) = (StatusCode::NOT_MODIFIED, fields);
    answer
}

/// Returns the response with these lines added.
fn with<B: Body>(mut answer: Response<TagBody<B>>, lines: HeaderMap) -> Response<TagBody<B>> {
    for (name, value) in &lines {
        answer.headers_mut().append(name, value.clone());
    }
    answer
}
