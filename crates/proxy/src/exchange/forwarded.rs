//! Fields about the path of a request to this proxy. They are accepted only from trusted proxies, and never forwarded
//! unchanged.
//!
//! Origins and frameworks derive addresses, links and even the method from such fields, none of which is part of the
//! cache key: a client could have a response stored that misleads all others. Therefore [`is_dropped`] fields are
//! removed. The scheme and host from a trusted proxy become the target, and so a part of the key; the client from a
//! trusted proxy becomes the client's address. Origins get both in fields that this proxy writes itself.

use std::net::{IpAddr, SocketAddr};

use http::Method;
use larder_semantics::fields::{is_open, list};

use super::arrival::Arrival;
use crate::base::networks::host_of;
use crate::base::settings::{Role, Trust};
use crate::http::head::{Lines, Refusal, RequestHead, Target, authority};
use crate::http::names::{CLIENT_CERT, CLIENT_CERT_CHAIN, PURGE};

/// Fields that origins may trust although they are not part of the cache key. [`is_dropped`] also drops those with these
/// [`BEGINNINGS`], `Larder-...`, and `X-...-Override`.
const DROPPED: [&str; 63] = [
    "forwarded",
    "forwarded-for",
    "x-real-ip",
    "x-real-host",
    "x-client-ip",
    "x-cluster-client-ip",
    "cluster-client-ip",
    "true-client-ip",
    "x-true-client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "cloudfront-viewer-address",
    "fly-client-ip",
    "x-nf-client-connection-ip",
    "x-vercel-forwarded-for",
    "fastly-client-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "client-ip",
    "x-remote-ip",
    "x-remote-addr",
    "x-originating-ip",
    "x-proxyuser-ip",
    "proxy-client-ip",
    "wl-proxy-client-ip",
    "x-host",
    "x-proxy-host",
    "x-backend-host",
    "x-scheme",
    "x-url-scheme",
    "x-arr-ssl",
    "front-end-https",
    "cf-visitor",
    "cloudfront-forwarded-proto",
    "fastly-ssl",
    "x-rewrite-url",
    "x-ms-original-url",
    "x-proxy-url",
    "base-url",
    "request-uri",
    "x-request-uri",
    // The certificate of the client is written again, if there is one (RFC 9440).
    CLIENT_CERT,
    CLIENT_CERT_CHAIN,
    "script-name",
    "x-script-name",
    "path-info",
    "x-path-info",
    "x-sendfile-type",
    "x-accel-mapping",
    // Next.js takes these for its own.
    "x-matched-path",
    "x-now-route-matches",
    "x-invoke-path",
    "x-invoke-query",
    "x-invoke-output",
    "x-invoke-status",
    "x-invoke-error",
    // Nuxt and Astro take these.
    "x-nuxt-no-ssr",
    "x-astro-path",
    "x-astro-locals",
    // For a client that claims to assemble pages, origins leave places for the parts (ESI).
    "surrogate-capability",
    // Origins fetch the profile of the device at this URL.
    "wap-profile",
    // CGI programs read it as the variable HTTP_PROXY.
    "proxy",
];

const BEGINNINGS: [&str; 10] = [
    "x-forwarded",
    "x-forward-",
    "x-forwarder-",
    "x-original-",
    "x-http-",
    "x-envoy-",
    // The client's address and place, and whether App Engine itself asks.
    "x-appengine-",
    "x-middleware-",
    // React Router takes these for the mode and the data of a page.
    "x-react-router-",
    "x-wap-profile",
];

const NOT_TLS: Refusal = Refusal::misdirected(
    "this listener has no TLS: only a proxy in trust may forward requests for https to it",
);

const ONLY_TLS: Refusal = Refusal::misdirected(
    "this listener is for TLS: only a proxy in trust may forward requests for http to it",
);

const MISDIRECTED: Refusal =
    Refusal::misdirected("the request is for another host than the tunnel in which it was sent");

const OPEN_QUOTE: Refusal = Refusal::bad("a quoted string in Forwarded does not end");

/// The information about a request from a trusted proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ForwardedFields<'b> {
    client: Option<IpAddr>,
    scheme: Option<&'static str>,
    host: Option<&'b str>,
}

/// The places in [`DROPPED`] of the names with each length, and of those with each first letter, as bits. A request has few
/// names, but each is looked for.
static PLACES: ([u64; 32], [u64; 32]) = {
    let (mut by_length, mut by_letter, mut at) = ([0; 32], [0; 32], 0);
    while at < DROPPED.len() {
        by_length[DROPPED[at].len()] |= 1 << at;
        by_letter[letter(DROPPED[at])] |= 1 << at;
        at += 1;
    }
    (by_length, by_letter)
};

/// Returns the number of the first letter of `name`, which is not empty. Other bytes may have the same number.
const fn letter(name: &str) -> usize {
    (name.as_bytes()[0] % 32) as usize
}

/// The bytes that all servers leave in names.
static PLAIN: [bool; 256] = {
    let (mut plain, mut at) = ([false; 256], 0);
    while at < 256 {
        plain[at] = (at as u8).is_ascii_alphanumeric() || at as u8 == b'-';
        at += 1;
    }
    plain
};

/// Whether a request field of this name is never forwarded.
pub fn is_dropped(name: &str) -> bool {
    let begins = |with: &str| name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    // CGI maps X-Forwarded-Host and X_Forwarded_Host to one variable; some servers do the same for other characters.
    let is_plain = name.bytes().all(|byte| PLAIN[usize::from(byte)]);
    let is_override = || name.len() > 9 && name[name.len() - 9..].eq_ignore_ascii_case("-override");
    !is_plain
        || begins("larder-")
        || (begins("x-") && (BEGINNINGS.into_iter().any(begins) || is_override()))
        || is_listed(name)
}

/// Whether a field of this name, in a request with this head, is one that applications expect in other requests, although it
/// changes the page in this one, too: Ghost expects it with a POST, and Next.js in requests for data.
pub(super) fn is_out_of_place(name: &str, head: &RequestHead<'_>) -> bool {
    let is = |own: &str| name.eq_ignore_ascii_case(own);
    let (Target::Origin { path, .. } | Target::Absolute { path, .. }) = head.target else { return false };
    let is_for_data = || path.split('?').next().is_some_and(|path| path.contains("/_next/data/"));
    matches!(head.method, Method::GET | Method::HEAD)
        && (is("x-ghost-preview") || is("x-nextjs-data") && !is_for_data())
}

fn is_listed(name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    let (by_length, by_letter) = &PLACES;
    let mut places = by_length.get(name.len()).copied().unwrap_or_default() & by_letter[letter(name)];
    while places != 0 {
        if DROPPED[places.trailing_zeros() as usize].eq_ignore_ascii_case(name) {
            return true;
        }
        places &= places - 1;
    }
    false
}

/// Returns the client of a request from `peer`. On a reverse listener, the target gets the scheme that the client used;
/// if `peer` is a trusted proxy, it gets the scheme and host of the client's request to that proxy. Errors: the refusal
/// of a target whose scheme differs from the connection's, and of a `Forwarded` whose elements cannot be separated: a
/// client could hide the proxy's part behind an open quote.
pub(crate) fn believe(
    trust: &Trust,
    arrival: Arrival,
    peer: SocketAddr,
    head: &mut RequestHead<'_>,
) -> Result<SocketAddr, Refusal> {
    let is_reverse = arrival.role == Role::Reverse;
    if is_reverse
        && arrival.tls
        && let Target::Origin { host, path } = head.target
    {
        head.target = Target::Absolute { scheme: "https", authority: host, path };
    }
    if !trust.has(peer.ip()) {
        let is_https = match head.target {
            Target::Absolute { scheme, .. } => scheme == "https",
            _ => arrival.tls,
        };
        return match is_reverse && is_https != arrival.tls && head.method.as_str() != PURGE {
            true if arrival.tls => Err(ONLY_TLS),
            true => Err(NOT_TLS),
            false => Ok(peer),
        };
    }
    let told = ForwardedFields::of(trust, head.fields)?;
    if is_reverse {
        head.target = told.target(head.target);
    }
    let real = trust.real_ip.as_ref().and_then(|name| one_address(head.fields, name.as_str()));
    Ok(real.or(told.client).map_or(peer, |client| SocketAddr::new(client, 0)))
}

/// Makes the target of a request in an intercepted tunnel one over https. `site` is the host of the tunnel, with its port
/// if that is not 443. Errors: the refusal of a request for another host or scheme.
pub(crate) fn direct(site: &str, head: &mut RequestHead<'_>) -> Result<(), Refusal> {
    let named = match head.target {
        Target::Origin { host, .. } | Target::Asterisk { host } => host,
        Target::Absolute { scheme: "https", authority, .. } => authority,
        Target::Absolute { .. } | Target::Authority(_) => return Err(MISDIRECTED),
    };
    if !is_site(named.strip_suffix(":443").unwrap_or(named), site) {
        return Err(MISDIRECTED);
    }
    match head.target {
        Target::Origin { host, path } => {
            head.target = Target::Absolute { scheme: "https", authority: host, path };
        }
        // It is about that host, not about this proxy (RFC 9112 section 3.2.4).
        Target::Asterisk { host } => {
            head.target = Target::Absolute { scheme: "https", authority: host, path: "" };
        }
        _ => {}
    }
    Ok(())
}

/// Whether `named` is this host and port, written with or without the final dot of an absolute name.
fn is_site(named: &str, site: &str) -> bool {
    let (host, port) = named.split_at(host_of(named).len());
    let host = host.strip_suffix('.').unwrap_or(host);
    let own = site.split_at_checked(host.len());
    own.is_some_and(|(own, own_port)| own.eq_ignore_ascii_case(host) && own_port == port)
}

impl<'b> ForwardedFields<'b> {
    /// Reads the fields. `Forwarded` is ignored if there is any of the `X-Forwarded-*` fields, regardless of their
    /// content.
    fn of(trust: &Trust, fields: Lines<'b>) -> Result<Self, Refusal> {
        const NAMES: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];
        if !NAMES.iter().any(|name| lines(fields, name).next().is_some()) {
            return Self::of_forwarded(trust, fields);
        }
        let last = |name| parts(fields, name).last();
        let mut client = None;
        parts(fields, "x-forwarded-for").for_each(|hop| client = next(trust, client, address(hop)));
        let scheme = last("x-forwarded-proto").and_then(scheme);
        Ok(Self { client, scheme, host: last("x-forwarded-host").and_then(host) })
    }

    /// Reads `Forwarded` (RFC 7239): the element of the client tells the scheme and host of its request.
    fn of_forwarded(trust: &Trust, fields: Lines<'b>) -> Result<Self, Refusal> {
        if lines(fields, "forwarded").any(is_open) {
            return Err(OPEN_QUOTE);
        }
        let mut told = Self::default();
        for element in lines(fields, "forwarded").flat_map(list).map(Self::of_element) {
            let client = next(trust, told.client, element.client);
            if client.is_none() || client != told.client {
                told = Self { client, ..element };
            }
        }
        Ok(told)
    }

    fn of_element(element: &'b [u8]) -> Self {
        let mut told = Self::default();
        for pair in element.split(|&byte| byte == b';') {
            let mut parts = pair.splitn(2, |&byte| byte == b'=');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let value = parts.next().unwrap_or_default().trim_ascii();
            let value =
                value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
            match name {
                name if name.eq_ignore_ascii_case(b"for") => told.client = address(value),
                name if name.eq_ignore_ascii_case(b"proto") => told.scheme = scheme(value),
                name if name.eq_ignore_ascii_case(b"host") => told.host = host(value),
                _ => {}
            }
        }
        told
    }

    fn target(self, target: Target<'b>) -> Target<'b> {
        let (scheme, authority, path) = match target {
            Target::Origin { host, path } => ("http", host, path),
            Target::Absolute { scheme, authority, path } => (scheme, authority, path),
            other => return other,
        };
        let (scheme, authority) = (self.scheme.unwrap_or(scheme), self.host.unwrap_or(authority));
        Target::Absolute { scheme, authority, path }
    }
}

/// Returns the client after one more hop: the rightmost address that is not trusted, or else the leftmost one.
/// Addresses before an unreadable one cannot be trusted.
fn next(trust: &Trust, known: Option<IpAddr>, hop: Option<IpAddr>) -> Option<IpAddr> {
    match hop {
        Some(hop) if trust.has(hop) => known.or(Some(hop)),
        hop => hop,
    }
}

/// Returns the values of all lines called `name`.
fn lines<'b>(fields: Lines<'b>, name: &str) -> impl Iterator<Item = &'b [u8]> {
    fields.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Returns the address in the only line called `name`.
fn one_address(fields: Lines<'_>, name: &str) -> Option<IpAddr> {
    let mut values = lines(fields, name);
    let value = values.next().filter(|_| values.next().is_none())?;
    address(value.trim_ascii())
}

/// Returns the parts between commas in all lines called `name`. Quotes have no meaning in `X-Forwarded-*`.
fn parts<'b>(fields: Lines<'b>, name: &'static str) -> impl Iterator<Item = &'b [u8]> {
    let parts = lines(fields, name).flat_map(|value| value.split(|&byte| byte == b','));
    parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// Parses an address, with or without a port.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let alone = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = alone.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// Parses a scheme. For a WebSocket, some proxies write that of its URL.
fn scheme(text: &[u8]) -> Option<&'static str> {
    let known = [("http", "http"), ("https", "https"), ("ws", "http"), ("wss", "https")];
    known.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name.as_bytes())).map(|(_, scheme)| scheme)
}

fn host(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok().and_then(authority)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use proptest::prelude::*;

    use super::*;
    use crate::base::settings::Limits;
    use crate::http::head::{self, ParseResult};

    /// Returns the client and the target of a request with these lines; proxies in 10.0.0.0/8 are trusted.
    fn believed(lines: &str, peer: &str) -> Option<(String, String)> {
        believed_under(None, lines, peer)
    }

    /// [`believed`], with the field that has the client's address alone.
    fn believed_under(real_ip: Option<HeaderName>, lines: &str, peer: &str) -> Option<(String, String)> {
        let text = format!("GET /a HTTP/1.1\r\nHost: site.test\r\n{lines}\r\n");
        let (mut room, limits) = (head::room(), Limits::default());
        let Ok(ParseResult::Whole(mut head, _)) = head::parse(text.as_bytes(), &mut room, &limits) else {
            return None;
        };
        let proxies =
            ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap()).into_iter().collect();
        let trust = Trust { proxies, real_ip };
        let peer = SocketAddr::new(peer.parse().unwrap(), 7);
        let arrival = Arrival { role: Role::Reverse, tls: false };
        let client = believe(&trust, arrival, peer, &mut head).ok()?.ip().to_string();
        let target = match head.target {
            Target::Absolute { scheme, authority, path } => [scheme, "://", authority, path].concat(),
            Target::Origin { host, path } => [host, path].concat(),
            other => format!("{other:?}"),
        };
        Some((client, target))
    }

    #[test]
    fn the_client_is_the_rightmost_address_that_is_not_trusted() {
        let table = [
            ("", "10.0.0.1"),
            ("X-Forwarded-For: 192.0.2.1", "192.0.2.1"),
            ("X-Forwarded-For: 198.51.100.9, 192.0.2.1", "192.0.2.1"),
            ("X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For: 192.0.2.1", "192.0.2.1"),
            ("X-Forwarded-For: 198.51.100.9, 192.0.2.1, 10.9.9.9", "192.0.2.1"),
            ("X-Forwarded-For: 10.1.1.1, 10.9.9.9", "10.1.1.1"),
            ("X-Forwarded-For: 192.0.2.1:4711", "192.0.2.1"),
            ("X-Forwarded-For: [2001:db8::1]:4711", "2001:db8::1"),
            ("X-Forwarded-For: 2001:db8::1", "2001:db8::1"),
            ("X-Forwarded-For: ::ffff:192.0.2.1", "192.0.2.1"),
            ("X-Forwarded-For: 192.0.2.1, unknown", "10.0.0.1"),
            ("X-Forwarded-For: \", 192.0.2.1\r\nForwarded: for=10.1.1.1", "192.0.2.1"),
            ("X-Forwarded-For: \"\r\nForwarded: for=198.51.100.9", "10.0.0.1"),
            ("X-Forwarded-Proto: https\r\nForwarded: for=198.51.100.9", "10.0.0.1"),
            ("X-Forwarded-For: 192.0.2.1, unknown, 10.9.9.9", "10.9.9.9"),
            ("Forwarded: for=192.0.2.1", "192.0.2.1"),
            ("Forwarded: for=198.51.100.9, for=\"[2001:db8::1]:80\", for=10.9.9.9", "2001:db8::1"),
            ("Forwarded: for=192.0.2.1, for=_hidden", "10.0.0.1"),
            ("Forwarded: for=198.51.100.9\r\nX-Forwarded-For: 192.0.2.1", "192.0.2.1"),
        ];
        for (lines, client) in table {
            let lines = if lines.is_empty() { String::new() } else { format!("{lines}\r\n") };
            assert_eq!(believed(&lines, "10.0.0.1").unwrap().0, client, "{lines}");
            assert_eq!(believed(&lines, "192.0.2.77").unwrap().0, "192.0.2.77", "{lines}");
        }
        assert_eq!(believed("X-Forwarded-For: 192.0.2.1\r\n", "::ffff:10.0.0.1").unwrap().0, "192.0.2.1");
        assert_eq!(believed("Forwarded: for=\", for=192.0.2.1\r\n", "10.0.0.1"), None);
    }

    #[test]
    fn the_field_with_the_address_alone_counts_from_trusted_proxies() {
        let client = |lines: &str, peer: &str| {
            believed_under(Some(HeaderName::from_static("cf-connecting-ip")), lines, peer).unwrap().0
        };
        for (lines, expected) in [
            ("CF-Connecting-IP: 192.0.2.1\r\nX-Forwarded-For: 198.51.100.9\r\n", "192.0.2.1"),
            ("cf-connecting-ip:  2001:db8::1 \r\n", "2001:db8::1"),
            ("X-Forwarded-For: 198.51.100.9\r\n", "198.51.100.9"),
            ("CF-Connecting-IP: unknown\r\nX-Forwarded-For: 198.51.100.9\r\n", "198.51.100.9"),
            ("CF-Connecting-IP: 192.0.2.1\r\nCF-Connecting-IP: 192.0.2.2\r\n", "10.0.0.1"),
            ("X-Real-IP: 192.0.2.1\r\n", "10.0.0.1"),
        ] {
            assert_eq!(client(lines, "10.0.0.1"), expected, "{lines}");
            assert_eq!(client(lines, "192.0.2.77"), "192.0.2.77", "{lines}");
        }
    }

    #[test]
    fn the_target_is_what_a_trusted_proxy_was_asked_for() {
        let table = [
            ("X-Forwarded-Proto: https", "https://site.test/a"),
            ("X-Forwarded-Proto: HTTPS\r\nX-Forwarded-Host: www.test:8443", "https://www.test:8443/a"),
            ("X-Forwarded-Proto: http, https", "https://site.test/a"),
            ("X-Forwarded-Proto: wss", "https://site.test/a"),
            ("Forwarded: for=192.0.2.1;proto=ws", "http://site.test/a"),
            ("X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: a b", "http://site.test/a"),
            ("Forwarded: for=192.0.2.1;proto=https;host=\"www.test\"", "https://www.test/a"),
            (
                "Forwarded: for=9.9.9.9;host=x, for=192.0.2.1;proto=https, for=10.9.9.9;proto=http",
                "https://site.test/a",
            ),
            ("Forwarded: host=evil.test, for=192.0.2.1;proto=https", "https://site.test/a"),
            ("X-Forwarded-For: 192.0.2.1\r\nForwarded: proto=https;host=evil.test", "http://site.test/a"),
        ];
        for (lines, target) in table {
            let lines = format!("{lines}\r\n");
            assert_eq!(believed(&lines, "10.0.0.1").unwrap().1, target, "{lines}");
            assert_eq!(believed(&lines, "192.0.2.77").unwrap().1, "site.test/a", "{lines}");
        }
    }

    #[test]
    fn fields_that_origins_trust_are_dropped_in_each_spelling() {
        for name in
            ["X-Forwarded-For", "x-forwarded-host", "X_Forwarded_Host", "X.Forwarded.Host", "FORWARDED"]
        {
            assert!(is_dropped(name), "{name}");
        }
        for name in ["X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "Larder-Peer", "my_field"]
            .into_iter()
            .chain(["Client-Cert", "client_cert", "CLIENT-CERT-CHAIN", "Client_Cert-Chain"])
        {
            assert!(is_dropped(name), "{name}");
        }
        for name in [
            "X-Http-Path-Override",
            "X-HTTP-Method",
            "X-Host-Override",
            "X-Proxyuser-Ip",
            "X-Envoy-External-Address",
            "X-Envoy-Original-Path",
            "X-Wap-Profile",
            "x-wap-profile-diff",
            "X-Middleware-Subrequest",
            "x-middleware-rewrite",
            "X-Now-Route-Matches",
            "X-Forward-For",
            "WL-Proxy-Client-IP",
        ] {
            assert!(is_dropped(name), "{name}");
        }
        for name in ["RSC", "Next-Router-State-Tree", "Next-Action", "X-Nextjs-Data", "X-HTTP", "Override"] {
            assert!(!is_dropped(name), "{name}");
        }
        for name in ["Accept", "Cookie", "X-Requested-With", "Via", "X-Api-Key", "X-Forward", "Larder", "x"] {
            assert!(!is_dropped(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_words_of_a_trusted_proxy_are_read_without_a_panic(
            forwarded in "[ -~]{0,60}", hops in "[ -~]{0,60}", host in "[ -~]{0,30}",
        ) {
            let lines = format!("Forwarded: {forwarded}\r\nX-Forwarded-Host: {host}\r\n");
            believed(&lines, "10.0.0.1");
            believed(&format!("{lines}X-Forwarded-For: {hops}\r\n"), "10.0.0.1");
        }
    }
}
