//! The head of a request, as the flow knows it.

use http::{Method, StatusCode, Version};

use crate::base::settings::Limits;
use crate::http::head::{Framing, Head, Lines, Refusal, TARGET_TOO_LONG, Target, is_authority, is_target};

/// Lines that are kept on the stack for most requests.
pub(super) const FEW: usize = 32;

const NO_TUNNELS: Refusal = Refusal {
    status: StatusCode::NOT_IMPLEMENTED,
    reason: "CONNECT over HTTP/2 is not supported: use HTTP/1.1",
};

/// Writes the field lines of `received` to the beginning of `lines`.
pub(super) fn lines<'b, 'l>(
    received: &larder_http2::Head<'b>,
    lines: &'l mut [httparse::Header<'b>],
) -> &'l [httparse::Header<'b>] {
    let mut count = 0;
    for (line, (name, value)) in lines.iter_mut().zip(received.fields.iter()) {
        *line = httparse::Header { name, value };
        count += 1;
    }
    &lines[..count]
}

/// The head with these `lines`; `end` says that it has no content.
///
/// # Errors
/// The refusal of a request that HTTP/1.1 would not be allowed to make either.
pub(super) fn head<'b>(
    received: &larder_http2::Head<'b>,
    lines: &'b [httparse::Header<'b>],
    end: bool,
    limits: &Limits,
) -> Result<Head<'b>, Refusal> {
    let larder_http2::Head { method, scheme, authority, path, .. } = *received;
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| Refusal::bad("malformed method"))?;
    if method == Method::CONNECT {
        return Err(NO_TUNNELS);
    }
    if path.len() > limits.target_bytes {
        return Err(TARGET_TOO_LONG);
    }
    if !is_target(path) {
        return Err(Refusal::bad("malformed request-target"));
    }
    if !is_authority(authority) {
        return Err(Refusal::bad("malformed host"));
    }
    let known = ["http", "https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known));
    let scheme = known.ok_or(Refusal::bad("unknown scheme"))?;
    let target = match path {
        "*" => Target::Asterisk { host: authority },
        path => Target::Absolute { scheme, authority, path },
    };
    let expectation = lines.iter().find(|line| line.name == "expect");
    let expects_continue = match expectation {
        None => false,
        Some(line) if line.value.eq_ignore_ascii_case(b"100-continue") => !end,
        Some(_) => {
            return Err(Refusal { status: StatusCode::EXPECTATION_FAILED, reason: "unknown expectation" });
        }
    };
    Ok(Head {
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
    })
}
