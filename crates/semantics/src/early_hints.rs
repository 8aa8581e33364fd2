//! Early hints (RFC 8297): selects the links of a response (RFC 8288) that help a client before the response
//! is available.

use http::StatusCode;
use larder_words::named;

use crate::fields::{Fields, parameters, trim};
use crate::vary;

/// The most links that are taken from a response.
pub const MOST_LINKS: usize = 16;
/// The most bytes of these links together.
pub const MOST_BYTES: usize = 2 << 10;

/// Relations that a client can use before it has the response: resources to fetch, and origins to connect to.
const HINTED: [&[u8]; 3] = [b"preload", b"modulepreload", b"preconnect"];

named! {
    /// The clients that get early hints.
    #[derive(Default)]
    pub enum EarlyHints, name {
        /// Clients that use HTTP/2.
        #[default]
        Http2 = "h2",
        /// Clients that use HTTP/1.1, too.
        Always = "always",
        /// No clients.
        Off = "off",
    }
}

/// Whether the links of a response with this signature may be sent to other clients than the one that caused it: its
/// status must be 200, and it may vary only by its coding, on which links do not depend.
pub fn may_hint(status: StatusCode, signature: &[u8]) -> bool {
    status == StatusCode::OK && vary::fields(signature).all(|(name, _)| name == "accept-encoding")
}

/// Returns the links of a response that are worth sending early, as written: up to [`MOST_LINKS`], in [`MOST_BYTES`].
pub fn links(response: &impl Fields) -> impl Iterator<Item = &[u8]> {
    let mut left = MOST_BYTES;
    let all = response.lines("link").flat_map(split).filter(|link| is_hint(link)).take(MOST_LINKS);
    all.filter(move |link| {
        let fits = link.len() <= left;
        left -= if fits { link.len() } else { 0 };
        fits
    })
}

/// Splits one line into links. A comma separates them unless it is inside a target or a quoted string.
fn split(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut is_over) = (line, false);
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let (link, after) = match end(rest) {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => {
                is_over = true;
                (rest, &[][..])
            }
        };
        rest = after;
        Some(trim(link))
    })
    .filter(|link| !link.is_empty())
}

/// Returns the end of the first link of `line`, if there is a comma.
fn end(line: &[u8]) -> Option<usize> {
    let (mut in_target, mut in_quotes, mut escaped) = (false, false, false);
    line.iter().position(|&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_quotes => escaped = true,
            b'"' if !in_target => in_quotes = !in_quotes,
            b'<' if !in_quotes => in_target = true,
            b'>' if !in_quotes => in_target = false,
            b',' => return !in_target && !in_quotes,
            _ => {}
        }
        false
    })
}

/// Whether a link is about this response and has a relation that clients can use.
fn is_hint(link: &[u8]) -> bool {
    let Some(inner) = link.strip_prefix(b"<") else { return false };
    let Some(end) = inner.iter().position(|&byte| byte == b'>') else { return false };
    let (target, rest) = (&inner[..end], trim(&inner[end + 1..]));
    if target.is_empty() || !target.iter().all(|byte| byte.is_ascii_graphic()) || !rest.starts_with(b";") {
        return false;
    }
    let mut relation = None;
    for parameter in parameters(rest).skip(1) {
        let at = parameter.iter().position(|&byte| byte == b'=').unwrap_or(parameter.len());
        let (name, value) = (trim(&parameter[..at]), parameter.get(at + 1..).map(trim).unwrap_or_default());
        if name.eq_ignore_ascii_case(b"anchor") {
            return false;
        }
        // Of several relations, the first counts (RFC 8288 section 3.3).
        if name.eq_ignore_ascii_case(b"rel") && relation.is_none() {
            relation = Some(value);
        }
    }
    let unquoted = relation.map(|value| {
        let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        inner.unwrap_or(value)
    });
    unquoted.is_some_and(|value| {
        let mut words = value.split(u8::is_ascii_whitespace);
        words.any(|word| HINTED.iter().any(|hinted| word.eq_ignore_ascii_case(hinted)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::HeadLines;

    fn of(head: &str) -> Vec<String> {
        let head = HeadLines(head.as_bytes());
        links(&head).map(|link| String::from_utf8_lossy(link).into_owned()).collect()
    }

    #[test]
    fn links_to_act_upon_are_distinguished_from_others() {
        for (lines, expected) in [
            ("Link: </a.css>; rel=preload; as=style\r\n", &["</a.css>; rel=preload; as=style"][..]),
            (
                "Link: </a>; rel=\"preload\", </b> ;rel=preconnect\r\n",
                &["</a>; rel=\"preload\"", "</b> ;rel=preconnect"],
            ),
            (
                "Link: </a,b>; rel=preload; title=\"x, \\\"y\"\r\nlink: </c>;REL=ModulePreload\r\n",
                &["</a,b>; rel=preload; title=\"x, \\\"y\"", "</c>;REL=ModulePreload"],
            ),
            ("Link: </a>; rel=\"next preload\"\r\n", &["</a>; rel=\"next preload\""]),
            ("Link: </a>; rel=next, </b>; rel=dns-prefetch, </c>; rel=stylesheet\r\n", &[]),
            ("Link: </a>; rel=next; rel=preload\r\n", &[]),
            ("Link: </a>; rel=preload; anchor=\"#x\"\r\n", &[]),
            ("Link: </a>, <>; rel=preload, </ b>; rel=preload, /c; rel=preload, </d; rel=preload\r\n", &[]),
            ("Link: </a>; as=\"; rel=preload\"\r\n", &[]),
            ("Link: ,, </a>;rel=preload ,\r\nETag: \"x\"\r\n", &["</a>;rel=preload"]),
        ] {
            assert_eq!(of(lines), expected, "{lines}");
        }
    }

    #[test]
    fn only_so_many_are_taken() {
        let many: String = (0..99).map(|n| format!("Link: </{n}>;rel=preload\r\n")).collect();
        assert_eq!(of(&many).len(), MOST_LINKS);
        let long = format!("Link: </{}>;rel=preload, </b>;rel=preload\r\n", "x".repeat(MOST_BYTES));
        assert_eq!(of(&long), ["</b>;rel=preload"]);
    }

    #[test]
    fn only_responses_that_vary_by_coding_alone_may_be_hinted_at() {
        let signature = |vary: &str| {
            let (response, request) =
                (format!("Vary: {vary}\r\n"), HeadLines(b"Accept-Encoding: br\r\nA: 1\r\n"));
            let mut signature = Vec::new();
            vary::write(&HeadLines(response.as_bytes()), &request, &mut signature).expect("a signature");
            signature
        };
        assert!(may_hint(StatusCode::OK, &[]) && may_hint(StatusCode::OK, &signature("accept-encoding")));
        assert!(!may_hint(StatusCode::OK, &signature("a")));
        assert!(!may_hint(StatusCode::OK, &signature("accept-encoding, a")));
        assert!(!may_hint(StatusCode::NOT_FOUND, &[]));
    }

    proptest! {
        #[test]
        fn any_bytes_give_few_parts_of_themselves(value in prop::collection::vec(any::<u8>(), 0..400)) {
            let head = [b"Link: ", &value[..], b"\r\n"].concat();
            let lines = HeadLines(&head);
            let found: Vec<_> = links(&lines).collect();
            prop_assert!(found.len() <= MOST_LINKS && found.iter().map(|link| link.len()).sum::<usize>() <= MOST_BYTES);
            for link in found {
                prop_assert!(link.starts_with(b"<") && head.windows(link.len()).any(|part| part == link));
            }
        }

        #[test]
        fn any_links_are_found_whole(
            links in prop::collection::vec(("</[a-z,;]{0,9}>", prop::sample::select(vec!["preload", "\"preload\"", "preconnect"])), 1..9),
        ) {
            let links: Vec<_> = links.iter().map(|(target, rel)| format!("{target}; rel={rel}; as=\"a,b\"")).collect();
            prop_assert_eq!(of(&format!("Link: {}\r\n", links.join(", "))), links);
        }
    }
}
