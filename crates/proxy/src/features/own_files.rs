//! The files of a forward proxy itself, for clients that do not use it yet: the certificate of its authority, and a script
//! that selects it as the proxy (PAC).

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_semantics::status::Why;

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::Role;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::flow::worker::Worker;
use crate::http::head::{Framing, RequestHead, Target};

/// The path of the certificate.
const CERTIFICATE: &str = "/larder-ca.pem";
/// The path of the script.
const SCRIPT: &str = "/proxy.pac";

/// Returns the head of a request for one of the files, with its target as a forward proxy needs it; `None` for all other
/// requests. `is_intercepted`: it arrives in a tunnel, and is for the host of the tunnel.
pub(super) fn target<'b>(
    head: &RequestHead<'b>,
    role: Role,
    is_intercepted: bool,
) -> Option<RequestHead<'b>> {
    let Target::Origin { host, path } = head.target else { return None };
    let is_own = role == Role::Forward && !is_intercepted && matches!(path, CERTIFICATE | SCRIPT);
    if !is_own || host.is_empty() || head.method != Method::GET || head.framing != Framing::Length(0) {
        return None;
    }
    let target = Target::Absolute { scheme: "http", authority: host, path };
    Some(RequestHead { method: head.method.clone(), target, ..*head })
}

/// Returns the reply to a request for one of the files.
pub(super) fn answer(worker: &Worker, request: &Request) -> Reply {
    let (kind, text) = match (request.path.as_str(), worker.shared.interceptor.get()) {
        (SCRIPT, _) => {
            // An authority has no quotation marks.
            let proxy = format!("\"PROXY {}; DIRECT\"", request.authority);
            (
                "application/x-ns-proxy-autoconfig",
                format!("function FindProxyForURL(url, host) {{ return {proxy}; }}\n"),
            )
        }
        (_, Some(interceptor)) => ("application/x-x509-ca-cert", interceptor.certificate().to_owned()),
        (_, None) => return no_authority(),
    };
    let mut reply = Reply::text(StatusCode::OK, text, outcome());
    reply.fields = Source::Fields(Box::new(HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ])));
    reply
}

fn no_authority() -> Reply {
    let text = "404: this proxy has no authority: it intercepts nothing\n".to_owned();
    Reply::text(StatusCode::NOT_FOUND, text, outcome())
}

fn outcome() -> Outcome {
    Outcome::forwarded(Kind::Pass, Why::Method)
}
