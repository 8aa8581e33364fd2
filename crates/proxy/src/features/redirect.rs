//! Redirects clients without TLS to the same URL under https, where a site requires that.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_semantics::status::Why;

use crate::base::networks::host_of;
use crate::base::outcome::{Kind, Outcome};
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;

/// The port that https URLs do not name.
const HTTPS: u16 = 443;

/// Returns the redirect of `request`. `port` is the port of the TLS listener; `None`: 443.
pub(crate) fn to_https(port: Option<u16>, request: &Request) -> Option<Reply> {
    let outcome = Outcome::forwarded(Kind::Pass, Why::OnlyHttps);
    let port = port.unwrap_or(HTTPS);
    let host = host_of(&request.authority);
    if host.is_empty() {
        let why = "400: this site is served over https only, and the request names no host\n".to_owned();
        return Some(Reply::text(StatusCode::BAD_REQUEST, why, outcome));
    }
    let location = match port {
        HTTPS => format!("https://{host}{}", request.path),
        port => format!("https://{host}:{port}{}", request.path),
    };
    // A client may change the method on 301, and would lose the content of requests with other methods.
    let status = match request.method {
        Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::PERMANENT_REDIRECT,
    };
    let mut reply =
        Reply::text(status, format!("{}: this site is at {location}\n", status.as_str()), outcome);
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    fields.insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
    reply.fields = Source::Fields(fields.into());
    Some(reply)
}
