//! Request heads: borrowed from the bytes of HTTP/1 ([`parse`]), from the fields of HTTP/2, or from the map of a request
//! that this proxy makes itself (`RequestHead::compose`).
//!
//! `httparse` finds the parts of a head (RFC 9112); this module decides whether they make one message with one length,
//! sent to one host. A message that fails this is refused, never repaired: two parsers of an ambiguous message may see
//! two different ones (request smuggling).

use std::mem::MaybeUninit;

use http::{HeaderMap, Method, StatusCode, Version};
use larder_semantics::fields::Fields;

use super::authority::is_port;
pub use super::authority::known_scheme;
pub use super::authority::{authority, is_authority, is_target};
use super::connection_fields::ConnectionFields;
pub use super::connection_fields::{Framing, expects_continue};
use super::name_lengths::NameLengths;
pub use super::refusal::Refusal;
use crate::base::settings::Limits;

/// The maximum number of field lines of a head, regardless of the configured limit.
pub const MOST_FIELDS: usize = 256;

/// A field line: name and value.
pub type Line<'b> = httparse::Header<'b>;

/// A line without a name, to fill arrays with.
pub const NO_LINE: Line<'_> = httparse::EMPTY_HEADER;

/// Room for the lines of a head. It is not initialised: that would take longer than parsing the lines.
pub type Room<'b> = [MaybeUninit<Line<'b>>; MOST_FIELDS];

/// Returns room for the lines of a head.
#[inline]
pub fn room<'b>() -> Room<'b> {
    [const { MaybeUninit::uninit() }; MOST_FIELDS]
}

/// A request's head, with borrowed fields.
#[derive(Debug)]
pub struct RequestHead<'b> {
    /// The method, case-sensitive.
    pub method: Method,
    /// The request-target as it was sent.
    pub target: Target<'b>,
    /// The version of HTTP that the client uses.
    pub version: Version,
    /// The field lines.
    pub fields: Lines<'b>,
    /// The framing of the content.
    pub framing: Framing,
    /// Whether the client lets the connection stay open after the reply.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends content.
    pub expects_continue: bool,
    /// Whether the client requests another protocol (`Upgrade`, listed in `Connection`).
    pub upgrade: bool,
    /// Whether `Connection` lists further fields, which concern this hop only (RFC 9110 section 7.6.1).
    pub lists_fields: bool,
    /// Whether it is a prefetch: no user has asked for the response yet.
    pub is_prefetch: bool,
}

/// The four forms of a request-target (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'b> {
    /// `/path?query`.
    Origin {
        /// The `Host` field; empty in HTTP/1.0 without one.
        host: &'b str,
        /// Path and query.
        path: &'b str,
    },
    /// `scheme://authority/path?query`.
    Absolute {
        /// `http` or `https`.
        scheme: &'b str,
        /// Host, and port if one was written.
        authority: &'b str,
        /// Path and query; may be empty.
        path: &'b str,
    },
    /// `host:port`, in `CONNECT`.
    Authority(&'b str),
    /// `*`, in `OPTIONS`.
    Asterisk {
        /// The `Host` field.
        host: &'b str,
    },
}

/// The field lines of a head.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'b> {
    lines: &'b [Line<'b>],
    lengths: NameLengths,
}

/// The result of parsing a buffer.
#[derive(Debug)]
pub enum ParseResult<'b> {
    /// A complete head, and its length in bytes.
    Whole(RequestHead<'b>, usize),
    /// The beginning of a head.
    Partial,
}

impl<'b> Lines<'b> {
    /// Wraps these lines, which are known to be well-formed.
    #[inline]
    pub fn new(lines: &'b [Line<'b>]) -> Self {
        let mut lengths = NameLengths::default();
        lines.iter().for_each(|line| lengths.add(line.name.len()));
        Self { lines, lengths }
    }

    /// Whether a line may be called `name`; if not, there is none.
    #[inline]
    pub fn may_have(&self, name: &str) -> bool {
        self.lengths.has(name.len())
    }

    /// Iterates over the field lines: name as sent, value without surrounding whitespace.
    pub fn iter(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + use<'b> {
        self.lines.iter().map(|line| (line.name, line.value))
    }

    /// Returns the number of lines.
    #[inline]
    pub fn count(&self) -> usize {
        self.lines.len()
    }
}

impl Fields for Lines<'_> {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        let lines = if self.may_have(name) { self.lines } else { &[] };
        lines.iter().filter(move |line| line.name.eq_ignore_ascii_case(name)).map(|line| line.value)
    }
}

/// Parses the head at the start of `buffer`.
///
/// # Errors
/// The refusal of a head that is malformed, ambiguous or beyond the limits.
pub fn parse<'b>(
    buffer: &'b [u8],
    lines: &'b mut Room<'b>,
    limits: &Limits,
) -> Result<ParseResult<'b>, Refusal> {
    let most = lines.len().min(limits.head_fields);
    let mut request = httparse::Request::new(&mut []);
    let used = match request.parse_with_uninit_headers(buffer, &mut lines[..most]) {
        Ok(httparse::Status::Complete(used)) if used <= limits.head_bytes => used,
        Ok(httparse::Status::Complete(_)) => return Err(HEAD_TOO_LARGE),
        Ok(httparse::Status::Partial) => return partial(buffer, limits),
        Err(error) => return Err(refusal(error, buffer)),
    };
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Refusal::bad("malformed request line"));
    };
    if has_bare_line_feed(&buffer[..used]) {
        return Err(Refusal::bad("malformed line end"));
    }
    let head = RequestHead::new(method, target, version == 1, request.headers, limits)?;
    Ok(ParseResult::Whole(head, used))
}

impl<'b> RequestHead<'b> {
    /// Returns the head of a request that this proxy makes itself, as a client would in HTTP/1.1. `lines` have `Host`.
    /// Errors: the refusal that a client with this head would get.
    pub fn compose(
        method: &Method,
        target: &'b str,
        lines: &'b [Line<'b>],
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        let first = [method.as_str(), target, "  HTTP/1.1\r\n\r\n"].map(str::len).iter().sum::<usize>();
        let rest = lines.iter().map(|line| line.name.len() + line.value.len() + ": \r\n".len());
        if lines.len() > MOST_FIELDS.min(limits.head_fields) {
            return Err(TOO_MANY_FIELDS);
        }
        if first + rest.sum::<usize>() > limits.head_bytes {
            return Err(HEAD_TOO_LARGE);
        }
        Self::new(method.as_str(), target, true, lines, limits)
    }

    /// Returns the head with these parts, if they make one message of HTTP/1.1 or HTTP/1.0.
    #[inline]
    fn new(
        method: &str,
        target: &'b str,
        http11: bool,
        lines: &'b [Line<'b>],
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        if target.len() > limits.target_bytes {
            return Err(TARGET_TOO_LONG);
        }
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| Refusal::bad("malformed method"))?;
        let seen = ConnectionFields::collect(lines.iter().map(|line| (line.name, line.value)))?;
        let target = self::target(target, &method, seen.host, http11)?;
        let framing = seen.framing(http11)?;
        if method == Method::CONNECT && framing != Framing::Length(0) {
            // What follows would be content for one parser, and a part of the tunnel for another (RFC 9110 section
            // 9.3.6).
            return Err(Refusal::bad("CONNECT with content"));
        }
        Ok(Self {
            method,
            target,
            version: if http11 { Version::HTTP_11 } else { Version::HTTP_10 },
            fields: Lines::new(lines),
            framing,
            keep_alive: if http11 { !seen.close } else { seen.keep_alive && !seen.close },
            expects_continue: http11 && seen.expects_continue,
            upgrade: http11 && seen.upgrade && seen.connection_upgrade,
            lists_fields: seen.lists_fields,
            is_prefetch: seen.is_prefetch,
        })
    }
}

/// Returns the lines of `fields`.
#[inline]
pub fn lines(fields: &HeaderMap) -> Vec<Line<'_>> {
    fields
        .iter()
        .map(|(name, value)| Line { name: name.as_str(), value: value.as_bytes().trim_ascii() })
        .collect()
}

/// Refuses a head beyond its limit.
pub const HEAD_TOO_LARGE: Refusal =
    Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "request head too large");
/// Refuses a target beyond its limit.
pub const TARGET_TOO_LONG: Refusal = Refusal::new(StatusCode::URI_TOO_LONG, "request-target too long");
const TOO_MANY_FIELDS: Refusal =
    Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "too many header fields");

/// Makes a request of HTTP/1.2 or a later minor version one of HTTP/1.1, as which it is understood (RFC 9110 section
/// 6.2). Returns whether it was one.
pub fn lower_version(head: &mut [u8]) -> bool {
    let end = memchr::memchr(b'\n', head).unwrap_or(head.len());
    let line = head[..end].trim_ascii_end();
    let is_later = line.split_last_chunk().is_some_and(|(_, version)| is_later_minor(version));
    if is_later {
        head[line.len() - 1] = b'1';
    }
    is_later
}

/// Whether a version is HTTP/1.2 or a later minor one.
pub(crate) fn is_later_minor(version: &[u8; 8]) -> bool {
    matches!(version, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'])
}

/// What is unusual about the line feeds of a head.
pub(super) struct LineFeeds {
    /// Whether one is bare. Some parsers accept that as the end of a line, others do not; httparse does.
    pub(super) has_bare: bool,
    /// Whether a line begins with white space, and so may continue the one before.
    pub(super) has_fold: bool,
}

impl LineFeeds {
    pub(super) fn of(lines: &[u8]) -> Self {
        let is_fold = |before: u8, byte: u8| (before == b'\n') & ((byte == b' ') | (byte == b'\t'));
        // One pass for both: hardly any head has one of them.
        let is_usual = !has_pair(lines, |before, byte| is_bare(before, byte) | is_fold(before, byte));
        let has_bare = lines.starts_with(b"\n") || !is_usual && has_pair(lines, is_bare);
        Self { has_bare, has_fold: !is_usual && has_pair(lines, is_fold) }
    }
}

/// Whether a line ends in a bare line feed.
pub(crate) fn has_bare_line_feed(lines: &[u8]) -> bool {
    lines.starts_with(b"\n") || has_pair(lines, is_bare)
}

fn is_bare(before: u8, byte: u8) -> bool {
    (byte == b'\n') & (before != b'\r')
}

/// Whether `is_wanted` accepts two bytes in sequence. Compares many at once, where a search would stop at each line.
fn has_pair(bytes: &[u8], is_wanted: impl Fn(u8, u8) -> bool) -> bool {
    const BLOCK: usize = 16;
    let behind = bytes.get(1..).unwrap_or_default();
    let before = &bytes[..behind.len()];
    let (Some(last), Some(end)) = (before.last_chunk(), behind.last_chunk()) else {
        return before.iter().zip(behind).any(|(&before, &byte)| is_wanted(before, byte));
    };
    let mut found = [0; BLOCK];
    let mut compare = |before: &[u8; BLOCK], behind: &[u8; BLOCK]| {
        for ((found, &before), &byte) in found.iter_mut().zip(before).zip(behind) {
            *found |= u8::from(is_wanted(before, byte));
        }
    };
    let (before, behind) = (before.as_chunks().0, behind.as_chunks().0);
    before.iter().zip(behind).for_each(|(before, behind)| compare(before, behind));
    // It overlaps the one before.
    compare(last, end);
    found != [0; BLOCK]
}

#[cold]
fn partial<'b>(buffer: &[u8], limits: &Limits) -> Result<ParseResult<'b>, Refusal> {
    if buffer.len() > limits.target_bytes + 64 && !buffer[..limits.target_bytes + 64].contains(&b'\n') {
        return Err(TARGET_TOO_LONG);
    }
    if buffer.len() >= limits.head_bytes { Err(HEAD_TOO_LARGE) } else { Ok(ParseResult::Partial) }
}

#[cold]
fn refusal(error: httparse::Error, head: &[u8]) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => TOO_MANY_FIELDS,
        httparse::Error::HeaderName => Refusal::bad("malformed header field name"),
        httparse::Error::HeaderValue => Refusal::bad("malformed header field value"),
        httparse::Error::NewLine => Refusal::bad("malformed line end"),
        httparse::Error::Token => Refusal::bad("malformed request line"),
        httparse::Error::Version if !names_version(head) => Refusal::bad("malformed request line"),
        httparse::Error::Version => {
            Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.0 and HTTP/1.1 are spoken here")
        }
        httparse::Error::Status => Refusal::bad("malformed request"),
    }
}

/// Whether the third word of the request line looks like a version.
fn names_version(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let third = line.split(|&byte| byte == b' ').nth(2);
    let version = third.and_then(|word| word.strip_prefix(b"HTTP/"));
    matches!(version, Some([major, b'.', minor, ..]) if major.is_ascii_digit() && minor.is_ascii_digit())
}

fn target<'b>(
    target: &'b str,
    method: &Method,
    host: Option<&'b str>,
    http11: bool,
) -> Result<Target<'b>, Refusal> {
    if http11 && host.is_none() {
        return Err(Refusal::bad("no host"));
    }
    if !is_target(target) {
        return Err(Refusal::bad("malformed request-target"));
    }
    let host = host.unwrap_or_default();
    if *method == Method::CONNECT {
        return authority_form(target);
    }
    if target.starts_with('/') {
        return Ok(Target::Origin { host, path: target });
    }
    if target == "*" && *method == Method::OPTIONS {
        return Ok(Target::Asterisk { host });
    }
    absolute(target).ok_or(Refusal::bad("malformed request-target"))
}

/// Parses the target of a `CONNECT` request.
#[inline]
pub fn authority_form(target: &str) -> Result<Target<'_>, Refusal> {
    let has_port = target.rsplit_once(':').is_some_and(|(_, port)| is_port(port));
    let is_sound = has_port && is_authority(target);
    is_sound.then_some(Target::Authority(target)).ok_or(Refusal::bad("the target of CONNECT is host:port"))
}

fn absolute(target: &str) -> Option<Target<'_>> {
    let (scheme, rest) = target.split_once("://")?;
    let scheme = known_scheme(scheme)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (written, path) = rest.split_at(end);
    authority(written).map(|authority| Target::Absolute { scheme, authority, path })
}

#[cfg(test)]
mod tests;
