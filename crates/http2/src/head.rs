//! The head of a request: its pseudo-header fields, and the check that it is well-formed (RFC 9113 section 8).

use crate::hpack::{Fields, List};
use crate::priority::Priority;

/// A request's head, borrowed from the buffer of the decoder.
#[derive(Clone, Copy, Debug)]
pub struct Head<'s> {
    /// The method: a token, case-sensitive.
    pub method: &'s str,
    /// `:protocol`, the protocol of an extended `CONNECT` (RFC 8441); such a request has all other parts, too.
    pub protocol: Option<&'s str>,
    /// The scheme as sent; empty for an ordinary `CONNECT`.
    pub scheme: &'s str,
    /// `:authority`, or `host` if that is missing. For `CONNECT`, this is the target.
    pub authority: &'s str,
    /// Path and query; empty for an ordinary `CONNECT`.
    pub path: &'s str,
    /// The other fields. Names are in lower case; several `cookie` lines are joined to one. A `host` field is equal to
    /// `authority`.
    pub fields: Fields<'s>,
    /// The content length, if known; 0 when the request has ended.
    pub length: Option<u64>,
}

/// The reason why a head is malformed, for logs.
pub(crate) type Fault = &'static str;

/// The pseudo-header fields of a list.
#[derive(Default)]
struct Parts<'l> {
    method: Option<&'l str>,
    scheme: Option<&'l str>,
    authority: Option<&'l str>,
    path: Option<&'l str>,
    protocol: Option<&'l str>,
    /// The number of pseudo-header fields.
    count: usize,
}

/// The relevant values of the fields other than pseudo-header fields.
struct FieldSummary<'l> {
    host: Option<&'l [u8]>,
    length: Option<u64>,
    priority: Priority,
}

/// Reads the head of a request from `list`. `end`: whether the request has no content.
pub(crate) fn request(list: &mut List, end: bool) -> Result<(Head<'_>, Priority), Fault> {
    if list.is_unsound() {
        return Err("a malformed field, or a field in the wrong place");
    }
    list.join_cookies();
    let all = list.fields();
    let parts = Parts::collect(all)?;
    let fields = all.behind(parts.count);
    let said = FieldSummary::collect(fields)?;
    let method = parts.method.filter(|method| is_token(method)).ok_or("no :method")?;
    let authority = match (parts.authority, said.host) {
        (Some(authority), Some(host))
            if !without_port(authority.as_bytes()).eq_ignore_ascii_case(without_port(host)) =>
        {
            return Err(":authority and host differ");
        }
        (Some(authority), _) => authority,
        (None, Some(host)) => visible(str::from_utf8(host).ok())?,
        (None, None) => return Err("neither :authority nor host"),
    };
    if authority.is_empty() {
        return Err("an empty :authority");
    }
    if parts.protocol.is_some() && (method != "CONNECT" || parts.authority.is_none()) {
        return Err(":protocol without CONNECT and :authority");
    }
    if method == "CONNECT" && said.length.is_some() {
        return Err("CONNECT with content-length");
    }
    let (scheme, path) = match (method, parts.scheme, parts.path) {
        ("CONNECT", None, None) if parts.authority.is_some() && parts.protocol.is_none() => ("", ""),
        ("CONNECT", Some(scheme), Some(path)) if parts.protocol.is_some() && path.starts_with('/') => {
            (scheme, path)
        }
        ("CONNECT", ..) => return Err("CONNECT has :authority, but neither :scheme nor :path"),
        ("OPTIONS", Some(scheme), Some("*")) => (scheme, "*"),
        (_, Some(scheme), Some(path)) if path.starts_with('/') => (scheme, path),
        (_, None, _) => return Err("no :scheme"),
        (_, _, None) => return Err("no :path"),
        _ => return Err("a malformed :path"),
    };
    let length = match (said.length, end) {
        (Some(1..), true) => return Err("content-length without content"),
        (_, true) => Some(0),
        (length, false) => length,
    };
    let protocol = parts.protocol;
    Ok((Head { method, protocol, scheme, authority, path, fields, length }, said.priority))
}

/// Reads the trailer section of a request from `list`.
pub(crate) fn trailers(list: &List) -> Result<Fields<'_>, Fault> {
    if list.is_unsound() {
        return Err("a malformed field, or a field in the wrong place");
    }
    let fields = list.fields();
    for (name, value) in fields.iter() {
        if name.starts_with(':') {
            return Err("a pseudo-header field in a trailer section");
        }
        of_connection(name, value)?;
    }
    Ok(fields)
}

impl<'l> Parts<'l> {
    fn collect(fields: Fields<'l>) -> Result<Self, Fault> {
        let mut parts = Self::default();
        for (name, value) in fields.texts() {
            let part = match name {
                ":method" => &mut parts.method,
                ":scheme" => &mut parts.scheme,
                ":authority" => &mut parts.authority,
                ":path" => &mut parts.path,
                ":protocol" => &mut parts.protocol,
                _ if name.starts_with(':') => return Err("an unknown pseudo-header field"),
                _ => break,
            };
            if part.replace(visible(value)?).is_some() {
                return Err("a repeated pseudo-header field");
            }
            parts.count += 1;
        }
        Ok(parts)
    }
}

impl<'l> FieldSummary<'l> {
    fn collect(fields: Fields<'l>) -> Result<Self, Fault> {
        let mut said = Self { host: None, length: None, priority: Priority::default() };
        for (name, value) in fields.iter() {
            of_connection(name, value)?;
            match name {
                "host" if said.host.replace(value).is_some() => return Err("more than one host"),
                "content-length" => {
                    let length = length(value).ok_or("a malformed content-length")?;
                    if said.length.replace(length).is_some() {
                        return Err("more than one content-length");
                    }
                }
                "priority" => said.priority = said.priority.update(value),
                _ => {}
            }
        }
        Ok(said)
    }
}

/// Rejects fields that concern an HTTP/1 connection (RFC 9113 section 8.2.2).
fn of_connection(name: &str, value: &[u8]) -> Result<(), Fault> {
    match name {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {
            Err("a field of HTTP/1 connections")
        }
        "te" if !value.eq_ignore_ascii_case(b"trailers") => Err("te may only be trailers"),
        _ => Ok(()),
    }
}

/// Returns an authority without the colon of an empty port (RFC 3986 section 3.2.3).
fn without_port(authority: &[u8]) -> &[u8] {
    authority.strip_suffix(b":").unwrap_or(authority)
}

/// Reads a number of at most 63 bits that consists only of digits.
fn length(value: &[u8]) -> Option<u64> {
    let digits = str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|length| i64::try_from(*length).is_ok())
}

fn visible(text: Option<&str>) -> Result<&str, Fault> {
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    text.ok_or("a pseudo-header field has bytes that it must not have")
}

fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}
