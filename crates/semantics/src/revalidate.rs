//! Validation in both directions (RFC 9111 section 4.3): conditional requests to the origin, answers to conditional requests
//! of clients, and the update of a stored response by a 304 or a HEAD.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};

use crate::fields::{Fields, entity_tags};
use crate::storable::remove_hop_by_hop;
use crate::{date, groups, no_vary_search, range, vary, wire};

/// Makes `out`, a client's request, a validation of `stored` (section 4.3.1). The conditions and ranges that caches
/// evaluate are removed, so that the answer is about the stored response and serves every client.
pub fn condition(stored: &impl Fields, out: &mut HeaderMap) {
    remove_evaluated(out);
    for (validator, name) in [("etag", header::IF_NONE_MATCH), ("last-modified", header::IF_MODIFIED_SINCE)] {
        if let Some(value) = stored.first(validator).and_then(|value| HeaderValue::from_bytes(value).ok()) {
            out.insert(name, value);
        }
    }
}

/// Whether a stored response, generated at `date`, has a validator that changes whenever the content does: a
/// tag, or a `Last-Modified` before `date` (RFC 9110 section 8.8.2.2).
pub fn has_strong(stored: &impl Fields, date: u32) -> bool {
    let modified = || stored.first("last-modified").and_then(date::parse);
    stored.contains("etag") || modified().is_some_and(|modified| modified < date)
}

/// Removes every condition and range: the rest requests the whole representation.
pub fn remove_conditions(request: &mut HeaderMap) {
    remove_evaluated(request);
    FOR_ORIGINS.iter().for_each(|name| _ = request.remove(name));
}

/// Removes the conditions that caches evaluate, and the range. Those that only an origin can evaluate stay.
pub fn remove_evaluated(request: &mut HeaderMap) {
    EVALUATED.iter().for_each(|name| _ = request.remove(name));
}

/// Whether [`remove_evaluated`] would remove a field.
pub fn has_evaluated(request: &HeaderMap) -> bool {
    EVALUATED.iter().any(|name| request.contains_key(name))
}

/// Whether a condition of the request is for the origin alone. An error may then be the answer to this request only.
pub fn is_for_origin(request: &HeaderMap) -> bool {
    FOR_ORIGINS.iter().any(|name| request.contains(name.as_str()))
}

const FOR_ORIGINS: [HeaderName; 2] = [header::IF_MATCH, header::IF_UNMODIFIED_SINCE];

/// `A-IM` asks for the difference to what a condition names (RFC 3229): to another one, where caches replace the condition.
const EVALUATED: [HeaderName; 5] = [
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
    HeaderName::from_static("a-im"),
];

/// The effect of a client's conditions on the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Answer without regard to the conditions.
    Proceed,
    /// Answer 304: the client has the response already.
    NotModified,
}

/// Evaluates a client's conditions against a response (section 4.3.2, RFC 9110 section 13.2.2). `If-Match` and
/// `If-Unmodified-Since` are for origins; and conditions apply to successful statuses only (RFC 9110 section
/// 13.2.1), and here to GET and HEAD. The `date` of a stored response (UNIX seconds) stands in for a
/// missing `Last-Modified`.
pub fn precondition(
    method: &Method,
    request: &impl Fields,
    status: StatusCode,
    response: &impl Fields,
    date: Option<u32>,
) -> Precondition {
    if !status.is_success() || !matches!(*method, Method::GET | Method::HEAD) {
        return Precondition::Proceed;
    }
    let modified = || response.first("last-modified").and_then(date::parse).or(date);
    let not_modified = if request.contains("if-none-match") {
        is_listed(request, response)
    } else {
        let since = request.first("if-modified-since").and_then(date::parse);
        since.is_some_and(|since| modified().is_some_and(|modified| modified <= since))
    };
    if not_modified { Precondition::NotModified } else { Precondition::Proceed }
}

/// Whether a response meets the conditions for origins (RFC 9110 sections 13.1.1 and 13.1.4). A cache may ignore them, but
/// a client that requests the ranges of a file one by one relies on them to get those of one representation.
pub fn meets_conditions_for_origin(
    request: &impl Fields,
    status: StatusCode,
    response: &impl Fields,
) -> bool {
    if !status.is_success() {
        return true;
    }
    if request.contains("if-match") {
        let strong = response.first("etag").filter(|tag| range::is_strong(tag));
        let mut listed = request.lines("if-match").flat_map(entity_tags);
        return listed.any(|tag| tag == b"*" || Some(tag) == strong);
    }
    let [since, modified] = [request.first("if-unmodified-since"), response.first("last-modified")]
        .map(|value| value.and_then(date::parse));
    since.zip(modified).is_none_or(|(since, modified)| modified <= since)
}

/// Whether `If-None-Match` lists the stored entity-tag, or is `*` (RFC 9110 section 13.1.2).
pub fn is_listed(request: &impl Fields, stored: &impl Fields) -> bool {
    let stored = stored.first("etag").map(opaque);
    let mut listed = request.lines("if-none-match").flat_map(entity_tags);
    listed.any(|tag| tag == b"*" || Some(opaque(tag)) == stored)
}

/// Returns an entity-tag for weak comparison (RFC 9110 section 8.8.3.2).
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether a 304 is about the stored response that was validated (section 4.3.4).
///
/// The request contained the stored validators, so a 304 without any confirms them; if there are none, nothing does. Tags
/// are compared weakly: some origins weaken the tags of responses that they compress while sending, but send the strong
/// original with a 304.
pub fn same_representation(stored: &impl Fields, not_modified: &impl Fields) -> bool {
    match (stored.first("etag"), not_modified.first("etag")) {
        (Some(stored), Some(new)) => opaque(stored) == opaque(new),
        (Some(_), None) => same_modified(stored, not_modified),
        (None, _) => same_modified(stored, not_modified) && stored.contains("last-modified"),
    }
}

/// Whether the origin has confirmed the stored response, selected by `signature`, for this request, too.
///
/// Variants often have one date. If `news` separate variants that the cache took for one, only an entity-tag tells
/// that the stored response is the one for this request: the tag of `news`, or in a 304 the one that the request had.
pub fn tells_variants(
    signature: &[u8],
    stored: &impl Fields,
    status: StatusCode,
    news: &impl Fields,
) -> bool {
    let is_same =
        |tag| news.first("etag").map_or(status == StatusCode::NOT_MODIFIED, |new| opaque(new) == opaque(tag));
    stored.first("etag").is_some_and(is_same) || !vary::adds_fields(signature, news)
}

/// Whether `Last-Modified` is equal, or `new` does not have it.
fn same_modified(stored: &impl Fields, new: &impl Fields) -> bool {
    let stored = stored.first("last-modified").and_then(date::parse);
    new.first("last-modified").is_none_or(|new| stored.is_some() && date::parse(new) == stored)
}

/// Returns the stored fields after a 304, or a response to HEAD, with `new` fields (section 3.2): each new
/// field replaces the stored one, except those that describe the stored content. The age and date are those of the new
/// fields, or missing. A weak tag of the stored content is not replaced by a strong one, which would be the tag of other
/// bytes.
///
/// The caller has to remove the fields again that [`crate::storable::storable_fields`] omits.
pub fn update(stored: &HeaderMap, new: &HeaderMap) -> HeaderMap {
    let mut new = new.clone();
    remove_hop_by_hop(&mut new);
    let is_weak = stored.first("etag").is_some_and(|tag| !range::is_strong(tag));
    for name in BOUND_TO_CONTENT.into_iter().chain(is_weak.then_some(header::ETAG)) {
        new.remove(name);
    }
    let mut updated = stored.clone();
    for name in new.keys().chain(&[header::AGE, header::DATE]) {
        updated.remove(name);
    }
    for (name, value) in &new {
        updated.append(name, value.clone());
    }
    updated
}

/// `Set-Cookie` is one of them because the new field is for one client, and the stored fields are for all.
const BOUND_TO_CONTENT: [HeaderName; 7] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_TYPE,
    header::CONTENT_RANGE,
    header::SET_COOKIE,
];

/// The meaning of a response to HEAD for a stored response that the same GET would select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// The stored response is still valid: [`update`] it, with the freshness of the new head.
    Update,
    /// The origin has another response now: treat the stored one as stale.
    Stale,
    /// The response to HEAD is no evidence about it.
    Unrelated,
}

/// Whether both have the same strong entity-tag: then they have the same content (RFC 9110 section 8.8.3.2).
pub fn has_same_strong_tag(stored: &impl Fields, answer: &impl Fields) -> bool {
    let tag = stored.first("etag").filter(|tag| range::is_strong(tag));
    tag.is_some() && tag == answer.first("etag")
}

/// Compares the response to a HEAD with a stored response of `length` bytes (section 4.3.5). One without a validator does
/// not renew the stored response: that nothing contradicts it is no proof that the content is the same.
pub fn head(stored: &impl Fields, length: u64, status: StatusCode, answer: &impl Fields) -> Head {
    if status != StatusCode::OK {
        return Head::Unrelated;
    }
    let same_tag = answer.first("etag").is_none_or(|tag| stored.first("etag") == Some(tag));
    let same_length = answer.first("content-length").is_none_or(|value| wire::decimal(value) == Some(length));
    let has_validator = answer.contains("etag") || answer.contains("last-modified");
    match same_tag && same_length && same_modified(stored, answer) {
        true if has_validator => Head::Update,
        true => Head::Unrelated,
        false => Head::Stale,
    }
}

/// Whether this field, with a `name` in any case, describes the content, which a 304 does not have (RFC 9110 section 8).
pub fn describes_content(name: &[u8]) -> bool {
    let names = ["type", "encoding", "language", "length", "range", "digest"];
    name.split_at_checked(b"content-".len()).is_some_and(|(start, rest)| {
        let is_named = || names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(rest));
        start.eq_ignore_ascii_case(b"content-") && is_named()
    })
}

/// Whether this field, with a `name` in any case, says which pages of other origins may read a response, whatever its
/// status is (Fetch standard, "CORS protocol" and "`Cross-Origin-Resource-Policy` header").
pub fn permits_pages(name: &[u8]) -> bool {
    const CORS: &[u8] = b"access-control-";
    name.get(..CORS.len()).is_some_and(|start| start.eq_ignore_ascii_case(CORS))
        || name.eq_ignore_ascii_case(b"cross-origin-resource-policy")
        || name.eq_ignore_ascii_case(b"timing-allow-origin")
}

/// Whether a 304 contains this field of the stored response (RFC 9110 section 15.4.5): among others, all fields by which
/// caches between this one and the client decide about their copies, and browsers about the pages that may read it. `name`
/// may have any case. `has_etag` says whether the stored response has an `ETag`, which makes `Last-Modified` superfluous.
pub fn in_not_modified(name: &[u8], has_etag: bool) -> bool {
    const TARGETED: &[u8] = b"-cache-control";
    let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    let always =
        ["cache-control", "content-location", "date", "etag", "expires", "vary", no_vary_search::FIELD];
    let is_targeted =
        || name.last_chunk().is_some_and(|end: &[u8; TARGETED.len()]| end.eq_ignore_ascii_case(TARGETED));
    always.into_iter().chain(groups::FIELDS).any(is)
        || is_targeted()
        || permits_pages(name)
        || (!has_etag && is("last-modified"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::HeadLines;

    const MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

    fn not_modified(request: &str, stored: &str) -> bool {
        let (request, stored) = (HeadLines(request.as_bytes()), HeadLines(stored.as_bytes()));
        let date = Some(784_111_778);
        precondition(&Method::GET, &request, StatusCode::OK, &stored, date) == Precondition::NotModified
    }

    #[test]
    fn if_none_match_compares_weakly() {
        let cases = [
            ("\"a\"", "\"a\"", true),
            ("\"b\"", "\"a\"", false),
            ("W/\"a\"", "\"a\"", true),
            ("\"a\"", "W/\"a\"", true),
            ("w/\"a\"", "W/\"a\"", false),
            ("\"b\", \"a\", \"c\"", "\"a\"", true),
            ("\"b,\"a\"", "\"a\"", false),
            ("*", "\"a\"", true),
            ("a", "a", true),
            ("a", "\"a\"", false),
        ];
        for (asked, tag, expected) in cases {
            let found = not_modified(&format!("If-None-Match: {asked}\r\n"), &format!("ETag: {tag}\r\n"));
            assert_eq!(found, expected, "{asked} of {tag}");
        }
        assert!(not_modified("If-None-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n", "ETag: \"a\"\r\n"));
        assert!(!not_modified("If-None-Match: \"a\"\r\n", MODIFIED), "no tag, no match");
    }

    #[test]
    fn if_modified_since_compares_with_last_modified_or_else_date() {
        let cases = [
            ("Sun, 06 Nov 1994 08:49:37 GMT", MODIFIED, true),
            ("Sunday, 06-Nov-94 08:49:37 GMT", MODIFIED, true),
            ("Mon, 07 Nov 1994 08:49:37 GMT", MODIFIED, true),
            ("Sun, 06 Nov 1994 08:49:36 GMT", MODIFIED, false),
            ("yesterday", MODIFIED, false),
            ("Sun, 06 Nov 1994 08:49:38 GMT", "", true),
            ("Sun, 06 Nov 1994 08:49:37 GMT", "", false),
        ];
        for (since, stored, expected) in cases {
            assert_eq!(not_modified(&format!("If-Modified-Since: {since}\r\n"), stored), expected, "{since}");
        }
    }

    #[test]
    fn if_none_match_takes_precedence() {
        let stored = format!("ETag: \"a\"\r\n{MODIFIED}");
        let later = "If-Modified-Since: Mon, 07 Nov 1994 08:49:37 GMT\r\n";
        assert!(!not_modified(&format!("If-None-Match: \"b\"\r\n{later}"), &stored));
        let earlier = "If-Modified-Since: Sat, 05 Nov 1994 08:49:37 GMT\r\n";
        assert!(not_modified(&format!("{earlier}If-None-Match: \"a\"\r\n"), &stored));
    }

    #[test]
    fn conditions_say_nothing_of_other_statuses_and_methods() {
        let (request, stored) = (HeadLines(b"If-None-Match: *\r\n"), HeadLines(b"ETag: \"a\"\r\n"));
        let evaluate = |method, status| precondition(&method, &request, status, &stored, None);
        assert_eq!(evaluate(Method::HEAD, StatusCode::OK), Precondition::NotModified);
        for status in [203, 204, 206] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(evaluate(Method::GET, status), Precondition::NotModified);
        }
        assert_eq!(evaluate(Method::GET, StatusCode::NOT_FOUND), Precondition::Proceed);
        assert_eq!(evaluate(Method::POST, StatusCode::OK), Precondition::Proceed);
    }

    #[test]
    fn a_validation_has_no_condition_of_its_client_except_those_for_origins() {
        let client =
            b"If-None-Match: \"x\"\r\nIf-Match: *\r\nRange: bytes=0-1\r\nIf-Range: \"x\"\r\nA: 1\r\n";
        let asked = |stored: &str| {
            let mut out = HeadLines(client).to_map();
            condition(&HeadLines(stored.as_bytes()), &mut out);
            out
        };
        let both = asked(&format!("ETag: W/\"s\"\r\n{MODIFIED}"));
        assert_eq!((both.len(), &both["if-match"]), (4, &HeaderValue::from_static("*")));
        assert_eq!(both["if-none-match"], "W/\"s\"");
        assert_eq!(both["if-modified-since"], "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(asked("").len(), 2);
    }

    #[test]
    fn a_304_confirms_what_it_was_asked_about() {
        let other = "Last-Modified: Mon, 07 Nov 1994 08:49:37 GMT\r\n";
        let cases = [
            ("ETag: \"a\"\r\n", "ETag: \"a\"\r\n", true),
            ("ETag: \"a\"\r\n", "ETag: \"b\"\r\n", false),
            ("ETag: W/\"a\"\r\n", "ETag: \"a\"\r\n", true),
            ("ETag: \"a\"\r\n", "", true),
            (MODIFIED, MODIFIED, true),
            (MODIFIED, other, false),
            (MODIFIED, "", true),
            (MODIFIED, "ETag: \"a\"\r\n", true),
            ("ETag: \"a\"\r\n", other, false),
            ("", "ETag: \"a\"\r\n", false),
            ("", "", false),
        ];
        for (stored, new, expected) in cases {
            let found = same_representation(&HeadLines(stored.as_bytes()), &HeadLines(new.as_bytes()));
            assert_eq!(found, expected, "{stored} {new}");
        }
    }

    #[test]
    fn a_304_replaces_all_but_what_describes_the_content() {
        let stored = b"A: 1\r\nA: 2\r\nB: 1\r\nContent-Type: text/plain\r\nCache-Control: max-age=1\r\n";
        let new = b"A: 3\r\nContent-Type: text/html\r\nContent-Length: 9\r\nContent-Encoding: br\r\n\
            Cache-Control: max-age=9\r\nConnection: c\r\nC: 1\r\nKeep-Alive: x\r\nD: 1\r\nD: 2\r\n";
        let updated = update(&HeadLines(stored).to_map(), &HeadLines(new).to_map());
        let expected =
            b"A: 3\r\nB: 1\r\nContent-Type: text/plain\r\nCache-Control: max-age=9\r\nD: 1\r\nD: 2\r\n";
        assert_eq!(updated, HeadLines(expected).to_map());
    }

    #[test]
    fn a_304_brings_its_own_age_and_date_and_strengthens_no_tag() {
        let update = |stored: &str, new: &str| {
            update(&HeadLines(stored.as_bytes()).to_map(), &HeadLines(new.as_bytes()).to_map())
        };
        let updated = update("Age: 9\r\nDate: x\r\nETag: \"a\"\r\n", "ETag: W/\"a\"\r\n");
        assert_eq!(updated, HeadLines(b"ETag: W/\"a\"\r\n").to_map());
        let updated = update("Age: 9\r\nDate: x\r\nETag: W/\"a\"\r\n", "Age: 1\r\nETag: \"a\"\r\n");
        assert_eq!(updated, HeadLines(b"ETag: W/\"a\"\r\nAge: 1\r\n").to_map());
    }

    #[test]
    fn a_date_alone_tells_no_variants_that_were_taken_for_one() {
        const TAG: &str = "ETag: \"a\"\r\n";
        let mut by_a = Vec::new();
        vary::write(&HeadLines(b"Vary: a\r\n"), &HeadLines(b"a: 1\r\n"), &mut by_a).unwrap();
        for (stored, status, news, expected) in [
            (TAG, 304, "Vary: b\r\n", true),
            (TAG, 200, "Vary: b\r\n", false),
            (TAG, 200, "Vary: b\r\nETag: W/\"a\"\r\n", true),
            (MODIFIED, 304, "Vary: a, b\r\n", false),
            (MODIFIED, 304, "Vary: A\r\n", true),
            (MODIFIED, 304, "", true),
            (MODIFIED, 200, "Vary: *\r\n", false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let found =
                tells_variants(&by_a, &HeadLines(stored.as_bytes()), status, &HeadLines(news.as_bytes()));
            assert_eq!(found, expected, "{status} {news} of {stored}");
        }
    }

    #[test]
    fn a_head_updates_or_spoils() {
        let stored = format!("ETag: \"a\"\r\n{MODIFIED}");
        let judge = |status, answer: &str| {
            head(&HeadLines(stored.as_bytes()), 10, status, &HeadLines(answer.as_bytes()))
        };
        assert_eq!(judge(StatusCode::OK, ""), Head::Unrelated);
        assert_eq!(judge(StatusCode::OK, "Content-Length: 10\r\n"), Head::Unrelated);
        assert_eq!(judge(StatusCode::OK, "ETag: \"a\"\r\nContent-Length: 10\r\n"), Head::Update);
        assert_eq!(judge(StatusCode::OK, "ETag: \"b\"\r\n"), Head::Stale);
        assert_eq!(judge(StatusCode::OK, "Content-Length: 11\r\n"), Head::Stale);
        assert_eq!(judge(StatusCode::OK, "Last-Modified: Mon, 07 Nov 1994 08:49:37 GMT\r\n"), Head::Stale);
        assert_eq!(judge(StatusCode::GONE, "ETag: \"b\"\r\n"), Head::Unrelated);
    }

    #[test]
    fn a_date_validates_once_its_second_is_over() {
        let second = 784_111_777;
        for (stored, date, strong) in [
            (MODIFIED, second + 1, true),
            (MODIFIED, second, false),
            ("ETag: W/\"a\"\r\n", second, true),
            ("", second, false),
        ] {
            assert_eq!(has_strong(&HeadLines(stored.as_bytes()), date), strong, "{stored} {date}");
        }
    }

    #[test]
    fn a_304_is_short() {
        assert!(in_not_modified(b"ETag", true) && in_not_modified(b"cache-control", true));
        assert!(!in_not_modified(b"Content-Type", false));
        for name in [&b"CDN-Cache-Control"[..], b"xkey", b"Cache-Groups", b"No-Vary-Search"] {
            assert!(in_not_modified(name, true), "{name:?}");
        }
        assert!(in_not_modified(b"Last-Modified", false) && !in_not_modified(b"Last-Modified", true));
    }
}
