//! Measures the cost of the layer for a service that answers at once: a request that passes it, one whose tag
//! is current, and one without the layer. `cargo bench -p larder-tower` measures; a plain build runs it a few
//! times, to test that it works.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH};
use http::{Request, Response, StatusCode};
use http_body_util::{Empty, Full};
use larder_tower::{Settings, TagLayer};
use tower::{Layer, Service, service_fn};

/// Bytes of each response.
const CONTENT: usize = 1_024;

type Asked = Request<Empty<Bytes>>;
type Answering = Ready<Result<Response<Full<Bytes>>, Infallible>>;

fn main() {
    let rounds: u32 = if std::env::args().any(|word| word == "--bench") { 1_000_000 } else { 100 };
    let content = Bytes::from(vec![b'x'; CONTENT]);
    let answer = move |_: Asked| -> Answering { ready(Ok(Response::new(Full::new(content.clone())))) };
    let layer = TagLayer::settled(Settings::default());
    let (mut bare, mut tagged) = (service_fn(answer.clone()), layer.layer(service_fn(answer)));
    let first = call(&mut tagged, request(""));
    let tag = first.headers()[ETAG].to_str().expect("a tag is text").to_owned();
    let ways: [(&str, &mut dyn FnMut() -> StatusCode, StatusCode); 3] = [
        ("without the layer", &mut || call(&mut bare, request("")).status(), StatusCode::OK),
        ("through the layer", &mut || call(&mut tagged.clone(), request("")).status(), StatusCode::OK),
        (
            "answered by the layer",
            &mut || call(&mut tagged.clone(), request(&tag)).status(),
            StatusCode::NOT_MODIFIED,
        ),
    ];
    for (name, ask, expected) in ways {
        let begun = Instant::now();
        for _ in 0..rounds {
            assert_eq!(ask(), expected, "{name}");
        }
        println!("{name:<24} {:>8.3} us", begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds));
    }
}

fn request(tag: &str) -> Asked {
    let request = Request::get("/users/1").header("host", "site.test");
    let request = if tag.is_empty() { request } else { request.header(IF_NONE_MATCH, tag) };
    request.body(Empty::new()).expect("a request")
}

/// Returns the response of a service that never waits.
fn call<S: Service<Asked>>(service: &mut S, request: Asked) -> S::Response {
    let mut answering = pin!(service.call(request));
    match answering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Ready(Err(_)) | Poll::Pending => panic!("the service answers at once"),
    }
}
