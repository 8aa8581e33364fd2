//! Decides which requests the admin listener answers.
//!
//! A request from this machine needs no token, but must not come from a browser that shows a page of another site: such
//! pages can reach this listener under a domain name of their site (DNS rebinding), load it as an image, or send forms.
//! A request from another machine needs the token, and so does one that a proxy on this machine passes on, which may
//! come from anywhere. No answer allows another origin to read it (CORS).

use std::net::{IpAddr, SocketAddr};

use http::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, FORWARDED, HOST, ORIGIN, REFERRER_POLICY, VIA, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use crate::base::settings::Token;
use crate::http::head::Refusal;

/// The field of requests that change something. Forms cannot send it, and scripts of other origins may not.
const INTENT: &str = "larder-admin";

/// The policy of the dashboard's pages: they load only files of this listener, and no other page may show them in a
/// frame.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
);

const fn forbidden(reason: &'static str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, reason)
}

const MISSING: Refusal = Refusal::new(
    StatusCode::UNAUTHORIZED,
    "a request from another machine needs the admin token: Authorization: Bearer TOKEN",
);
const PASSED_ON: Refusal = Refusal::new(
    StatusCode::UNAUTHORIZED,
    "a request through a proxy needs the admin token, also from this machine: Authorization: Bearer TOKEN",
);
const WRONG: Refusal = Refusal::new(StatusCode::UNAUTHORIZED, "this is not the admin token");
const STRANGER: Refusal =
    forbidden("a request without the admin token has to name this machine by its address or as localhost");
const REPEATED: Refusal = Refusal::bad("a request has one Host, and one Origin at most");
const FOREIGN: Refusal = forbidden("a page of another site sent this request");
const NO_INTENT: Refusal =
    forbidden("this request changes something: send the field Larder-Admin: 1 with it");

/// Checks whether a request from `peer` may be answered; `token` is the admin token, which a path that `is_open` does
/// not need. Errors: the refusal of the request.
pub(super) fn check(
    token: Option<&Token>,
    peer: IpAddr,
    is_open: bool,
    method: &Method,
    fields: &HeaderMap,
) -> Result<(), Refusal> {
    if is_open {
        return Ok(());
    }
    if [HOST, ORIGIN].iter().any(|name| fields.get_all(name).iter().count() > 1) {
        return Err(REPEATED);
    }
    match (bearer(fields), token) {
        (Some(shown), Some(token)) if !token.is(shown) => return Err(WRONG),
        (Some(_), Some(_)) => {}
        _ if !peer.to_canonical().is_loopback() => return Err(MISSING),
        _ if is_passed_on(fields) => return Err(PASSED_ON),
        _ if !is_by_address(fields) => return Err(STRANGER),
        _ => {}
    }
    if is_foreign(fields) {
        return Err(FOREIGN);
    }
    match *method == Method::POST && fields.get(INTENT).is_none_or(|intent| intent != "1") {
        true => Err(NO_INTENT),
        false => Ok(()),
    }
}

/// Returns the token that a request shows.
fn bearer(fields: &HeaderMap) -> Option<&[u8]> {
    let value = fields.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Whether the fields show that a proxy has passed the request on (RFC 9110 section 7.6.3, RFC 7239).
fn is_passed_on(fields: &HeaderMap) -> bool {
    let by_proxies = |name: &HeaderName| {
        *name == VIA
            || *name == FORWARDED
            || *name == "x-real-ip"
            || name.as_str().starts_with("x-forwarded-")
    };
    fields.keys().any(by_proxies)
}

/// Whether a request names this listener by its address or as localhost. Pages of strangers may lead here by other
/// names.
fn is_by_address(fields: &HeaderMap) -> bool {
    let Some(host) = fields.get(HOST) else { return true };
    let name = host.to_str().unwrap_or_default();
    let is_address =
        name.parse::<SocketAddr>().is_ok() || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address || name.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("localhost"))
}

/// Whether a browser reports that a page of another origin made the request. A link from there that a user follows is
/// allowed.
fn is_foreign(fields: &HeaderMap) -> bool {
    let says = |name: &str, value: &str| fields.get(name).is_some_and(|said| said == value);
    let crosses = says("sec-fetch-site", "cross-site") || says("sec-fetch-site", "same-site");
    let host = fields.get(HOST).map(HeaderValue::as_bytes);
    let is_ours = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let origin = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        origin.is_some_and(|origin| Some(origin) == host)
    };
    crosses && !says("sec-fetch-mode", "navigate")
        || fields.get(ORIGIN).is_some_and(|origin| !is_ours(origin))
}

/// Adds fields that keep browsers from using an answer for other purposes.
pub(super) fn guard<B>(response: &mut Response<B>) {
    let is_unauthorized = response.status() == StatusCode::UNAUTHORIZED;
    let fields = response.headers_mut();
    let said = |text| HeaderValue::from_static(text);
    fields.entry(CONTENT_SECURITY_POLICY).or_insert(POLICY);
    fields.insert(X_CONTENT_TYPE_OPTIONS, said("nosniff"));
    fields.insert(REFERRER_POLICY, said("no-referrer"));
    fields.insert(HeaderName::from_static("cross-origin-resource-policy"), said("same-origin"));
    if is_unauthorized {
        fields.insert(WWW_AUTHENTICATE, said("Bearer"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::routes;

    const TOKEN: &str = "correct-horse-battery";

    fn asked(peer: &str, method: Method, path: &str, fields: &[(&str, &str)]) -> Option<&'static str> {
        let map = fields.iter().map(|(name, value)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        });
        let token: Token = TOKEN.parse().unwrap();
        let is_open = routes::find(path).is_some_and(|(route, _)| route.is_open);
        let checked = check(Some(&token), peer.parse().unwrap(), is_open, &method, &map.collect());
        checked.err().map(|refusal| refusal.reason)
    }

    const HERE: (&str, &str) = ("host", "127.0.0.1:9145");
    const RIGHT: (&str, &str) = ("authorization", "bearer correct-horse-battery");
    const WRONG_ONE: (&str, &str) = ("authorization", "Bearer correct-horse-batterz");

    #[test]
    fn local_admin_requests_need_no_token_and_others_do() {
        let get = |peer, path, fields: &[_]| asked(peer, Method::GET, path, fields);
        let (near, far) = ("127.0.0.1", "192.0.2.1");
        for (peer, path, fields, expected) in [
            (near, "/stats", &[HERE][..], None),
            ("::1", "/stats", &[("host", "[::1]:9145")], None),
            ("::ffff:127.0.0.1", "/stats", &[HERE], None),
            (near, "/stats", &[("host", "localhost:9145")], None),
            (near, "/stats", &[("host", "evil.example:9145")], Some(STRANGER.reason)),
            (near, "/stats", &[("host", "evil.example:9145"), RIGHT], None),
            (near, "/stats", &[HERE, WRONG_ONE], Some(WRONG.reason)),
            (near, "/stats", &[HERE, ("authorization", "Basic eDp5")], None),
            (near, "/stats", &[HERE, ("via", "1.1 squid")], Some(PASSED_ON.reason)),
            (near, "/stats", &[HERE, ("forwarded", "for=192.0.2.1")], Some(PASSED_ON.reason)),
            (near, "/stats", &[HERE, ("x-forwarded-for", "192.0.2.1")], Some(PASSED_ON.reason)),
            (near, "/stats", &[HERE, ("x-forwarded-host", "")], Some(PASSED_ON.reason)),
            (near, "/stats", &[HERE, ("via", "1.1 squid"), RIGHT], None),
            (near, "/stats", &[HERE, ("via", "1.1 squid"), WRONG_ONE], Some(WRONG.reason)),
            (near, "/healthz", &[HERE, ("via", "1.1 squid")], None),
            (far, "/stats", &[HERE], Some(MISSING.reason)),
            (far, "/stats", &[("host", "proxy.example:9145"), RIGHT], None),
            (far, "/stats", &[HERE, WRONG_ONE], Some(WRONG.reason)),
            (far, "/stats", &[HERE, ("authorization", "Bearer ")], Some(WRONG.reason)),
            (far, "/healthz", &[("host", "proxy.example:9145")], None),
            (far, "/readyz", &[], None),
            (far, "/healthz/", &[], Some(MISSING.reason)),
        ] {
            assert_eq!(get(peer, path, fields), expected, "{peer} {path} {fields:?}");
        }
    }

    #[test]
    fn pages_of_others_change_nothing_and_read_nothing() {
        let post = |fields: &[_]| asked("127.0.0.1", Method::POST, "/purge", fields);
        let get = |fields: &[_]| asked("127.0.0.1", Method::GET, "/stats", fields);
        let (intent, ours) = (("larder-admin", "1"), ("origin", "http://127.0.0.1:9145"));
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(post(&[HERE, intent]), None);
        assert_eq!(post(&[HERE, intent, ours]), None);
        assert_eq!(post(&[HERE, intent, ours, ("origin", "null")]), Some(REPEATED.reason));
        assert_eq!(get(&[HERE, ("host", "evil.example")]), Some(REPEATED.reason));
        assert_eq!(post(&[HERE]), Some(NO_INTENT.reason));
        assert_eq!(post(&[HERE, RIGHT]), Some(NO_INTENT.reason));
        assert_eq!(post(&[HERE, intent, ("origin", "http://evil.example")]), Some(FOREIGN.reason));
        assert_eq!(post(&[HERE, intent, ("origin", "null")]), Some(FOREIGN.reason));
        assert_eq!(post(&[HERE, intent, ("origin", "http://localhost:9145")]), Some(FOREIGN.reason));
        assert_eq!(get(&[HERE, cross]), Some(FOREIGN.reason));
        assert_eq!(get(&[HERE, ("sec-fetch-site", "same-origin")]), None);
        assert_eq!(get(&[HERE, cross, ("sec-fetch-mode", "navigate")]), None);
    }

    #[test]
    fn names_of_others_are_distinguished_from_addresses() {
        let table = [
            ("127.0.0.1:9145", true),
            ("127.0.0.1", true),
            ("[::1]:9145", true),
            ("[::1]", true),
            ("localhost:9145", true),
            ("LOCALHOST", true),
            ("evil.example:9145", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("", false),
        ];
        for (host, expected) in table {
            let fields = [(HOST, host.parse().unwrap())].into_iter().collect();
            assert_eq!(is_by_address(&fields), expected, "{host}");
        }
        assert!(is_by_address(&HeaderMap::new()));
    }
}
