//! The certificate of the authority that intercepts tunnels, for clients that are to trust it.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_semantics::status::Why;

use crate::base::outcome::{Kind, Outcome};
use crate::exchange::reply::{Reply, Source};
use crate::flow::worker::Worker;
use crate::http::head::{Framing, RequestHead, Target};

/// The path of the certificate on a forward listener.
const PATH: &str = "/larder-ca.pem";

/// Returns the certificate in PEM if the request with this `head` is for it.
pub(super) fn answer(worker: &Worker, head: &RequestHead<'_>) -> Option<Reply> {
    let is_asked = matches!(head.target, Target::Origin { path: PATH, .. })
        && head.method == Method::GET
        && head.framing == Framing::Length(0);
    let interceptor = worker.shared.interceptor.get().filter(|_| is_asked)?;
    let outcome = Outcome::forwarded(Kind::Pass, Why::Bypass);
    let mut reply = Reply::text(StatusCode::OK, interceptor.certificate().to_owned(), outcome);
    let kind = HeaderValue::from_static("application/x-x509-ca-cert");
    reply.fields = Source::Fields(Box::new(HeaderMap::from_iter([(header::CONTENT_TYPE, kind)])));
    Some(reply)
}
