//! The head of a request: its pseudo-header fields, and the check that it is well-formed (RFC 9113 section 8).

use crate::hpack::{Fields, Kind, List};
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

/// The values in a list on which the head depends.
#[derive(Default)]
struct Parts<'l> {
    method: Option<&'l str>,
    scheme: Option<&'l str>,
    authority: Option<&'l str>,
    path: Option<&'l str>,
    protocol: Option<&'l str>,
    /// The number of pseudo-header fields, which come first.
    count: usize,
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
    let method = parts.method.filter(|method| is_token(method)).ok_or("no :method")?;
    let authority = match (parts.authority, parts.host) {
        (Some(authority), Some(host))
            if !without_port(authority.as_bytes()).eq_ignore_ascii_case(without_port(host)) =>
        {
            return Err(":authority and host differ");
        }
        (Some(authority), _) => authority,
        (None, Some(host)) => visible(host)?,
        (None, None) => return Err("neither :authority nor host"),
    };
    if authority.is_empty() {
        return Err("an empty :authority");
    }
    if parts.protocol.is_some() && (method != "CONNECT" || parts.authority.is_none()) {
        return Err(":protocol without CONNECT and :authority");
    }
    if method == "CONNECT" && parts.length.is_some() {
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
    let length = match (parts.length, end) {
        (Some(1..), true) => return Err("content-length without content"),
        (_, true) => Some(0),
        (length, false) => length,
    };
    let (protocol, fields) = (parts.protocol, all.behind(parts.count));
    Ok((Head { method, protocol, scheme, authority, path, fields, length }, parts.priority))
}

/// Reads the trailer section of a request from `list`.
pub(crate) fn trailers(list: &List) -> Result<Fields<'_>, Fault> {
    if list.is_unsound() {
        return Err("a malformed field, or a field in the wrong place");
    }
    let fields = list.fields();
    for line in fields.lines() {
        match line.kind {
            kind if kind.is_pseudo() => return Err("a pseudo-header field in a trailer section"),
            Kind::OfConnection => return Err(OF_CONNECTION),
            Kind::Te => te(fields.value(line))?,
            _ => {}
        }
    }
    Ok(fields)
}

impl<'l> Parts<'l> {
    fn collect(fields: Fields<'l>) -> Result<Self, Fault> {
        let mut parts = Self::default();
        for line in fields.lines() {
            let part = match line.kind {
                Kind::Method => &mut parts.method,
                Kind::Scheme => &mut parts.scheme,
                Kind::Authority => &mut parts.authority,
                Kind::Path => &mut parts.path,
                Kind::Protocol => &mut parts.protocol,
                Kind::UnknownPseudo => return Err("an unknown pseudo-header field"),
                kind => {
                    parts.add(kind, fields.value(line))?;
                    continue;
                }
            };
            if part.replace(fields.value_text(line).ok_or(INVISIBLE)?).is_some() {
                return Err("a repeated pseudo-header field");
            }
            parts.count += 1;
        }
        Ok(parts)
    }

    /// Adds a field that is no pseudo-header field.
    fn add(&mut self, kind: Kind, value: &'l [u8]) -> Result<(), Fault> {
        match kind {
            Kind::Host if self.host.replace(value).is_some() => Err("more than one host"),
            Kind::ContentLength => {
                let length = length(value).ok_or("a malformed content-length")?;
                let is_first = self.length.replace(length).is_none();
                is_first.then_some(()).ok_or("more than one content-length")
            }
            Kind::Priority => {
                self.priority = self.priority.update(value);
                Ok(())
            }
            Kind::Te => te(value),
            Kind::OfConnection => Err(OF_CONNECTION),
            _ => Ok(()),
        }
    }
}

const INVISIBLE: Fault = "a pseudo-header field has bytes that it must not have";
/// The fault of a field that concerns an HTTP/1 connection (RFC 9113 section 8.2.2).
const OF_CONNECTION: Fault = "a field of HTTP/1 connections";

/// Checks the value of `te`, which concerns the connection (RFC 9113 section 8.2.2).
fn te(value: &[u8]) -> Result<(), Fault> {
    value.eq_ignore_ascii_case(b"trailers").then_some(()).ok_or("te may only be trailers")
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

/// Returns the value of `host`, which stands for a pseudo-header field, as text.
fn visible(value: &[u8]) -> Result<&str, Fault> {
    let text = str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    text.ok_or(INVISIBLE)
}

fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}
