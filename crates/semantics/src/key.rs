//! Cache keys: the identity of a URI (RFC 9111 section 2, RFC 9110 section 4.2.3).
//!
//! A key is the URI in parts, each with its length, so that no two URIs have the same key. It is not hashed
//! here, and does not depend on methods or variants ([`crate::vary`]).

use crate::wire::{put_length, put_part, take_part};

/// Appends the key of a URI. The host is lower-cased and loses a final dot, the scheme's default port is
/// removed, a port loses leading zeros, and an empty path becomes `/`. There is no other normalisation.
pub fn write(buf: &mut Vec<u8>, scheme: &str, authority: &[u8], path_and_query: &[u8]) {
    let default_port: &[u8] = match scheme {
        "http" => b"80",
        "https" => b"443",
        _ => b"",
    };
    let (host, port) = split_port(authority);
    let host = host.strip_suffix(b".").unwrap_or(host);
    let port = port.map(without_zeros).filter(|&port| !port.is_empty() && port != default_port);

    put_part(buf, scheme.as_bytes());
    put_length(buf, host.len() + port.map_or(0, |port| port.len() + 1));
    let start = buf.len();
    buf.extend_from_slice(host);
    buf[start..].make_ascii_lowercase();
    if let Some(port) = port {
        buf.push(b':');
        buf.extend_from_slice(port);
    }
    if matches!(path_and_query, [] | [b'?', ..]) {
        buf.push(b'/');
    }
    buf.extend_from_slice(path_and_query);
}

/// Splits a key into scheme, authority, and path with query; `None` if it is malformed.
pub fn parse(mut key: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let scheme = match take_part(&mut key)? {
        b"http" => "http",
        b"https" => "https",
        other => std::str::from_utf8(other).ok()?,
    };
    let authority = take_part(&mut key)?;
    (!key.is_empty()).then_some((scheme, authority, key))
}

/// Returns the key of the URL in a `stored` key: that of its target, and a byte for the kind of its clients. What else tells
/// stored content apart, such as a [partition](crate::partition), is behind a NUL, which no target has.
pub fn of_url(stored: &[u8]) -> &[u8] {
    let path = parse(stored).map_or(&[][..], |(_, _, path)| path);
    let behind = path.iter().position(|byte| *byte == 0).map_or(0, |end| path.len() - end);
    &stored[..stored.len() - behind]
}

/// Appends the key of a URI reference found in the content of `base`, a key. Returns `None` (and appends
/// nothing) when it is not an HTTP URI. Fragments are dropped (RFC 3986 section 5.2).
pub fn resolve(base: &[u8], reference: &[u8], buf: &mut Vec<u8>) -> Option<()> {
    let (base_scheme, base_authority, base_path) = parse(base)?;
    let reference = reference.split(|&byte| byte == b'#').next()?;
    let (scheme, rest) = split_scheme(reference)?;
    let scheme = scheme.unwrap_or(base_scheme);
    if let Some(rest) = rest.strip_prefix(b"//") {
        let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
        let authority = &rest[..end];
        if authority.is_empty() || authority.contains(&b'@') {
            return None;
        }
        write(buf, scheme, authority, &without_dots(&rest[end..]));
    } else if rest.len() < reference.len() {
        return None;
    } else {
        write(buf, scheme, base_authority, &merge(base_path, rest));
    }
    Some(())
}

/// Returns the part of a key with scheme, host and port; keys of one origin begin with the same part (RFC
/// 9110 section 4.3.1). `None` if the key is malformed.
pub fn origin(key: &[u8]) -> Option<&[u8]> {
    let (_, _, path) = parse(key)?;
    Some(&key[..key.len() - path.len()])
}

/// Returns a key without its query, and the query, if it has one.
pub fn split_at_query(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    let path = parse(key).map_or(&[][..], |(_, _, path)| path);
    match path.iter().position(|&byte| byte == b'?') {
        Some(at) => {
            let (start, query) = key.split_at(key.len() - path.len() + at);
            (start, query.get(1..))
        }
        None => (key, None),
    }
}

/// Returns the host of an authority, without its port.
pub fn host(authority: &[u8]) -> &[u8] {
    split_port(authority).0
}

/// Whether two keys have the same scheme, host and port (RFC 9110 section 4.3.1).
pub fn same_origin(one: &[u8], other: &[u8]) -> bool {
    origin(one).is_some_and(|one| Some(one) == origin(other))
}

fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    // Most authorities have no port: their last byte decides.
    match authority.iter().rposition(|byte| !byte.is_ascii_digit()) {
        Some(colon) if authority[colon] == b':' => (&authority[..colon], Some(&authority[colon + 1..])),
        _ => (authority, None),
    }
}

/// Returns the digits of a port from the first one that counts: `080` is the number 80.
fn without_zeros(port: &[u8]) -> &[u8] {
    let last = port.len().saturating_sub(1);
    &port[port.iter().take(last).take_while(|&&digit| digit == b'0').count()..]
}

/// Returns the HTTP scheme at the start of `reference`, if it has a scheme, and the rest behind its colon;
/// `None` for other schemes.
fn split_scheme(reference: &[u8]) -> Option<(Option<&'static str>, &[u8])> {
    let end = reference.iter().position(|byte| b":/?".contains(byte));
    let Some(colon) = end.filter(|&end| reference[end] == b':') else {
        return Some((None, reference));
    };
    let scheme =
        ["http", "https"].into_iter().find(|s| s.as_bytes().eq_ignore_ascii_case(&reference[..colon]))?;
    Some((Some(scheme), &reference[colon + 1..]))
}

/// Returns path and query of a reference without authority (RFC 3986 section 5.2.2).
fn merge(base: &[u8], reference: &[u8]) -> Vec<u8> {
    let (base_path, _) = split_query(base);
    match reference {
        [] => base.to_vec(),
        [b'?', ..] => [base_path, reference].concat(),
        [b'/', ..] => without_dots(reference),
        _ => {
            let directory = base_path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            without_dots(&[&base_path[..directory], reference].concat())
        }
    }
}

fn split_query(path_and_query: &[u8]) -> (&[u8], &[u8]) {
    let mark = path_and_query.iter().position(|&byte| byte == b'?');
    path_and_query.split_at(mark.unwrap_or(path_and_query.len()))
}

/// Removes the segments `.` and `..` of the path (RFC 3986 section 5.2.4).
fn without_dots(path_and_query: &[u8]) -> Vec<u8> {
    let (path, query) = split_query(path_and_query);
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut rest = path.split(|&byte| byte == b'/').skip(1).peekable();
    while let Some(segment) = rest.next() {
        let last = rest.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    segments.pop();
                }
                if last {
                    segments.push(b"");
                }
            }
            _ => segments.push(segment),
        }
    }
    let mut out = Vec::with_capacity(path_and_query.len() + 1);
    for segment in segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    out.extend_from_slice(query);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(scheme: &str, authority: &str, path: &str) -> Vec<u8> {
        let mut buf = Vec::new();
        write(&mut buf, scheme, authority.as_bytes(), path.as_bytes());
        buf
    }

    fn text(key: &[u8]) -> String {
        let (scheme, authority, path) = parse(key).unwrap();
        format!("{scheme}://{}{}", authority.escape_ascii(), path.escape_ascii())
    }

    #[test]
    fn equal_uris_have_equal_keys() {
        let cases = [
            (("http", "Example.COM:80", ""), "http://example.com/"),
            (("http", "example.com.", "/a"), "http://example.com/a"),
            (("http", "example.com.:8080", "?q"), "http://example.com:8080/?q"),
            (("http", "example.com:443", "/"), "http://example.com:443/"),
            (("https", "example.com:443", "/A?b=C"), "https://example.com/A?b=C"),
            (("https", "example.com:", "/"), "https://example.com/"),
            (("http", "example.com:080", "/"), "http://example.com/"),
            (("https", "example.com:0080", "/"), "https://example.com:80/"),
            (("http", "example.com:00", "/"), "http://example.com:0/"),
            (("http", "[::1]", "/"), "http://[::1]/"),
            (("http", "[::1]:80", "/"), "http://[::1]/"),
            (("http", "h", "*"), "http://h*"),
        ];
        for ((scheme, authority, path), expected) in cases {
            assert_eq!(text(&key(scheme, authority, path)), expected);
        }
    }

    #[test]
    fn references_resolve_as_in_rfc_3986_section_5_4() {
        let base = key("http", "a", "/b/c/d?q");
        let cases = [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("//g?x", "http://g/?x"),
            ("?y", "http://a/b/c/d?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("g?y/./x", "http://a/b/c/g?y/./x"),
            ("#s", "http://a/b/c/d?q"),
            ("g#s", "http://a/b/c/g"),
            ("", "http://a/b/c/d?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("./g/.", "http://a/b/c/g/"),
            ("g/../h", "http://a/b/c/h"),
            ("HTTPS://B:443/x", "https://b/x"),
            ("//a:080/x", "http://a/x"),
            ("http://a:80", "http://a/"),
        ];
        for (reference, expected) in cases {
            let mut found = Vec::new();
            assert_eq!(resolve(&base, reference.as_bytes(), &mut found), Some(()), "{reference}");
            assert_eq!(text(&found), expected, "{reference}");
        }
        for reference in ["mailto:a@b", "ftp://a/", "http:g", "http://u@a/", "///g"] {
            let mut found = Vec::new();
            assert_eq!(resolve(&base, reference.as_bytes(), &mut found), None, "{reference}");
            assert!(found.is_empty());
        }
    }

    #[test]
    fn a_key_is_split_at_its_query() {
        for (path, start, query) in [
            ("/a?b=c", "/a", Some("b=c")),
            ("/a?b?c", "/a", Some("b?c")),
            ("/a?", "/a", Some("")),
            ("/a", "/a", None),
            ("?a", "/", Some("a")),
        ] {
            let whole = key("http", "h?x", path);
            let expected = (&key("http", "h?x", start)[..], query.map(str::as_bytes));
            assert_eq!(split_at_query(&whole), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_key_reads_back_and_is_its_own_normal_form(
            scheme in "http|https|[a-z]{0,3}", authority: Vec<u8>, path: Vec<u8>,
        ) {
            let mut first = Vec::new();
            write(&mut first, &scheme, &authority, &path);
            let (found, host, rest) = parse(&first).unwrap();
            prop_assert_eq!(found, &scheme);
            prop_assert!(path.is_empty() || rest.ends_with(&path));
            prop_assert!(host.len() <= authority.len());
        }

        #[test]
        fn different_uris_have_different_keys(
            one in ("http|https", "[a-c]{1,3}(:[1-9]{1,2})?", "/[a-c/?]{0,4}"),
            other in ("http|https", "[a-c]{1,3}(:[1-9]{1,2})?", "/[a-c/?]{0,4}"),
        ) {
            let keys = [&one, &other].map(|(scheme, authority, path)| key(scheme, authority, path));
            prop_assert_eq!(keys[0] == keys[1], one == other);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(base: Vec<u8>, reference: Vec<u8>) {
            parse(&base);
            resolve(&base, &reference, &mut Vec::new());
            resolve(&key("http", "a", "/b"), &reference, &mut Vec::new());
        }
    }
}
