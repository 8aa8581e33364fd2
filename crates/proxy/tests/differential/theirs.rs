//! Reads a request with hyper's server, the oracle.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;

use super::ReadRequest;

/// A peer that has sent all bytes and closed, and accepts every response.
struct Wire<'w>(&'w [u8]);

impl Read for Wire<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.0.split_at(self.0.len().min(into.remaining()));
        into.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns the first request of `wire`; `None` if hyper passes none to its service.
pub(crate) fn read(wire: &[u8]) -> Option<ReadRequest> {
    let first = Arc::new(Mutex::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let first = Arc::clone(&first);
        async move {
            if first.lock().expect("no panic").is_none() {
                *first.lock().expect("no panic") = Some(seen(&request));
                let content = content(request).await;
                if let Some(seen) = first.lock().expect("no panic").as_mut() {
                    seen.content = content;
                }
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let mut serving = pin!(http1::Builder::new().half_close(true).serve_connection(Wire(wire), service));
    // All bytes are available, so that hyper never waits and only yields at times; the result of its connection is not
    // compared.
    let mut context = Context::from_waker(Waker::noop());
    let ended = (0..1_000).any(|_| serving.as_mut().poll(&mut context).is_ready());
    assert!(ended, "hyper waits on {:?}", String::from_utf8_lossy(wire));
    first.lock().expect("no panic").take()
}

fn seen(request: &Request<Incoming>) -> ReadRequest {
    let uri = request.uri();
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let mut fields: Vec<_> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    ReadRequest {
        method: request.method().to_string(),
        scheme: uri.scheme_str().unwrap_or_default().to_owned(),
        // An empty port means the default one (RFC 3986 section 3.2.3).
        authority: uri
            .authority()
            .map_or("", |authority| authority.as_str().trim_end_matches(':'))
            .to_owned(),
        path: if uri.scheme().is_some() && path.starts_with('?') {
            format!("/{path}")
        } else {
            path.to_owned()
        },
        fields,
        content: None,
    }
}

async fn content(request: Request<Incoming>) -> Option<(Vec<u8>, usize)> {
    let collected = request.into_body().collect().await.ok()?;
    let trailers = collected.trailers().map_or(0, http::HeaderMap::len);
    Some((collected.to_bytes().to_vec(), trailers))
}
