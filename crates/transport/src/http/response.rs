//! A parser of the heads of origins' answers (RFC 9112).
//!
//! It is more tolerant than the parser of requests where that is harmless: line ends may be bare line feeds (RFC 9112
//! section 2.2), after which the connection is not reused, and a folded line is unfolded. A head that leaves the length
//! of the content in doubt is an error.

use std::fmt;
use std::mem::MaybeUninit;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use larder_semantics::fields::{Fields, members, to_map};
use larder_semantics::storable::{self, MOST_CONNECTION_OPTIONS};
use larder_store::entry::LONGEST_HEAD;
use smallvec::SmallVec;

use super::head::{LineFeeds, is_later_minor};
use super::name_lengths::NameLengths;
use super::names::POSITION;

/// The longest head, in bytes: the limit of a stored response.
pub const LONGEST: usize = LONGEST_HEAD;
/// Numbers of field lines that few heads exceed: while a head is parsed, and in a parsed one.
const MANY_FIELDS: usize = 128;
const USUAL_FIELDS: usize = 16;

/// The head of an answer.
#[derive(Debug)]
pub struct Head {
    /// The status code.
    pub status: StatusCode,
    /// The field lines.
    pub fields: Box<Lines>,
    /// Whether the head allows the connection to be reused.
    pub keep_alive: bool,
    /// The framing of the content.
    pub framing: Framing,
}

/// The most interim responses before a final one, and the most bytes of their fields. Without a limit, an origin could
/// occupy a request with them until its time is over.
const MOST_INTERIMS: usize = 32;
const LONGEST_INTERIMS: usize = LONGEST;

/// The number and length of the interim responses that came before a final one.
#[derive(Debug, Default)]
pub struct Interims {
    count: usize,
    bytes: usize,
}

/// The field lines of an answer, in order, in the form in which they are sent to a client.
#[derive(Clone, Default)]
pub struct Lines {
    /// The lines, each as `Name: value\r\n`.
    bytes: Vec<u8>,
    index: SmallVec<[Line; USUAL_FIELDS]>,
    lengths: NameLengths,
    /// Whether `Connection` lists other fields than those that always concern the connection: never in HTTP/2. Nothing adds
    /// `Connection` to parsed lines.
    lists_fields: bool,
}

/// The position of a line, and the lengths of its name and value.
#[derive(Clone, Copy)]
struct Line {
    start: u32,
    name: u32,
    value: u32,
    /// The first letter of its name, in lower case.
    first: u8,
    /// Whether it is not forwarded, whatever `Connection` lists.
    ends_here: bool,
}

/// The framing of an answer's content (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A length in bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Ended by the close of the connection.
    Close,
}

/// The reason why bytes are no valid answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Parses the head at the start of `buffer`, in answer to `method`, and returns it with its length in bytes; `None` if
/// it is not complete yet. Errors: the fault of the head.
pub fn parse(buffer: &[u8], method: &Method) -> Result<Option<(Head, usize)>, Malformed> {
    let mut few = [const { MaybeUninit::uninit() }; MANY_FIELDS];
    match parse_into(buffer, method, &mut few) {
        Err(TOO_MANY) => {
            let most = memchr::memchr_iter(b'\n', &buffer[..buffer.len().min(LONGEST)]).count();
            parse_into(buffer, method, &mut vec![MaybeUninit::uninit(); most])
        }
        Err(LATER_VERSION) => {
            let mut lowered = buffer[..buffer.len().min(LONGEST)].to_vec();
            lowered[MINOR] = b'1';
            parse(&lowered, method)
        }
        parsed => parsed,
    }
}

/// There are more fields than lines to parse them into.
const TOO_MANY: Malformed = Malformed("too many fields");
/// The version is HTTP/1.2 or a later minor one: HTTP/1.1 to this parser (RFC 9110 section 6.2).
const LATER_VERSION: Malformed = Malformed("a later version of HTTP");
/// The place of the minor version in a head.
const MINOR: usize = "HTTP/1.".len();

fn parse_into<'b>(
    buffer: &'b [u8],
    method: &Method,
    lines: &mut [MaybeUninit<httparse::Header<'b>>],
) -> Result<Option<(Head, usize)>, Malformed> {
    let mut response = httparse::Response::new(&mut []);
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    // A proxy removes the white space (RFC 9112 section 5.1).
    config.allow_spaces_after_header_name_in_responses(true);
    let parsed = config.parse_response_with_uninit_headers(&mut response, buffer, lines);
    let used = match parsed {
        Ok(httparse::Status::Complete(used)) if used <= LONGEST => used,
        Ok(httparse::Status::Complete(_)) => return Err(Malformed("the head is too large")),
        Ok(httparse::Status::Partial) if buffer.len() < LONGEST => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(Malformed("the head is too large")),
        Err(httparse::Error::TooManyHeaders) => return Err(TOO_MANY),
        Err(httparse::Error::Version) if buffer.first_chunk().is_some_and(is_later_minor) => {
            return Err(LATER_VERSION);
        }
        Err(_) => return Err(Malformed("the head is malformed")),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Malformed("the status code is malformed"))?;
    let head = &buffer[..used];
    let line_feeds = LineFeeds::of(head);
    let mut fields = Box::<Lines>::default();
    fields.read(response.headers, head, line_feeds.has_fold)?;
    let http11 = response.version == Some(1);
    let (framing, certain) = framing(method, status, &fields, http11)?;
    // A client may have smuggled a line feed into a field: another response could follow the one that its origin meant.
    let certain = certain && !line_feeds.has_bare;
    let (keep_alive, lists_fields) = connection_options(&fields, http11)?;
    fields.lists_fields = lists_fields;
    let keep_alive = certain && keep_alive && framing != Framing::Close;
    Ok(Some((Head { status, fields, keep_alive, framing }, used)))
}

/// Returns the head of an answer in HTTP/2 to `method`; `end`: no content follows it. Errors: the fault of the head.
pub(crate) fn of_stream(
    method: &Method,
    status: StatusCode,
    fields: &HeaderMap,
    end: bool,
) -> Result<Head, Malformed> {
    let mut lines = Lines::default();
    let is_kept = |name: &HeaderName| !name.as_str().eq_ignore_ascii_case(POSITION);
    for (name, value) in fields.iter().filter(|(name, _)| is_kept(name)) {
        // White space around it means nothing, and makes a response malformed for clients (RFC 9113 section 8.2.1).
        lines.push(name.as_str().as_bytes(), value.as_bytes().trim_ascii());
    }
    if lines.bytes.len() > LONGEST {
        return Err(Malformed("the head is too large"));
    }
    // Clients in HTTP/1.1 would take all that follows for another protocol.
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Malformed("a 101 in http/2, which has none"));
    }
    let has_none =
        *method == Method::HEAD || status.is_informational() || matches!(status.as_u16(), 204 | 304);
    let framing = match length(&lines)? {
        _ if has_none => Framing::Length(0),
        Some(1..) if end => return Err(Malformed("less content than its content-length says")),
        _ if end => Framing::Length(0),
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    };
    Ok(Head { status, fields: Box::new(lines), keep_alive: true, framing })
}

/// Whether white space is between the name and the colon of a line in `head` that delimits the content. Such a head is
/// refused, not repaired: another parser before this one may have ignored the line, and seen another content.
fn is_doubtful(header: &httparse::Header<'_>, head: &[u8]) -> bool {
    let colon = header.name.as_ptr().addr() - head.as_ptr().addr() + header.name.len();
    let is = |name: &str| header.name.eq_ignore_ascii_case(name);
    head.get(colon) != Some(&b':') && (is("content-length") || is("transfer-encoding") || is("connection"))
}

/// Returns what `Connection` says: whether the connection may be reused, and whether fields are listed that do not
/// always concern it.
fn connection_options(fields: &Lines, http11: bool) -> Result<(bool, bool), Malformed> {
    let (mut keep_alive, mut close, mut lists_fields, mut count) = (http11, false, false, 0);
    members(fields, "connection").for_each(|option| {
        let (closes, keeps) =
            (option.eq_ignore_ascii_case(b"close"), option.eq_ignore_ascii_case(b"keep-alive"));
        close |= closes;
        keep_alive |= keeps;
        lists_fields |= !closes && !keeps && !storable::is_always_hop_by_hop(option);
        count += 1;
    });
    match count {
        ..=MOST_CONNECTION_OPTIONS => Ok((keep_alive && !close, lists_fields)),
        _ => Err(Malformed("too many connection options")),
    }
}

/// Returns the framing of the content, and whether every parser must find the same one.
fn framing(
    method: &Method,
    status: StatusCode,
    fields: &Lines,
    http11: bool,
) -> Result<(Framing, bool), Malformed> {
    let length = length(fields)?;
    let coded = fields.contains("transfer-encoding");
    if *method == Method::HEAD || status.is_informational() || matches!(status.as_u16(), 204 | 304) {
        let certain = match status.as_u16() {
            // An origin that announces content here may send it (RFC 9110 section 8.6, RFC 9112 section 6.1).
            204 => !coded && length.unwrap_or_default() == 0,
            304 => !coded,
            _ => !coded || length.is_none(),
        };
        return Ok((Framing::Length(0), certain));
    }
    match length {
        _ if coded && !http11 => Err(Malformed("transfer-encoding in HTTP/1.0")),
        None if is_unknown_coding(fields) => Ok((Framing::Close, true)),
        _ if coded && !is_only_chunked(fields) => {
            Err(Malformed("a transfer-encoding other than chunked, which was not requested"))
        }
        // An origin that sends both is faulty, or attacks another parser (RFC 9112 section 6.3).
        length if coded => Ok((Framing::Chunked, length.is_none())),
        Some(length) => Ok((Framing::Length(length), true)),
        None => Ok((Framing::Close, true)),
    }
}

/// Whether chunked is the only coding of the content: a cache that stored the dechunked content of `gzip, chunked`
/// would send coded bytes as plain ones.
fn is_only_chunked(fields: &Lines) -> bool {
    let mut codings = members(fields, "transfer-encoding");
    codings.next().is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked")) && codings.next().is_none()
}

/// Whether the field names one coding that does not exist: a word that does not describe the content. The content then
/// ends with the connection (RFC 9112 section 6.3).
fn is_unknown_coding(fields: &Lines) -> bool {
    const KNOWN: [&str; 7] = ["chunked", "compress", "deflate", "gzip", "identity", "x-compress", "x-gzip"];
    let mut codings = members(fields, "transfer-encoding");
    let is_known = |coding: &[u8]| KNOWN.iter().any(|known| coding.eq_ignore_ascii_case(known.as_bytes()));
    codings.next().is_some_and(|coding| HeaderName::from_bytes(coding).is_ok() && !is_known(coding))
        && codings.next().is_none()
}

fn length(fields: &Lines) -> Result<Option<u64>, Malformed> {
    let mut lines = fields.lines("content-length");
    match (lines.next(), lines.next()) {
        (None, _) => Ok(None),
        (Some(digits), None)
            if !digits.is_empty()
                && let Some(length) = number(digits) =>
        {
            Ok(Some(length))
        }
        _ => listed_length(fields),
    }
}

/// Returns the length that the field lists, perhaps several times.
#[cold]
fn listed_length(fields: &Lines) -> Result<Option<u64>, Malformed> {
    let length = members(fields, "content-length").try_fold(None, |length, member| {
        let one = number(member).ok_or(Malformed("content-length is malformed"))?;
        match length {
            Some(other) if other != one => Err(Malformed("several values of content-length")),
            _ => Ok(Some(one)),
        }
    });
    length?.ok_or(Malformed("content-length is empty")).map(Some)
}

impl Interims {
    /// Counts an interim response. Fails if there are too many, or their fields are too long together.
    pub fn count(&mut self, interim: &Head) -> Result<(), Malformed> {
        self.count += 1;
        self.bytes += interim.fields.bytes.len();
        match self.count <= MOST_INTERIMS && self.bytes <= LONGEST_INTERIMS {
            true => Ok(()),
            false => Err(Malformed("too many interim responses, or too long ones")),
        }
    }
}

fn unfolded(value: &[u8]) -> Vec<u8> {
    value.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// Returns the number that these digits write; `None` for other bytes and for numbers that are too large.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

impl Lines {
    /// Copies the lines with these `headers` from `head`, in which values are folded only if it `has_fold`. Errors: the
    /// fault of a line.
    fn read(
        &mut self,
        headers: &[httparse::Header<'_>],
        head: &[u8],
        has_fold: bool,
    ) -> Result<(), Malformed> {
        self.bytes = Vec::with_capacity(head.len() + 2 * headers.len());
        // Lines that are in the form on the wire, one behind the other, are copied together: usually all.
        let (mut from, mut to) = (0, 0);
        for header in headers {
            let (name, value) = (header.name.as_bytes(), header.value);
            let start = name.as_ptr().addr() - head.as_ptr().addr();
            let (colon, end) = (start + name.len(), start + name.len() + value.len() + 4);
            let is_usual = head.get(colon..colon + 2) == Some(b": ")
                && value.as_ptr().addr() == head.as_ptr().addr() + colon + 2
                && head.get(end - 2..end) == Some(b"\r\n")
                && !(has_fold && value.contains(&b'\n'));
            // A position from an origin is dropped: it is valid only in the cluster that issued it.
            let is_kept = !header.name.eq_ignore_ascii_case(POSITION);
            if start != to || !is_usual || !is_kept {
                self.bytes.extend_from_slice(&head[from..to]);
                (from, to) = (start, start);
            }
            if is_usual && is_kept {
                self.enter(self.bytes.len() + start - from, name, value.len());
                to = end;
            } else if is_doubtful(header, head) {
                return Err(Malformed("white space before the colon of a field for the framing"));
            } else if is_kept {
                // A value folded over several lines means the same on one.
                self.push(name, &unfolded(value));
            }
        }
        self.bytes.extend_from_slice(&head[from..to]);
        Ok(())
    }

    /// Iterates over the lines as name and value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.index.iter().map(|line| (self.name(line), self.value(line)))
    }

    /// Iterates over the lines that are forwarded, as name and value.
    pub(crate) fn forwarded(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let ends_here = self.ends_here();
        self.index.iter().filter(move |line| !ends_here(line)).map(|line| (self.name(line), self.value(line)))
    }

    /// Iterates over the same lines as they are sent, consecutive ones together.
    pub(crate) fn forwarded_runs(&self) -> impl Iterator<Item = &[u8]> {
        self.index.split(self.ends_here()).filter_map(|run| {
            let (first, last) = (run.first()?, run.last()?);
            let end = last.start + last.name + last.value + 4;
            self.bytes.get(first.start as usize..end as usize)
        })
    }

    /// Replaces the value of each field for which `new` returns one, unless the head would become too large.
    pub fn change(&mut self, new: impl Fn(&[u8], &[u8]) -> Option<String>) {
        let mut at = 0;
        while let Some(line) = self.index.get(at).copied() {
            let value = new(self.name(&line), self.value(&line));
            if let Some(value) = value.filter(|value| self.bytes.len() + value.len() <= LONGEST) {
                self.replace(at, line, value.as_bytes());
            }
            at += 1;
        }
    }

    /// Returns a predicate: whether a line is not forwarded, as it concerns the connection to the origin, or is the length,
    /// which is written with the framing.
    fn ends_here(&self) -> impl Fn(&Line) -> bool {
        let listed = self.lists_fields.then(|| storable::is_hop_by_hop(self));
        move |line| {
            line.ends_here || listed.as_ref().is_some_and(|concerns_hop| concerns_hop(self.name(line)))
        }
    }

    /// Keeps the lines that `keep` accepts, and adds `more` as far as the head does not become too large.
    pub fn rebuild<'m>(
        &mut self,
        keep: impl Fn(&[u8], &[u8]) -> bool,
        more: impl Iterator<Item = (&'m str, &'m [u8])>,
    ) {
        let bytes = Vec::with_capacity(self.bytes.len());
        let mut new = Self { bytes, lists_fields: self.lists_fields, ..Self::default() };
        for (name, value) in self.iter().filter(|(name, value)| keep(name, value)) {
            new.push(name, value);
        }
        for (name, value) in more {
            if new.bytes.len() + name.len() + value.len() + 4 <= LONGEST {
                new.push(name.as_bytes(), value);
            }
        }
        *self = new;
    }

    /// Removes the lines of this name.
    #[inline]
    pub fn remove(&mut self, name: &str) {
        self.rebuild(|own, _| !own.eq_ignore_ascii_case(name.as_bytes()), std::iter::empty());
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        for part in [name, b": ", value, b"\r\n"] {
            self.bytes.extend_from_slice(part);
        }
        self.enter(start, name, value.len());
    }

    /// Adds a line to the index, which is in the bytes from `start` on, or will be.
    #[inline(always)]
    fn enter(&mut self, start: usize, name: &[u8], value: usize) {
        // A head is far below 4 GiB.
        let short = |length: usize| length as u32;
        let ends_here = is_equal(name, "content-length") || storable::is_always_hop_by_hop(name);
        let first = name.first().map_or(0, u8::to_ascii_lowercase);
        let (start, value) = (short(start), short(value));
        self.index.push(Line { start, name: short(name.len()), value, first, ends_here });
        self.lengths.add(name.len());
    }

    /// Replaces the value of the line at `at` of the index.
    fn replace(&mut self, at: usize, line: Line, value: &[u8]) {
        let start = (line.start + line.name + 2) as usize;
        self.bytes.splice(start..start + line.value as usize, value.iter().copied());
        // A head is far below 4 GiB.
        let new = value.len() as u32;
        self.index[at].value = new;
        self.index[at + 1..].iter_mut().for_each(|later| later.start = later.start + new - line.value);
    }

    /// Returns the fields as a map.
    #[inline]
    pub fn to_map(&self) -> HeaderMap {
        to_map(self.iter())
    }

    fn name(&self, line: &Line) -> &[u8] {
        &self.bytes[line.start as usize..(line.start + line.name) as usize]
    }

    /// Not inlined, so that the search for names stays a small loop in each of its callers.
    #[inline(never)]
    fn is_called(&self, line: &Line, name: &str) -> bool {
        is_equal(self.name(line), name)
    }

    fn value(&self, line: &Line) -> &[u8] {
        let start = line.start + line.name + 2;
        &self.bytes[start as usize..(start + line.value) as usize]
    }
}

/// Whether `own` is this name, which is in lower case. Most letters of a name are so, too, and are compared first.
fn is_equal(own: &[u8], name: &str) -> bool {
    let same = |(own, lower): (&u8, u8)| *own == lower || own.to_ascii_lowercase() == lower;
    own.len() == name.len() && own.iter().zip(name.bytes()).all(same)
}

impl Fields for Lines {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        // Most names of the same length begin with another letter.
        let first = name.bytes().next().unwrap_or_default();
        let may_be = move |line: &&Line| line.name as usize == name.len() && line.first == first;
        let named = move |line: &&Line| may_be(line) && self.is_called(line, name);
        let lines = if self.lengths.has(name.len()) { &self.index[..] } else { &[] };
        lines.iter().filter(named).map(|line| self.value(line))
    }

    fn as_sent(&self) -> Option<&[u8]> {
        Some(&self.bytes)
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes))
    }
}

#[cfg(test)]
mod tests;
