//! Content codings (RFC 9110 section 8.4): the codings that a client accepts, and the responses that may be
//! sent in another coding than the origin's.
//!
//! A cache that compresses is an intermediary that transforms content (section 7.7), so everything that
//! forbids this is respected: `no-transform`, a coding from the origin, and fields about the original bytes.

use http::StatusCode;
use larder_words::{named, with_defaults};

use crate::directives;
use crate::fields::{Fields, members, trim};

named! {
    /// A coding in which responses can be compressed.
    pub enum Coding, token {
        /// Zstandard (RFC 8878).
        Zstd = "zstd",
        /// Brotli (RFC 7932).
        Brotli = "br",
        /// gzip (RFC 1952).
        Gzip = "gzip",
    }
}

impl Coding {
    /// Returns the coding of this name, in any case.
    pub fn named(name: &[u8]) -> Option<Self> {
        match name {
            name if name.eq_ignore_ascii_case(b"x-gzip") => Some(Self::Gzip),
            _ => Self::ALL.into_iter().find(|own| name.eq_ignore_ascii_case(own.token().as_bytes())),
        }
    }
}

with_defaults! {
    /// The rules for the compression of responses.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Compression {
        /// The codings to offer, the preferred one first; if empty, no response is compressed.
        pub codings: Vec<Coding> = Vec::new(),
        /// Media types of the responses to compress.
        pub types: Vec<MediaRange> = TYPES.into_iter().filter_map(MediaRange::parse).collect(),
        /// The least length of the content to compress, in bytes.
        pub min: u64 = 1 << 10,
    }
}

/// Types with text as content, or with content as redundant as text.
const TYPES: [&str; 18] = [
    "text/*",
    "application/json",
    "application/*+json",
    "application/javascript",
    "application/x-javascript",
    "application/xml",
    "application/*+xml",
    "application/wasm",
    "application/x-ndjson",
    "application/graphql",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/svg+xml",
    "image/bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
    "model/*+json",
];

impl Compression {
    /// Whether any response is compressed.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.codings.is_empty()
    }

    /// Whether a response with this status and these fields is compressed; `length` is that of its content,
    /// if it is known.
    pub fn applies(&self, status: StatusCode, fields: &impl Fields, length: Option<u64>) -> bool {
        self.selects(fields, length) && is_changeable(status, fields)
    }

    /// Whether a response with these fields is worth compressing, as far as it [may be](is_changeable).
    #[inline]
    pub fn selects(&self, fields: &impl Fields, length: Option<u64>) -> bool {
        self.is_on()
            && length.is_none_or(|length| length >= self.min)
            && fields.first("content-type").is_some_and(|value| self.has_type(value))
    }

    fn has_type(&self, content_type: &[u8]) -> bool {
        let end = memchr::memchr(b';', content_type).unwrap_or(content_type.len());
        let essence = trim(&content_type[..end]);
        self.types.iter().any(|range| range.contains(essence))
    }
}

/// A set of media types: a single type, or all types with a certain start and end, such as `application/*+json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRange {
    before: String,
    /// `None` without an asterisk.
    behind: Option<String>,
}

impl MediaRange {
    /// Parses a type in which one asterisk may stand for any characters; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        let is_name = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte == b'*' || is_part(byte));
        let (kind, name) = text.split_once('/')?;
        if !is_name(kind) || !is_name(name) || text.matches('*').count() > 1 {
            return None;
        }
        let text = text.to_ascii_lowercase();
        Some(match text.split_once('*') {
            Some((before, behind)) => Self { before: before.to_owned(), behind: Some(behind.to_owned()) },
            None => Self { before: text, behind: None },
        })
    }

    /// Whether `essence`, a type without parameters in any case, is in the set.
    fn contains(&self, essence: &[u8]) -> bool {
        let Some(rest) = essence.get(self.before.len()..) else { return false };
        essence[..self.before.len()].eq_ignore_ascii_case(self.before.as_bytes())
            && match &self.behind {
                None => rest.is_empty(),
                Some(end) => {
                    rest.len() >= end.len()
                        && rest[rest.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
                }
            }
    }
}

impl std::fmt::Display for MediaRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.before)?;
        self.behind.as_ref().map_or(Ok(()), |behind| write!(f, "*{behind}"))
    }
}

/// Fields about the bytes of a response, which are wrong for it in another coding (RFC 9530; RFC 1864; RFC
/// 9421 may sign any of its fields).
const ABOUT_BYTES: [&str; 6] =
    ["content-digest", "repr-digest", "digest", "content-md5", "signature", "signature-input"];

/// What the status and the fields of a response say about its content in other codings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingTerms {
    /// Whether it [may be coded](is_changeable).
    pub is_changeable: bool,
    /// The coding that [may be removed](undoable).
    pub undoable: Option<Coding>,
    /// Whether its `Vary` [names](varies) `Accept-Encoding`.
    pub varies: bool,
}

impl CodingTerms {
    /// Reads the terms.
    pub fn of(status: StatusCode, fields: &impl Fields) -> Self {
        Self {
            is_changeable: is_changeable(status, fields),
            undoable: undoable(status, fields),
            varies: varies(fields),
        }
    }

    /// Returns the terms as a number below 16, which [`from_bits`](Self::from_bits) reads.
    pub fn bits(self) -> u8 {
        let coding = self.undoable.map_or(0, |coding| coding as u8 + 1);
        u8::from(self.is_changeable) << 3 | u8::from(self.varies) << 2 | coding
    }

    /// Returns the terms for `bits`.
    pub fn from_bits(bits: u8) -> Self {
        let undoable = usize::from(bits & 3).checked_sub(1).and_then(|at| Coding::ALL.get(at)).copied();
        Self { is_changeable: bits & 8 != 0, undoable, varies: bits & 4 != 0 }
    }
}

/// Whether a response may be sent in another coding: it is complete, has no coding, and no field forbids or
/// contradicts it.
pub fn is_changeable(status: StatusCode, fields: &impl Fields) -> bool {
    !is_coded(fields) && is_free(status, fields)
}

/// Returns the coding that may be removed for clients that do not accept it; that of the whole, if the response is a part
/// (206).
pub fn undoable(status: StatusCode, fields: &impl Fields) -> Option<Coding> {
    let mut codings = members(fields, "content-encoding");
    let coding = codings.next().and_then(Coding::named)?;
    let whole = if status == StatusCode::PARTIAL_CONTENT { StatusCode::OK } else { status };
    (codings.next().is_none() && is_free(whole, fields)).then_some(coding)
}

/// Whether a response may be compressed while it is sent. Events must not wait for each other, gRPC compresses messages
/// itself, and trailers may be about the original bytes.
pub fn is_streamable(fields: &impl Fields) -> bool {
    let kind = fields.first("content-type").unwrap_or_default();
    !is_event_stream(kind) && !begins(kind, "application/grpc") && !fields.contains("trailer")
}

/// Whether this is the media type of a stream of events.
pub fn is_event_stream(kind: &[u8]) -> bool {
    begins(kind, "text/event-stream")
}

fn begins(value: &[u8], start: &str) -> bool {
    trim(value).get(..start.len()).is_some_and(|value| value.eq_ignore_ascii_case(start.as_bytes()))
}

/// Whether a complete response may be transformed at all.
fn is_free(status: StatusCode, fields: &impl Fields) -> bool {
    status == StatusCode::OK
        && !["cache-control", "cdn-cache-control"]
            .into_iter()
            .any(|name| directives::has(fields, name, NO_TRANSFORM))
        && !ABOUT_BYTES.into_iter().any(|name| fields.contains(name))
}

const NO_TRANSFORM: &str = "no-transform";

/// Whether a response names a content coding, even if only `identity`: adding another would make it a list of two.
pub fn is_coded(fields: &impl Fields) -> bool {
    fields.contains("content-encoding")
}

/// Whether `Vary` names `Accept-Encoding`, or is `*`.
pub fn varies(fields: &impl Fields) -> bool {
    members(fields, "vary").any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
}

/// A client's weights of the codings, in thousandths (RFC 9110 section 12.5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCodings {
    weights: [u16; Coding::ALL.len()],
    /// The weight of content without a coding, if the client names it.
    identity: Option<u16>,
    /// Whether the client wants content as the origin has sent it (`no-transform`, RFC 9111 section 5.2.1.6).
    is_untouched: bool,
}

impl AcceptedCodings {
    /// Returns the codings that a request accepts. Without `Accept-Encoding` no response is compressed: such
    /// clients may be unable to decode. A malformed member counts as absent.
    pub fn of(request: &impl Fields) -> Self {
        let (mut accepted, mut named, mut others) = (Self::default(), [false; Coding::ALL.len()], 0);
        let lines = request.lines("accept-encoding").flat_map(|line| line.split(|byte| *byte == b','));
        for (name, weight) in lines.filter_map(weighted) {
            if let Some(coding) = Coding::named(name) {
                (accepted.weights[coding as usize], named[coding as usize]) = (weight, true);
            } else if name == b"*" {
                (others, accepted.identity) = (weight, accepted.identity.or((weight == 0).then_some(0)));
            } else if name.eq_ignore_ascii_case(b"identity") {
                accepted.identity = Some(weight);
            }
        }
        for (weight, _) in accepted.weights.iter_mut().zip(named).filter(|(_, named)| !named) {
            *weight = others;
        }
        accepted.is_untouched = directives::has(request, "cache-control", NO_TRANSFORM);
        accepted
    }

    /// Returns the coding of `offered` with the highest weight; of equal ones, the first. `None` if the
    /// client prefers content without a coding, or accepts none of these.
    pub fn best(&self, offered: impl Iterator<Item = Coding>) -> Option<Coding> {
        let least = self.identity.unwrap_or(0).max(1);
        let weight = |coding: Coding| self.weights[coding as usize];
        let offered = offered.filter(|_| !self.is_untouched);
        offered.filter(|coding| weight(*coding) >= least).fold(None, |best, coding| match best {
            Some(best) if weight(best) >= weight(coding) => Some(best),
            _ => Some(coding),
        })
    }

    /// Whether content that the origin has sent in `coding` stays in it. It does for a client that refuses content without
    /// a coding, too.
    pub fn takes(&self, coding: Coding) -> bool {
        self.is_untouched || self.identity == Some(0) || self.weights[coding as usize] > 0
    }
}

/// Returns a member of `Accept-Encoding` and its weight.
fn weighted(member: &[u8]) -> Option<(&[u8], u16)> {
    let Some(at) = memchr::memchr(b';', member) else { return Some((trim(member), 1000)) };
    match trim(&member[at + 1..]) {
        [b'q' | b'Q', b'=', value @ ..] => Some((trim(&member[..at]), crate::choices::weight(value)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Coding::{Brotli, Gzip, Zstd};
    use super::*;
    use crate::fields::HeadLines;

    fn accepted(value: &str) -> AcceptedCodings {
        AcceptedCodings::of(&HeadLines(format!("Accept-Encoding: {value}\r\n").as_bytes()))
    }

    #[test]
    fn content_keeps_a_coding_that_is_accepted_or_no_worse_than_none() {
        let cases = [
            ("", false),
            ("identity", false),
            ("br", false),
            ("gzip;q=0", false),
            ("gzip;q=0.001", true),
            ("*", true),
            ("identity;q=0", true),
            ("br, identity;q=0", true),
            ("*;q=0", true),
            ("*;q=0, identity", false),
            ("identity;q=0.5, *;q=0", false),
            ("br, *;q=0", true),
        ];
        for (value, expected) in cases {
            assert_eq!(accepted(value).takes(Gzip), expected, "{value:?}");
        }
    }

    #[test]
    fn the_coding_with_the_highest_weight_or_first_of_equals_is_chosen() {
        let cases = [
            ("", None),
            ("identity", None),
            ("gzip", Some(Gzip)),
            ("GZIP", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("deflate", None),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip;q=1.0, br;q=0.9, zstd;q=0.5", Some(Gzip)),
            ("gzip ; q=0.5 ,br;Q=0.501", Some(Brotli)),
            ("gzip;q=0", None),
            ("*", Some(Zstd)),
            ("*;q=0.5, gzip", Some(Gzip)),
            ("zstd;q=0, *", Some(Brotli)),
            ("*;q=0", None),
            ("identity;q=0, gzip;q=0.1", Some(Gzip)),
            ("identity;q=0", None),
            ("identity;q=0.5, gzip;q=0.4", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("gzip;q=2, br;q=x, zstd;level=3", None),
            ("gzip;q=0.0001", None),
            (",, ;q=1, gzip", Some(Gzip)),
        ];
        for (value, expected) in cases {
            assert_eq!(accepted(value).best([Zstd, Brotli, Gzip].into_iter()), expected, "{value:?}");
        }
        assert_eq!(accepted("gzip, br").best([Gzip, Brotli].into_iter()), Some(Gzip), "the site's order");
        assert_eq!(AcceptedCodings::of(&HeadLines(b"")).best(Coding::ALL.into_iter()), None, "no field");
        let untouched = HeadLines(b"Cache-Control: no-cache, No-Transform\r\nAccept-Encoding: gzip\r\n");
        let untouched = AcceptedCodings::of(&untouched);
        assert!(untouched.best(Coding::ALL.into_iter()).is_none() && untouched.takes(Brotli));
        let lines =
            AcceptedCodings::of(&HeadLines(b"Accept-Encoding: br;q=0.2\r\nAccept-Encoding: gzip\r\n"));
        assert_eq!(lines.best(Coding::ALL.into_iter()), Some(Gzip));
    }

    #[test]
    fn a_response_that_must_not_be_transformed_is_not_changeable() {
        let cases = [
            ("", true),
            ("Content-Encoding: identity\r\n", false),
            ("Content-Encoding: gzip\r\n", false),
            ("Content-Encoding: unknown\r\n", false),
            ("Cache-Control: max-age=5, No-Transform\r\n", false),
            ("Cache-Control: max-age=5; no-transform\r\n", false),
            ("Cache-Control: no-transform =1\r\n", false),
            ("CDN-Cache-Control: no-transform\r\n", false),
            ("Cache-Control: no-transform-x\r\n", true),
            ("Content-Digest: sha-256=:x:\r\n", false),
            ("Repr-Digest: sha-256=:x:\r\n", false),
            ("Digest: md5=x\r\n", false),
            ("Content-MD5: x\r\n", false),
            ("Signature: a=:x:\r\n", false),
            ("ETag: \"a\"\r\nVary: Cookie\r\n", true),
        ];
        for (lines, expected) in cases {
            let fields = HeadLines(lines.as_bytes());
            assert_eq!(is_changeable(StatusCode::OK, &fields), expected, "{lines}");
            assert!(!is_changeable(StatusCode::PARTIAL_CONTENT, &fields));
            assert!(!is_changeable(StatusCode::NOT_FOUND, &fields));
        }
    }

    #[test]
    fn one_known_coding_may_be_undone() {
        let cases = [
            ("Content-Encoding: gzip\r\n", Some(Gzip)),
            ("Content-Encoding: X-GZIP\r\n", Some(Gzip)),
            ("Content-Encoding: br\r\n", Some(Brotli)),
            ("Content-Encoding: deflate\r\n", None),
            ("Content-Encoding: br, gzip\r\n", None),
            ("Content-Encoding: br\r\nContent-Encoding: gzip\r\n", None),
            ("Content-Encoding: identity\r\n", None),
            ("Content-Encoding: gzip\r\nCache-Control: no-transform\r\n", None),
            ("Content-Encoding: gzip\r\nContent-Digest: sha-256=:x:\r\n", None),
            ("", None),
        ];
        for (lines, expected) in cases {
            assert_eq!(undoable(StatusCode::OK, &HeadLines(lines.as_bytes())), expected, "{lines}");
        }
        let gzip = HeadLines(b"Content-Encoding: gzip\r\n");
        assert_eq!(undoable(StatusCode::PARTIAL_CONTENT, &gzip), Some(Coding::Gzip));
    }

    #[test]
    fn terms_survive_as_a_number() {
        for lines in
            ["", "Content-Encoding: gzip\r\n", "Content-Encoding: zstd\r\nVary: *\r\n", "Vary: *\r\n"]
        {
            let terms = CodingTerms::of(StatusCode::OK, &HeadLines(lines.as_bytes()));
            assert!(terms.bits() < 16 && CodingTerms::from_bits(terms.bits()) == terms, "{lines}");
        }
    }

    #[test]
    fn types_and_lengths_select_what_is_worth_it() {
        let cases = [
            ("text/html; charset=utf-8", true),
            ("TEXT/plain", true),
            ("text", false),
            ("application/json", true),
            ("application/jsonp", false),
            ("application/ld+json ; profile=x", true),
            ("application/+json", true),
            ("image/svg+xml", true),
            ("image/png", false),
            ("font/woff2", false),
            ("", false),
        ];
        let compression = Compression { codings: vec![Gzip], ..Compression::default() };
        for (value, expected) in cases {
            let lines = format!("Content-Type: {value}\r\n");
            let fields = HeadLines(lines.as_bytes());
            assert_eq!(compression.applies(StatusCode::OK, &fields, Some(1024)), expected, "{value}");
            assert_eq!(compression.applies(StatusCode::OK, &fields, None), expected, "{value}");
            assert!(!compression.applies(StatusCode::OK, &fields, Some(1023)));
            assert!(!Compression::default().applies(StatusCode::OK, &fields, None), "off");
        }
        assert!(!compression.applies(StatusCode::OK, &HeadLines(b""), None), "no type");
        for text in ["text", "/", "a/", "*", "*/*", "a/b*c*", "a/b;c", "a/b c", "a/b/c"] {
            assert_eq!(MediaRange::parse(text), None, "{text}");
        }
        for text in TYPES {
            assert_eq!(MediaRange::parse(text).map(|range| range.to_string()).as_deref(), Some(text));
        }
    }

    proptest! {
        #[test]
        fn the_chosen_coding_is_offered_and_has_the_highest_weight(
            value: Vec<u8>,
            weights in prop::collection::vec((0_usize..5, 0_u16..=1000), 0..6),
        ) {
            let names = ["zstd", "br", "gzip", "*", "identity"];
            let member = |(name, weight): &(usize, u16)| {
                format!("{};q={}.{:03}", names[*name], weight / 1000, weight % 1000)
            };
            let list = weights.iter().map(member).collect::<Vec<_>>().join(",");
            for line in [&value[..], list.as_bytes()] {
                let accepted = AcceptedCodings::of(&HeadLines(&[b"Accept-Encoding: ", line, b"\r\n"].concat()));
                let offered = [Gzip, Zstd];
                if let Some(best) = accepted.best(offered.into_iter()) {
                    prop_assert!(offered.contains(&best) && accepted.takes(best));
                    let is_less = |other| accepted.weights[other as usize] <= accepted.weights[best as usize];
                    prop_assert!(offered.into_iter().all(is_less));
                    prop_assert!(accepted.identity.is_none_or(|own| own <= accepted.weights[best as usize]));
                }
            }
        }

        #[test]
        fn any_bytes_are_a_type_or_none(value: Vec<u8>, text: String) {
            Compression::default().has_type(&value);
            if let Some(range) = MediaRange::parse(&text) {
                prop_assert_eq!(MediaRange::parse(&range.to_string()), Some(range));
            }
        }
    }
}
