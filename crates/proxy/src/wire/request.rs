//! Converts the head of a request with pseudo-header fields to the type that all protocols share.

use http::{Method, StatusCode, Version};
use larder_http2::Head;
use larder_semantics::purpose;

use super::tunnel;
use crate::base::settings::Limits;
use crate::http::head::{
    Framing, Line, Lines, Refusal, RequestHead, TARGET_TOO_LONG, Target, authority, authority_form,
    expects_continue, is_target, known_scheme,
};

/// The numbers of field lines in small arrays on the stack: one for programs, and one that suffices for most browsers.
pub(crate) const FEWEST: usize = 8;
pub(crate) const FEW: usize = 32;

const NO_PROTOCOL: Refusal = Refusal::new(
    StatusCode::NOT_IMPLEMENTED,
    "of the protocols of extended CONNECT, only websocket is supported",
);

/// Writes the field lines of `received` to the beginning of `lines`.
pub(crate) fn lines<'b, 'l>(received: &Head<'b>, lines: &'l mut [Line<'b>]) -> &'l [Line<'b>] {
    let mut count = 0;
    for (line, (name, value)) in lines.iter_mut().zip(received.fields.iter()) {
        *line = Line { name, value };
        count += 1;
    }
    &lines[..count]
}

/// Returns the head with these `lines`; `end`: it has no content. Errors: the refusal of a request that would also be
/// refused in HTTP/1.1.
pub(crate) fn head<'b>(
    received: &Head<'b>,
    lines: &'b [Line<'b>],
    end: bool,
    limits: &Limits,
) -> Result<RequestHead<'b>, Refusal> {
    let Head { method, protocol, scheme, authority, path, .. } = *received;
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| Refusal::bad("malformed method"))?;
    match protocol {
        // The request to the origin is a `GET`.
        Some(protocol) if tunnel::is_known(protocol) => {
            let head = self::head(&Head { method: "GET", protocol: None, ..*received }, lines, true, limits);
            return head.map(|head| RequestHead { upgrade: true, ..head });
        }
        Some(_) => return Err(NO_PROTOCOL),
        None if method == Method::CONNECT => return connect(authority, lines),
        None => {}
    }
    if path.len() > limits.target_bytes {
        return Err(TARGET_TOO_LONG);
    }
    if !is_target(path) {
        return Err(Refusal::bad("malformed request-target"));
    }
    let authority = self::authority(authority).ok_or(Refusal::bad("malformed host"))?;
    let scheme = known_scheme(scheme).ok_or(Refusal::bad("unknown scheme"))?;
    let target = match path {
        "*" => Target::Asterisk { host: authority },
        path => Target::Absolute { scheme, authority, path },
    };
    let mut expects_continue = false;
    for line in lines.iter().filter(|line| line.name == "expect") {
        expects_continue |= self::expects_continue(line.value)? && !end;
    }
    Ok(RequestHead {
        method,
        target,
        version: Version::HTTP_2,
        fields: Lines::new(lines),
        framing: if end {
            Framing::Length(0)
        } else {
            received.length.map_or(Framing::Chunked, Framing::Length)
        },
        keep_alive: true,
        expects_continue,
        upgrade: false,
        lists_fields: false,
        is_prefetch: lines.iter().any(|line| purpose::is_prefetch(line.name, line.value)),
    })
}

/// Returns the head of a request for a tunnel to `authority`. The client's bytes in the tunnel are no content of the
/// request.
fn connect<'b>(authority: &'b str, lines: &'b [Line<'b>]) -> Result<RequestHead<'b>, Refusal> {
    Ok(RequestHead {
        method: Method::CONNECT,
        target: authority_form(authority)?,
        version: Version::HTTP_2,
        fields: Lines::new(lines),
        framing: Framing::Length(0),
        keep_alive: true,
        expects_continue: false,
        upgrade: false,
        lists_fields: false,
        is_prefetch: false,
    })
}
