//! A reply to a client, from any source.
//!
//! Listeners write it in their protocol: [`Reply::write_head`] for HTTP/1.1, `write_all_fields` for any. Stored
//! fields are copied unchanged, and the fields that differ between replies are written after them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use larder_semantics::cache_status::CacheStatus;
use larder_semantics::coding::Coding;
use larder_semantics::date;
use larder_semantics::fields::Fields;
use larder_semantics::range::{self, ContentRange};
use larder_semantics::revalidate;
use larder_semantics::status::Why;
use larder_store::fill::{self, Head, Reader};
use larder_store::{Entry, LinesRef};
use larder_words::debug_as;

use crate::base::clock;
use crate::base::outcome::Outcome;
use crate::base::settings::{Hsts, Role};
use crate::exchange::edited::{EditedFields, NONE};
use crate::exchange::encoded::ContentCoder;
use crate::exchange::negotiation::Negotiation;
use crate::exchange::paced::SliceSchedule;
use crate::exchange::pieces::{Piece, PieceQueue};
use crate::exchange::route::SiteNumber;
use crate::exchange::ruling::ReplyEdits;
use crate::http::fields::FieldWriter;
use crate::http::head::RequestHead;
use crate::http::names::POSITION;
use crate::http::response::Lines;
use crate::net::limiter::LimitEntry;
use crate::origin::{Download, UpgradedConnection};

/// The methods that are forwarded, or answered by this proxy.
pub(crate) const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE");

/// A reply to a client.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: StatusCode,
    /// The source of the field lines.
    pub fields: Source,
    /// The age of a stored response, in seconds.
    pub age: Option<u32>,
    /// The range of a part of a stored response.
    pub content_range: Option<ContentRange>,
    /// Field lines for this client only.
    pub extra: Option<Box<HeaderMap>>,
    /// The dependence on the codings that its client accepts.
    pub(crate) negotiated: Negotiation,
    /// Changes of the field lines by rules.
    pub(crate) edits: Option<Arc<ReplyEdits>>,
    /// The site of the request.
    pub site: SiteNumber,
    /// The hash of the request's key in the memory tier; 0 for a request that could not be read.
    pub(crate) hash: u64,
    /// The outcome in the cache.
    pub outcome: Outcome,
    /// The content's length, if it is known before it is sent.
    pub length: Option<u64>,
    /// The content.
    pub content: Content,
    /// The times at which its content is sent, if its rate is limited.
    pub(crate) bandwidth: Option<Arc<SliceSchedule>>,
    /// The entries of the request in limits on requests in progress, until the reply is sent.
    pub(crate) entered: Option<Box<[LimitEntry]>>,
    /// The user whose password or token the request had.
    pub(crate) user: Option<Arc<str>>,
    /// The origin that has answered.
    pub(crate) origin: Option<Box<str>>,
    /// Whether the connection ends after this reply.
    pub close: bool,
}

/// The source of a reply's field lines.
#[derive(Debug)]
pub enum Source {
    /// A stored response.
    Entry(Entry),
    /// A stored response, of which a 304 repeats some fields.
    NotModified(Entry),
    /// A response that is being stored.
    Fill(Arc<Head>),
    /// An origin's answer, whose lines are forwarded.
    Answer(Box<Lines>),
    /// Fields of an origin or of this proxy.
    Fields(Box<HeaderMap>),
}

/// The source of a reply's content.
#[derive(Debug)]
pub enum Content {
    /// No content.
    None,
    /// These bytes, from memory.
    Bytes(Bytes),
    /// Bytes of the stored response that has the fields, from the first position up to and not including the second.
    Stored(u64, u64),
    /// The content of that stored response in another coding than the origin's, or without a coding.
    Coded(Option<Coding>),
    /// Several pieces, one after the other (`multipart/byteranges`).
    Pieces(Vec<Piece>),
    /// Pieces that are found or fetched while the content is sent.
    Queue(Box<PieceQueue>),
    /// The content of a response that is being stored.
    Fill(Box<Reader>),
    /// The content of an origin's answer, which is not stored.
    Origin(Box<Download>),
    /// The content of an origin's answer, stored or not, which is compressed or decompressed while it is sent.
    Encoded(Box<Content>, Box<ContentCoder>),
    /// A tunnel: after the head, the connection uses another protocol.
    Tunnel(Tunnel),
}

/// The other end of a connection that leaves HTTP.
pub enum Tunnel {
    /// The origin agreed to change protocols (101).
    Upgraded(UpgradedConnection),
    /// A `CONNECT` tunnel.
    Tcp(tokio::net::TcpStream),
    /// A `CONNECT` tunnel whose requests this process answers.
    Intercepted(tokio::net::TcpStream, Uninterceptable),
}

/// The reason why a tunnel is not intercepted after all, once that is known.
pub type Uninterceptable = Arc<OnceLock<Why>>;

impl Tunnel {
    /// Returns the place of the reason why it is not intercepted after all.
    pub fn uninterceptable(&self) -> Option<Uninterceptable> {
        match self {
            Self::Intercepted(_, why) => Some(Arc::clone(why)),
            Self::Upgraded(_) | Self::Tcp(_) => None,
        }
    }
}

debug_as!(Tunnel, |_| "Tunnel");

/// The framing of a head.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    /// Whether the client uses HTTP/1.1.
    pub http11: bool,
    /// Whether the connection stays open.
    pub keep_alive: bool,
    /// Whether the request was `HEAD`.
    pub head_only: bool,
}

impl Framing {
    /// Returns the framing of the reply to a request on a listener of this role; `stays`: connections are not being
    /// drained. A proxy keeps no connection of a client of HTTP/1.0, whatever that sends: there may be another proxy
    /// between them that forwards `Connection` blindly (RFC 9112 section 9.3).
    pub(crate) fn of(request: &RequestHead<'_>, role: Role, stays: bool) -> Self {
        let http11 = request.version == Version::HTTP_11;
        Self {
            http11,
            keep_alive: request.keep_alive && stays && (http11 || role == Role::Reverse),
            head_only: request.method == Method::HEAD,
        }
    }
}

/// The fields by which a proxy names itself in every reply, ready to be copied.
#[derive(Clone, Debug)]
pub struct Banner {
    /// The value of `Strict-Transport-Security`, if there is one.
    hsts: Option<String>,
    /// The value of `Via`, and all of its line in HTTP/1.
    via: String,
    via_line: String,
    /// The name of the proxy, as `Cache-Status` begins.
    name: Vec<u8>,
    /// Whether to write `X-Cache`, too.
    x_cache: bool,
}

impl Banner {
    /// Creates the banner of the proxy called `name`.
    pub fn new(name: &str, x_cache: bool) -> Self {
        let mut written = Vec::new();
        CacheStatus::write_name(&mut written, name);
        let via = format!("1.1 {name}");
        Self { hsts: None, via_line: format!("Via: {via}\r\n"), via, name: written, x_cache }
    }

    /// Returns the banner with `Strict-Transport-Security`.
    pub(crate) fn with_hsts(&self, hsts: Hsts) -> Self {
        Self { hsts: Some(hsts.to_string()), ..self.clone() }
    }

    /// Returns the length of the values that differ from proxy to proxy.
    pub(crate) fn len(&self) -> usize {
        self.via.len() + self.name.len() + self.hsts.as_ref().map_or(0, String::len)
    }

    /// Appends the fields, with the outcome of the request, except for those that `stays` denies: rules remove or set them.
    #[inline]
    fn write(&self, out: &mut impl FieldWriter, outcome: &Outcome, stays: impl Fn(&str) -> bool) {
        if let Some(hsts) = self.hsts.as_ref().filter(|_| stays("strict-transport-security")) {
            out.field(b"Strict-Transport-Security", hsts.as_bytes());
        }
        if stays("via") {
            out.line(b"Via", self.via.as_bytes(), self.via_line.as_bytes());
        }
        if stays("cache-status") {
            out.field_with(b"Cache-Status", |out| {
                out.extend_from_slice(&self.name);
                outcome.cache_status("").write_parameters(out);
            });
        }
        if self.x_cache && stays("x-cache") {
            out.field(b"X-Cache", if outcome.is_hit() { b"HIT" } else { b"MISS" });
        }
    }
}

impl Reply {
    /// Creates a reply without content.
    pub fn new(status: StatusCode, fields: Source, outcome: Outcome) -> Self {
        Self {
            status,
            fields,
            age: None,
            content_range: None,
            extra: None,
            negotiated: Negotiation::default(),
            edits: None,
            site: SiteNumber::NONE,
            hash: 0,
            outcome,
            length: None,
            content: Content::None,
            bandwidth: None,
            entered: None,
            user: None,
            origin: None,
            close: false,
        }
    }

    /// Adds the position of the request's change in the stream of purges, if there is one.
    pub(crate) fn at(mut self, position: Option<HeaderValue>) -> Self {
        if let Some(position) = position {
            let name = HeaderName::from_static(POSITION);
            self.extra.get_or_insert_default().insert(name, position);
        }
        self
    }

    /// Creates a reply of this proxy: one line of plain text.
    pub fn text(status: StatusCode, text: String, outcome: Outcome) -> Self {
        let mut fields = HeaderMap::new();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let demanded = match status {
            StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, HeaderValue::from_static("1"))),
            StatusCode::METHOD_NOT_ALLOWED => Some((header::ALLOW, METHODS)),
            _ => None,
        };
        fields.extend(demanded);
        let length = Some(text.len() as u64);
        let (fields, content) = (Source::Fields(fields.into()), Content::Bytes(text.into()));
        Self { length, content, ..Self::new(status, fields, outcome) }
    }

    /// Makes `bytes` its content, of which a reply to HEAD has only the length.
    pub(crate) fn with_bytes(mut self, method: &Method, bytes: Bytes) -> Self {
        self.length = Some(bytes.len() as u64);
        self.content = if *method == Method::HEAD { Content::None } else { Content::Bytes(bytes) };
        self
    }

    /// Returns the first line of this name as text, if it is not about the framing.
    pub fn field(&self, name: &str) -> Option<String> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        match &self.fields {
            Source::Entry(entry) | Source::NotModified(entry) => entry.fields().first(name).map(text),
            Source::Fill(head) => head.fields.view().first(name).map(text),
            Source::Answer(lines) => lines.first(name).map(text),
            Source::Fields(fields) => fields.get(name).map(|value| text(value.as_bytes())),
        }
    }

    /// Whether the response that this is made from has a field of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        match &self.fields {
            Source::Entry(entry) | Source::NotModified(entry) => entry.fields().contains(name),
            Source::Fill(head) => head.fields.view().contains(name),
            Source::Answer(lines) => lines.contains(name),
            Source::Fields(fields) => fields.contains_key(name),
        }
    }

    /// Makes a 304 one that repeats all fields: the node that gets it updates its own copy by them.
    pub(crate) fn for_node(&mut self) {
        if let Source::NotModified(entry) = &self.fields {
            self.fields = Source::Entry(entry.clone());
        }
    }

    /// Makes the reply one for a client that gets content as the origin sent it: another node, or an RPC client.
    pub(crate) fn unnegotiated(mut self) -> Self {
        if let (Content::Coded(_), Source::Entry(entry)) = (&self.content, &self.fields) {
            let len = entry.body().len();
            (self.length, self.content) = (Some(len), Content::Stored(0, len));
        }
        (self.negotiated, self.outcome.coding) = (Negotiation::default(), None);
        self
    }

    /// Records that the reply is sent, which releases its entries in limits. A tunnel keeps them until its end.
    pub(crate) fn is_sent(&mut self) {
        if !matches!(self.content, Content::Tunnel(_)) {
            self.entered = None;
        }
    }

    /// Reads unwanted content to its end.
    pub(crate) async fn drain(self) {
        let content = match self.content {
            Content::Encoded(content, _) => *content,
            content => content,
        };
        match content {
            Content::Fill(mut reader) => loop {
                match reader.next().await {
                    fill::Piece::End(_) => return,
                    _ => reader.sent(),
                }
            },
            Content::Origin(mut download) => while let Ok(Some(_)) = download.next().await {},
            _ => {}
        }
    }

    /// Whether the reply has no content because of its status.
    pub fn is_bodiless(&self) -> bool {
        self.status.is_informational() || matches!(self.status.as_u16(), 204 | 304)
    }

    /// Whether the content has to be sent chunked.
    pub fn is_chunked(&self, framing: &Framing) -> bool {
        framing.http11 && self.length.is_none() && !self.is_bodiless() && !framing.head_only
    }

    /// Whether only the end of the connection can delimit the content.
    pub fn ends_with_connection(&self, framing: &Framing) -> bool {
        self.length.is_none() && !framing.http11 && !self.is_bodiless() && !framing.head_only
    }

    /// Appends the head with the blank line.
    pub fn write_head(&self, out: &mut Vec<u8>, framing: &Framing, banner: &Banner) {
        write_status_line(out, self.status);
        self.write_all_fields(out, banner);
        self.write_framing(out, framing);
        out.extend_from_slice(b"\r\n");
    }

    /// Makes this a reply with the bytes of `part` alone.
    pub(crate) fn narrow(&mut self, part: ContentRange) {
        if let Source::Answer(lines) = &mut self.fields {
            range::ABOUT_CONTENT.iter().for_each(|name| lines.remove(name));
        }
        self.length = Some(part.length());
        self.content_range = Some(part);
    }

    /// Appends all fields except those that delimit the content.
    #[inline]
    pub(crate) fn write_all_fields(&self, out: &mut impl FieldWriter, banner: &Banner) {
        self.write_edited(out);
        for (name, value) in self.extra.iter().flat_map(|extra| extra.iter()) {
            out.mapped(name, value);
        }
        if let Some(range) = &self.content_range {
            out.field_with(b"Content-Range", |out| range.write(out));
        }
        let stays = |name: &str| self.edits.as_deref().is_none_or(|edits| !edits.0.replace(name));
        if let Some(age) = self.age.filter(|_| stays("age")) {
            out.field_with(b"Age", |out| write_number(out, age.into()));
        }
        banner.write(out, &self.outcome, stays);
    }

    /// Appends the fields of the response in this client's form, without those that describe how it was obtained.
    #[inline]
    pub(crate) fn write_edited(&self, out: &mut impl FieldWriter) {
        let edits = self.edits.as_deref().map(|own| &own.0).filter(|edits| !edits.is_empty());
        if edits.is_none() && !self.negotiated.varies() {
            return self.write_fields(out);
        }
        let mut edited = EditedFields::new(out, self.status, self.negotiated, edits.unwrap_or(&NONE));
        self.write_fields(&mut edited);
        edited.finish(self.is_bodiless());
    }

    pub(super) fn write_fields(&self, out: &mut impl FieldWriter) {
        match &self.fields {
            Source::Entry(entry) => write_stored(out, &entry.fields(), self.content_range.is_some()),
            Source::NotModified(entry) => {
                let has_etag = entry.fields().contains("etag");
                let kept = |(name, _): &(&[u8], &[u8])| revalidate::in_not_modified(name, has_etag);
                for (name, value) in entry.fields().iter().filter(kept) {
                    out.field(name, value);
                }
            }
            Source::Fill(head) => write_stored(out, &head.fields.view(), self.content_range.is_some()),
            Source::Answer(lines) => {
                out.forward(lines);
                if !lines.contains("date") {
                    write_date(out, clock::now());
                }
            }
            Source::Fields(fields) => {
                // The length is written with the framing; a length from the origin is not repeated.
                let is_own = |name: &HeaderName| {
                    let is_part = self.content_range.is_some();
                    *name == header::CONTENT_LENGTH
                        || is_part && range::is_about_content(name.as_str().as_bytes())
                };
                for (name, value) in fields.iter().filter(|(name, _)| !is_own(name)) {
                    out.mapped(name, value);
                }
                if !fields.contains_key(header::DATE) {
                    write_date(out, clock::now());
                }
            }
        }
    }

    fn write_framing(&self, out: &mut Vec<u8>, framing: &Framing) {
        if self.status == StatusCode::SWITCHING_PROTOCOLS || matches!(self.content, Content::Tunnel(_)) {
            return;
        }
        if let (StatusCode::UPGRADE_REQUIRED, Source::Answer(lines)) = (self.status, &self.fields) {
            write_demanded(out, lines);
        }
        match self.length {
            Some(length) if !self.is_bodiless() => {
                out.field_with(b"Content-Length", |out| write_number(out, length));
            }
            _ if self.is_chunked(framing) => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            _ => {}
        }
        if !framing.keep_alive {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if !framing.http11 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
    }
}

/// Appends stored fields unchanged, but without those about the stored content if the reply `is_part` of it.
fn write_stored(out: &mut impl FieldWriter, lines: &LinesRef<'_>, is_part: bool) {
    if !is_part || !lines.contains_any(&range::ABOUT_CONTENT) {
        return out.stored(lines);
    }
    for (name, value) in lines.iter().filter(|(name, _)| !range::is_about_content(name)) {
        out.field(name, value);
    }
}

/// Appends the status line, such as `HTTP/1.1 200 OK\r\n`.
pub(crate) fn write_status_line(out: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends the protocols that a 426 demands (RFC 9110 section 15.5.22). In HTTP/2, no field names any.
fn write_demanded(out: &mut Vec<u8>, lines: &Lines) {
    for protocols in lines.lines("upgrade") {
        out.field(b"Upgrade", protocols);
        out.extend_from_slice(b"Connection: upgrade\r\n");
    }
}

fn write_date(out: &mut impl FieldWriter, seconds: u32) {
    out.field(b"Date", &date::format(seconds));
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
