//! Sends a request to one origin: writes its head with the fields that describe the forwarding.

use std::io::Write;
use std::net::IpAddr;

use http::{HeaderMap, HeaderName, Method, header};
use larder_semantics::fields::Fields;
use larder_semantics::methods;

use crate::base::settings::ClientAddress;
use crate::counts::span::OriginSpan;
use crate::exchange::attempts::interims_of;
use crate::exchange::link::Link;
use crate::exchange::outgoing::is_trace;
use crate::exchange::passes;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::http::body::Upload;
use crate::http::fields::FieldWriter;
use crate::http::names::{TRACEPARENT, TRACESTATE};
use crate::http::response::Head;
use crate::origin::s3::{self, SignedTarget};
use crate::origin::{Client, Download, OriginError, OriginRequest, OutgoingHead, Waits};

/// The initial capacity for the head of a request to an origin, in bytes; few need more.
const HEAD: usize = 1 << 10;

/// The protocol of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
    /// That which the origin chooses in the handshake of TLS, if the request profits from HTTP/2.
    Chosen,
}

/// The destination of a request.
pub(super) struct SiteAddress<'t> {
    pub(super) https: bool,
    pub(super) protocol: Protocol,
    pub(super) authority: &'t str,
    /// The value of `Host`.
    pub(super) host: &'t str,
    pub(super) path: &'t str,
    /// The form of the request with its signature, if the origin is a bucket.
    pub(super) signed: Option<&'t SignedTarget>,
}

/// Sends a request to one origin. Hosts were validated where they were read: in the head of a request, or in the
/// config.
pub(super) async fn once(
    client: &Client,
    plan: &Plan,
    request: &Request,
    fields: &HeaderMap,
    content: &mut Upload,
    to: &SiteAddress<'_>,
) -> Result<(Head, Box<Download>), OriginError> {
    let asking = request.trace.as_deref().map(|trace| trace.ask(to.authority));
    let mut bytes = Vec::new();
    let sent = SentFields { plan, request, fields, signed: to.signed, own: asking.as_ref() };
    let chosen = (to.protocol == Protocol::Chosen && profits_from_http2(request, fields, content))
        .then(|| sent.in_http2(content));
    let head = sent.head(&mut bytes, to, content);
    let mut on_interim = interims_of(request);
    let mut outgoing = OriginRequest {
        https: to.https,
        authority: to.authority,
        method: &request.method,
        content,
        on_interim: Some(&mut on_interim),
        key: Some(&request.key),
        lost_try: Some(&request.lost_try),
        client: Some(request.client.ip()),
        is_alone: authorises_connection(fields),
        waits: Waits {
            connect: request.ruling.connect,
            first_byte: request.ruling.first_byte,
            between: request.ruling.origin_idle,
        },
    };
    let by_choice = match chosen {
        None => Ok(None),
        // In a box: otherwise the state of all other requests would be larger.
        Some(fields) => Box::pin(client.send_by_choice((to.host, to.path, *fields), &mut outgoing)).await,
    };
    let answered = match by_choice.transpose() {
        Some(answered) => answered,
        None => client.send(head, &mut outgoing).await,
    };
    if let Some(asking) = asking {
        let status = answered.as_ref().map(|(head, _)| head.status.as_u16());
        asking.ended(status.map_err(|error| error.why));
    }
    answered
}

/// Whether a request without content is better sent in HTTP/2. One with a range wants a part of large content, which a
/// connection of its own carries faster; an upgrade is one of HTTP/1.1, as are the schemes that authorise a connection.
fn profits_from_http2(request: &Request, fields: &HeaderMap, content: &Upload) -> bool {
    let is_small = content.is_empty() && !fields.contains_key(header::RANGE);
    matches!(request.method, Method::GET | Method::HEAD)
        && is_small
        && request.upgrade.is_none()
        && !authorises_connection(fields)
}

/// Whether the credentials of a request authorise all that follows on its connection to the origin.
pub(crate) fn authorises_connection(fields: &HeaderMap) -> bool {
    let is_of = |given: &[u8], scheme: &[u8]| {
        given.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    fields.lines("authorization").any(|given| is_of(given, b"ntlm ") || is_of(given, b"negotiate "))
}

/// Writes the request line and `Host`.
fn write_request_line(out: &mut Vec<u8>, request: &Request, to: &SiteAddress<'_>) {
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(to.path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(to.host.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// What the fields of a request to an origin are written from.
struct SentFields<'s> {
    plan: &'s Plan,
    request: &'s Request,
    fields: &'s HeaderMap,
    /// The signature for a bucket.
    signed: Option<&'s SignedTarget>,
    /// The span of this try, if requests are traced.
    own: Option<&'s OriginSpan<'s>>,
}

impl SentFields<'_> {
    /// Returns the head in the protocol of the request, HTTP/1.1 if the origin chooses; `bytes` keep what is written.
    fn head<'h>(&self, bytes: &'h mut Vec<u8>, to: &SiteAddress<'h>, content: &Upload) -> OutgoingHead<'h> {
        if to.protocol == Protocol::Http2 {
            return OutgoingHead::Http2 { host: to.host, path: to.path, fields: self.in_http2(content) };
        }
        *bytes = Vec::with_capacity(HEAD);
        write_request_line(bytes, self.request, to);
        self.write(bytes, content);
        bytes.extend_from_slice(b"\r\n");
        OutgoingHead::Http1(bytes)
    }

    fn in_http2(&self, content: &Upload) -> Box<HeaderMap> {
        let mut sent = Box::default();
        self.write(&mut *sent, content);
        sent
    }

    /// Writes all fields but `Host`.
    fn write(&self, out: &mut impl FieldWriter, content: &Upload) {
        let &Self { plan, request, fields, signed, own } = self;
        // The fields that describe the forwarding are written below; those from clients have been removed before.
        let is_written_below = |name: &HeaderName| {
            name == header::VIA
                || (own.is_some() && name == TRACEPARENT)
                // It describes a span that was not sent, or cannot be read (W3C Trace Context section 4.2).
                || (name == TRACESTATE && request.trace.as_ref().is_some_and(|trace| trace.is_new()))
                || (signed.is_some() && s3::is_private(name.as_str()))
                // Content of a known length is sent without trailers.
                || (name == header::TRAILER && content.length().is_some())
        };
        for (name, value) in fields.iter().filter(|(name, _)| !is_written_below(name)) {
            out.mapped(name, value);
        }
        let signature = signed.iter().flat_map(|signed| &signed.fields);
        signature.for_each(|(name, value)| out.field(name.as_bytes(), value.as_bytes()));
        // An origin could show the client of a TRACE the credential.
        if let Some(credential) = request.ruling.credential.as_ref().filter(|_| signed.is_none())
            && !is_trace(&request.method)
        {
            out.mapped(&header::AUTHORIZATION, credential);
        }
        if let Some(own) = own {
            out.field(b"Traceparent", own.traceparent().as_bytes());
        }
        introduce(out, plan, request, fields);
        let expected = methods::expects_content(&request.method);
        match content.length() {
            Some(0) if !expected => {}
            Some(length) => {
                out.field(b"Content-Length", itoa::Buffer::new().format(length).as_bytes());
            }
            None => out.field(b"Transfer-Encoding", b"chunked"),
        }
        if !content.is_empty() && is_expecting(request) {
            out.field(b"Expect", b"100-continue");
        }
        if let Some(upgrade) = &request.upgrade {
            out.field(b"Upgrade", upgrade.as_bytes());
            out.field(b"Connection", b"upgrade");
        }
    }
}

/// Writes the fields that name this proxy and the client (RFC 9110 section 7.6.3, RFC 7239), but for those that rules have
/// set: those from clients have been removed before.
fn introduce(out: &mut impl FieldWriter, plan: &Plan, request: &Request, fields: &HeaderMap) {
    passes::write_via(out, plan, request, fields);
    let client = request.client.ip();
    let (host, proto) = (&request.authority, request.scheme);
    let settings = &plan.settings;
    let told = match request.route {
        Route::Site(_) => settings.client_address,
        Route::Anywhere => settings.forward.client_address,
    };
    // Names are compared, which costs less than parsing one.
    let is_open = |name: &str| !fields.contains(name);
    match told {
        ClientAddress::Off => {}
        ClientAddress::XForwardedFor => {
            if is_open("x-forwarded-for") {
                out.field_with(b"X-Forwarded-For", |out| write_address(out, client));
            }
            if is_open("x-forwarded-proto") {
                out.field(b"X-Forwarded-Proto", proto.as_bytes());
            }
            // A request in HTTP/1.0 may have no host.
            if !host.is_empty() && is_open("x-forwarded-host") {
                out.field(b"X-Forwarded-Host", host.as_bytes());
            }
        }
        ClientAddress::Forwarded if !is_open("forwarded") => {}
        ClientAddress::Forwarded => out.field_with(b"Forwarded", |out| {
            // Writing to a vector does not fail.
            let _ = match client.is_ipv6() {
                true => write!(out, "for=\"[{client}]\";"),
                false => write!(out, "for={client};"),
            };
            if !host.is_empty() {
                let _ = write!(out, "host=\"{host}\";");
            }
            let _ = write!(out, "proto={proto}");
        }),
    }
}

/// Appends an address. The usual ones, of IPv4, are written without the formatter, which takes some 900 instructions.
fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(address) = address else {
        // Writing to a vector does not fail.
        let _ = write!(out, "{address}");
        return;
    };
    let (mut digits, mut length) = ([0; "255.255.255.255.".len()], 0);
    for octet in address.octets() {
        let mut push = |digit| {
            digits[length] = digit;
            length += 1;
        };
        if octet >= 100 {
            push(b'0' + octet / 100);
        }
        if octet >= 10 {
            push(b'0' + octet / 10 % 10);
        }
        push(b'0' + octet % 10);
        push(b'.');
    }
    out.extend_from_slice(&digits[..length - 1]);
}

/// Whether the client waits for `100 Continue`. The origin decides about it.
pub(super) fn is_expecting(request: &Request) -> bool {
    request.link.as_ref().is_some_and(Link::is_expecting)
}
