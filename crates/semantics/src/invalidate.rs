//! The stored responses that an unsafe request invalidates (RFC 9111 section 4.4).

use http::{Method, StatusCode};

use crate::fields::Fields;
use crate::{date, key, methods};

/// Whether a method may change the origin's later responses.
pub fn is_unsafe(method: &Method) -> bool {
    !methods::is_safe(method)
}

/// Returns the keys to remove after an unsafe request for `target`, a key, was answered: `target` itself, and on the same
/// origin the URLs in `Location` and `Content-Location`, and in the `Destination` of a COPY or MOVE (RFC 4918 section
/// 10.3). None after an error.
pub fn targets(
    target: &[u8],
    (method, request): (&Method, &impl Fields),
    status: StatusCode,
    response: &impl Fields,
) -> Vec<Vec<u8>> {
    if !status.is_success() && !status.is_redirection() {
        return Vec::new();
    }
    let mut keys = vec![target.to_vec()];
    let has_destination = matches!(method.as_str(), "COPY" | "MOVE");
    let destination = has_destination.then(|| request.first("destination")).flatten();
    let named = ["location", "content-location"].into_iter().filter_map(|name| response.first(name));
    for reference in named.chain(destination) {
        let mut named = Vec::new();
        let resolved = key::resolve(target, reference, &mut named).is_some();
        if resolved && key::same_origin(target, &named) && !keys.contains(&named) {
            keys.push(named);
        }
    }
    keys
}

/// Whether a stored response, generated at `date`, may be kept after an unsafe request, to be validated before any
/// use, instead of being removed: its validator has to distinguish it from any result of the request. A weak tag may
/// fail to, and so may one that the origin derives from a modification time if the response was generated in that same
/// second (RFC 9110 section 8.8.2.2). After DELETE no equal content is expected.
pub fn may_be_validated(method: &Method, status: StatusCode, stored: &impl Fields, date: u32) -> bool {
    let is_strong = stored.first("etag").is_some_and(|tag| tag.starts_with(b"\""));
    let is_modified_earlier = match stored.first("last-modified") {
        Some(modified) => date::parse(modified).is_some_and(|modified| modified < date),
        None => true,
    };
    *method != Method::DELETE && status == StatusCode::OK && is_strong && is_modified_earlier
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::HeadLines;

    const POST: (&Method, &HeadLines<'_>) = (&Method::POST, &HeadLines(b""));

    fn key(authority: &str, path: &str) -> Vec<u8> {
        let mut buf = Vec::new();
        key::write(&mut buf, "http", authority.as_bytes(), path.as_bytes());
        buf
    }

    #[test]
    fn only_the_same_origin_is_spoilt() {
        let target = key("a", "/x/y");
        let response = b"Location: http://A:80/l\r\nContent-Location: c\r\n";
        let found = targets(&target, POST, StatusCode::CREATED, &HeadLines(response));
        assert_eq!(found, [target.clone(), key("a", "/l"), key("a", "/x/c")]);

        let response = b"Location: http://b/l\r\nContent-Location: https://a/x/y\r\n";
        assert_eq!(
            targets(&target, POST, StatusCode::OK, &HeadLines(response)),
            std::slice::from_ref(&target)
        );

        let response = b"Location: /x/y\r\nContent-Location: mailto:x\r\n";
        assert_eq!(targets(&target, POST, StatusCode::SEE_OTHER, &HeadLines(response)), [target]);
    }

    #[test]
    fn errors_spoil_nothing() {
        for status in [StatusCode::BAD_REQUEST, StatusCode::INTERNAL_SERVER_ERROR] {
            assert!(targets(&key("a", "/"), POST, status, &HeadLines(b"")).is_empty(), "{status}");
        }
    }

    #[test]
    fn validation_after_a_change_needs_a_strong_tag_of_an_earlier_second() {
        const EARLIER: &str = "Last-Modified: Thu, 01 Jan 1970 00:01:39 GMT\r\n";
        const SAME: &str = "Last-Modified: Thu, 01 Jan 1970 00:01:40 GMT\r\n";
        let tag = |tag: &str, modified: &str| format!("ETag: {tag}\r\n{modified}");
        for (method, status, fields, expected) in [
            ("PUT", 200, tag("\"a\"", ""), true),
            ("POST", 200, tag("\"a\"", EARLIER), true),
            ("PUT", 200, tag("\"a\"", SAME), false),
            ("PUT", 200, tag("\"a\"", "Last-Modified: today\r\n"), false),
            ("PUT", 200, tag("W/\"a\"", EARLIER), false),
            ("PUT", 200, EARLIER.to_owned(), false),
            ("PUT", 206, tag("\"a\"", ""), false),
            ("DELETE", 200, tag("\"a\"", ""), false),
        ] {
            let (method, status) = (Method::from_bytes(method.as_bytes()), StatusCode::from_u16(status));
            let may = may_be_validated(&method.unwrap(), status.unwrap(), &HeadLines(fields.as_bytes()), 100);
            assert_eq!(may, expected, "{fields}");
        }
    }
}
