//! Invalidations for caches (RFC 9875): each pool is a cache group.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use larder_semantics::directives::ResponseDirectives;
use larder_semantics::fields::Fields;
use larder_semantics::vary;

use crate::Couplings;
use crate::identity::has_credentials;
use crate::segment::{Segment, group};
use crate::settings::Push;

pub(crate) const GROUPS: HeaderName = HeaderName::from_static("cache-groups");
const INVALIDATION: HeaderName = HeaderName::from_static("cache-group-invalidation");
/// The group of all responses, for changes whose segment is unknown.
const ALL: &str = "*";
/// The fields that set the lifetime of a response in caches.
const DIRECTIVES: [HeaderName; 2] = [header::CACHE_CONTROL, HeaderName::from_static("cdn-cache-control")];
/// Fields other than `Cache-Control` with which backends set lifetimes.
const LIFETIMES: [&str; 3] = ["expires", "cdn-cache-control", "surrogate-control"];

/// Returns the line with the groups of a response below `segment`.
pub(crate) fn belongs(segment: &Segment) -> HeaderMap {
    let own = match segment {
        Segment::Named(name) => Some(group(name)),
        Segment::Anywhere => None,
    };
    line(GROUPS, own.into_iter().chain([ALL.to_owned()]))
}

/// Returns the line with the groups that a change below `segment` invalidates.
pub(crate) fn invalidates(segment: &Segment, couplings: &Couplings) -> HeaderMap {
    match segment {
        Segment::Named(name) => {
            let coupled = couplings.of(name).iter().map(|name| group(name));
            line(INVALIDATION, std::iter::once(group(name)).chain(coupled))
        }
        Segment::Anywhere => line(INVALIDATION, std::iter::once(ALL.to_owned())),
    }
}

/// Returns a list of strings (RFC 9651). Names of groups have no characters that need escapes.
fn line(name: HeaderName, groups: impl Iterator<Item = String>) -> HeaderMap {
    let groups: Vec<_> = groups.map(|group| format!("\"{group}\"")).collect();
    HeaderValue::try_from(groups.join(", "))
        .map(|value| HeaderMap::from_iter([(name, value)]))
        .unwrap_or_default()
}

/// Lets caches store a response without a lifetime of its own, if it is a public response to a request
/// without credentials. They do not use it for requests with credentials or another certificate, unless the
/// backend declares it the same for all.
pub(crate) fn prolong(
    push: Push,
    request: &impl Fields,
    status: StatusCode,
    answer: &impl Fields,
    lines: &mut HeaderMap,
) {
    let said = ResponseDirectives::parse(answer, &[]);
    let speaks = said.max_age.is_some()
        || said.s_maxage.is_some()
        || said.no_store
        || said.no_cache
        || said.private
        || LIFETIMES.into_iter().any(|name| answer.contains(name));
    let is_secret = has_credentials(request) && !said.public;
    if status != StatusCode::OK
        || speaks
        || is_secret
        || answer.contains("set-cookie")
        || vary::is_any(answer)
    {
        return;
    }
    if let Ok(value) = HeaderValue::try_from(format!("s-maxage={}", push.lifetime)) {
        lines.append(header::CACHE_CONTROL, value);
        if !said.public {
            lines.append(header::VARY, HeaderValue::from_static("Authorization, Cookie, Client-Cert"));
        }
    }
}

/// Forbids caches to store a response, for any lifetime from the backend. A 304 without this would renew the earlier
/// lifetime of a stored response. A stored `no-cache` would outlast the doubt: later 304s do not replace fields that
/// they do not have (RFC 9111 section 3.2).
pub(crate) fn forbid_reuse(lines: &mut HeaderMap) {
    for name in DIRECTIVES {
        lines.append(name, HeaderValue::from_static("no-store"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use larder_semantics::fields::HeadLines;

    use super::*;

    #[test]
    fn groups_are_lists_of_strings() {
        let (users, anywhere) = (Segment::of(b"/users/1"), Segment::of(b"//"));
        let couplings = BTreeMap::from([("users".into(), vec!["paths".into(), "x".repeat(40).into()])]);
        let couplings = Couplings::new(&couplings, false);
        assert_eq!(belongs(&users)["cache-groups"], "\"users\", \"*\"");
        assert_eq!(belongs(&anywhere)["cache-groups"], "\"*\"");
        let expected = format!("\"users\", \"paths\", \"{}\"", group(&"x".repeat(40)));
        assert_eq!(invalidates(&users, &couplings)["cache-group-invalidation"], expected.as_str());
        assert_eq!(invalidates(&anywhere, &couplings)["cache-group-invalidation"], "\"*\"");
    }

    #[test]
    fn only_silence_is_filled_in() {
        let prolonged = |request: &str, status: u16, answer: &str| {
            let mut lines = HeaderMap::new();
            let status = StatusCode::from_u16(status).unwrap();
            let (request, answer) = (HeadLines(request.as_bytes()), HeadLines(answer.as_bytes()));
            prolong(Push { lifetime: 9 }, &request, status, &answer, &mut lines);
            let text = |name| lines.get(name).map_or("", |value: &HeaderValue| value.to_str().unwrap());
            format!("{} {}", text("cache-control"), text("vary")).trim().to_owned()
        };
        for (request, status, answer, expected) in [
            ("", 200, "", "s-maxage=9 Authorization, Cookie, Client-Cert"),
            ("", 200, "Cache-Control: must-revalidate\r\n", "s-maxage=9 Authorization, Cookie, Client-Cert"),
            // A cache in front presents its own certificate, for all of its clients.
            ("Client-Cert: :YQ==:\r\n", 200, "", "s-maxage=9 Authorization, Cookie, Client-Cert"),
            ("Cookie: a\r\n", 200, "Cache-Control: public\r\n", "s-maxage=9"),
            ("Cookie: a\r\n", 200, "", ""),
            ("Authorization: a\r\n", 200, "", ""),
            ("", 404, "", ""),
            ("", 200, "Cache-Control: max-age=0\r\n", ""),
            ("", 200, "Cache-Control: no-cache\r\n", ""),
            ("", 200, "Cache-Control: private\r\n", ""),
            ("", 200, "Expires: 0\r\n", ""),
            ("", 200, "CDN-Cache-Control: no-store\r\n", ""),
            ("", 200, "Set-Cookie: a=b\r\n", ""),
            ("", 200, "Vary: *\r\n", ""),
        ] {
            assert_eq!(prolonged(request, status, answer), expected, "{request}{status} {answer}");
        }
    }
}
