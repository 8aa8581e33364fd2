//! The layer around a service that counts its calls.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{pending, poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use larder_tower::{Couplings, Push, Settings, TagBody, TagLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

type Asked = Request<Full<Bytes>>;

fn layer() -> TagLayer {
    let couplings = BTreeMap::from([("users".into(), vec!["paths".into()])]);
    TagLayer::settled(Settings { couplings: Couplings::new(&couplings, false), ..Settings::default() })
}

/// Returns a service that answers with the number of its calls with unsafe methods.
fn counting(
    layer: &TagLayer,
) -> impl Service<Asked, Response = Response<TagBody<Full<Bytes>>>, Error = Infallible> + Clone {
    let changes = Arc::new(AtomicU32::new(0));
    layer.layer(service_fn(move |request: Asked| {
        let changes = match *request.method() {
            Method::GET => changes.load(Ordering::SeqCst),
            _ => changes.fetch_add(1, Ordering::SeqCst),
        };
        ready(Ok(Response::new(Full::from(format!("{changes} changes")))))
    }))
}

fn request(method: Method, target: &str, tag: &str) -> Asked {
    let request = Request::builder().method(method).uri(target).header("host", "site.test");
    request.header("if-none-match", tag).body(Full::default()).expect("a request")
}

/// Returns status, tag and content of the response.
async fn ask<B>(
    service: &(impl Service<Asked, Response = Response<TagBody<B>>, Error = Infallible> + Clone),
    request: Asked,
) -> (StatusCode, String, Bytes)
where
    B: Body,
    B::Error: std::fmt::Debug + Unpin,
{
    let answer = service.clone().oneshot(request).await.expect("an answer");
    let tag = answer.headers().get("etag").map_or("", |tag| tag.to_str().expect("text")).to_owned();
    let status = answer.status();
    (status, tag, answer.into_body().collect().await.expect("content").to_bytes())
}

#[tokio::test(flavor = "current_thread")]
async fn a_current_tag_is_answered_without_the_service() {
    let (layer, get) = (layer(), |tag: &str| request(Method::GET, "/paths/1", tag));
    let service = counting(&layer);
    let (status, tag, content) = ask(&service, get("\"x\"")).await;
    assert_eq!((status, &content[..]), (StatusCode::OK, &b"0 changes"[..]));
    let (status, again, content) = ask(&service, get(&tag)).await;
    assert_eq!((status, again, content.len()), (StatusCode::NOT_MODIFIED, tag.clone(), 0));
    assert_eq!(layer.pools().report()[0].matched, 1);
    ask(&service, request(Method::POST, "/users", "")).await;
    let (status, _, content) = ask(&service, get(&tag)).await;
    assert_eq!((status, &content[..]), (StatusCode::OK, &b"1 changes"[..]));
}

#[tokio::test(flavor = "current_thread")]
async fn content_that_is_too_long_arrives_whole() {
    let layer = TagLayer::settled(Settings { content: 5, ..Settings::default() });
    let service = layer.layer(service_fn(|_: Asked| {
        ready(Ok::<_, Infallible>(Response::new(Pieces(vec!["ghi", "def", "abc"]))))
    }));
    let (status, tag, content) = ask(&service, request(Method::GET, "/", "\"x\"")).await;
    assert_eq!((status, tag.as_str(), &content[..]), (StatusCode::OK, "", &b"abcdefghi"[..]));
}

/// Content that arrives in pieces, with the last one first in the list.
struct Pieces(Vec<&'static str>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop().map(|piece| Ok(Frame::data(piece.into()))))
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_change_that_is_given_up_leaves_doubt() {
    let layer = layer();
    let readable = counting(&layer);
    let stuck = layer.layer(service_fn(|_: Asked| pending::<Result<Response<Full<Bytes>>, Infallible>>()));
    let mut write = Box::pin(stuck.oneshot(request(Method::POST, "/users", "")));
    assert!(poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx).is_pending())).await);
    drop(write);
    for _ in 0..2 {
        let (_, again, _) = ask(&readable, request(Method::GET, "/users", "")).await;
        assert_eq!(again, "", "a handler may have left something running");
    }
    assert_eq!(layer.pools().report()[0].tags, 0);
}

#[tokio::test(flavor = "current_thread")]
async fn a_layer_starts_in_doubt_unless_it_is_said_to_be_settled() {
    let get = || request(Method::GET, "/users", "");
    for (layer, is_tagged) in
        [(TagLayer::new(Settings::default()), false), (TagLayer::settled(Settings::default()), true)]
    {
        let (_, tag, content) = ask(&counting(&layer), get()).await;
        assert_eq!((!tag.is_empty(), &content[..]), (is_tagged, &b"0 changes"[..]));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn caches_are_told_if_they_are_to_be() {
    let layer = TagLayer::settled(Settings { push: Some(Push { lifetime: 60 }), ..Settings::default() });
    let service = counting(&layer);
    let answer = service.clone().oneshot(request(Method::GET, "/users/1", "")).await.expect("an answer");
    assert_eq!(answer.headers()["cache-groups"], "\"users\", \"*\"");
    assert_eq!(answer.headers()["cache-control"], "s-maxage=60");
    let answer = service.oneshot(request(Method::PUT, "/users/1", "")).await.expect("an answer");
    assert_eq!(answer.headers()["cache-group-invalidation"], "\"users\"");
}
