//! `Cache-Control` of requests and responses (RFC 9111 section 5.2), `Pragma` (5.4) and targeted fields
//! (RFC 9213) as plain values. Other modules decide their effect.

use http::HeaderName;
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use crate::fields::{Fields, is_token, list, members};
use crate::wire::decimal;

/// A client's directives to caches (RFC 9111 section 5.2.1); the default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// Stored responses must be validated before use.
    pub no_cache: bool,
    /// Neither the request nor its response may be stored.
    pub no_store: bool,
    /// The cache must answer with a stored response or 504.
    pub only_if_cached: bool,
    /// The greatest acceptable age, in seconds.
    pub max_age: Option<u32>,
    /// The greatest acceptable staleness, in seconds; `u32::MAX`: any.
    pub max_stale: Option<u32>,
    /// The time that a response must stay fresh, in seconds.
    pub min_fresh: Option<u32>,
    /// The acceptable staleness when the origin fails, in seconds (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// Returns the directives without the demand for a newer response than the stored one.
    pub fn ignoring_reloads(self) -> Self {
        Self { no_cache: false, max_age: None, min_fresh: None, ..self }
    }

    /// Parses a request's `Cache-Control`, or in its absence `Pragma`. Of repeated directives the first one
    /// counts, or the first one with a number where a number is needed.
    pub fn parse(request: &impl Fields) -> Self {
        let mut found = Self::default();
        if !request.contains("cache-control") {
            found.no_cache = members(request, "pragma").any(|m| m.eq_ignore_ascii_case(b"no-cache"));
            return found;
        }
        for (name, value) in members(request, "cache-control").filter_map(directive) {
            let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
            if is("no-cache") {
                found.no_cache = true;
            } else if is("no-store") {
                found.no_store = true;
            } else if is("only-if-cached") {
                found.only_if_cached = true;
            } else if is("max-age") {
                found.max_age = found.max_age.or(seconds(value));
            } else if is("max-stale") {
                let any = value.is_empty().then_some(u32::MAX);
                found.max_stale = found.max_stale.or(any).or(seconds(value));
            } else if is("min-fresh") {
                found.min_fresh = found.min_fresh.or(seconds(value));
            } else if is("stale-if-error") {
                found.stale_if_error = found.stale_if_error.or(seconds(value));
            }
        }
        found
    }
}

/// An origin's directives to caches (RFC 9111 section 5.2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Seconds of freshness; 0 for a value that is not a number.
    pub max_age: Option<u32>,
    /// The same for shared caches.
    pub s_maxage: Option<u32>,
    /// Seconds of staleness allowed while revalidating (RFC 5861 section 3).
    pub stale_while_revalidate: Option<u32>,
    /// Seconds of staleness allowed when the origin fails (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
    /// The response must not be stored.
    pub no_store: bool,
    /// Each use must be validated. Set by the unqualified form only.
    pub no_cache: bool,
    /// The response is for one user. Set by the unqualified form only.
    pub private: bool,
    /// The response is storable even where it otherwise would not be.
    pub public: bool,
    /// The response must not be used when stale.
    pub must_revalidate: bool,
    /// The same for shared caches.
    pub proxy_revalidate: bool,
    /// The response is stored only if the status code is understood, and then in spite of `no-store`.
    pub must_understand: bool,
    /// The response does not change while fresh (RFC 8246).
    pub immutable: bool,
    /// The content must not be transformed.
    pub no_transform: bool,
    /// The fields named by `no-cache="…"` and `private="…"`, which are not stored.
    pub withheld: Vec<HeaderName>,
    /// Whether they come from a targeted field, so that `Expires` has no effect (RFC 9213 section 2.2).
    pub targeted: bool,
}

/// The length of the longest directive of a response, `stale-while-revalidate`.
const LONGEST_NAME: usize = 22;

impl ResponseDirectives {
    /// Parses the first valid, non-empty field of `targets` (lower-case names), or else `Cache-Control`. Of
    /// repeated directives the first counts; a lifetime that is not a number is 0, since a malformed lifetime
    /// is best treated as stale (RFC 9111 section 4.2.1).
    pub fn parse(response: &impl Fields, targets: &[String]) -> Self {
        targets.iter().find_map(|target| targeted(response, target)).unwrap_or_else(|| {
            let mut found = Self::default();
            members(response, "cache-control").for_each(|member| {
                let Some((name, value)) = directive(member) else {
                    return found.restrict(member);
                };
                if !is_argument(value) {
                    found.restrict(value);
                }
                // Longer names have no meaning.
                let mut lower = [0; LONGEST_NAME];
                if let Some(lower) = lower.get_mut(..name.len()) {
                    lower.copy_from_slice(name);
                    lower.make_ascii_lowercase();
                    found.set(lower, value);
                }
            });
            found
        })
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let lifetime = || Some(seconds(value).unwrap_or(0));
        match name {
            b"max-age" => self.max_age = self.max_age.or_else(lifetime),
            b"s-maxage" => self.s_maxage = self.s_maxage.or_else(lifetime),
            b"stale-while-revalidate" => {
                self.stale_while_revalidate = self.stale_while_revalidate.or_else(lifetime);
            }
            b"stale-if-error" => self.stale_if_error = self.stale_if_error.or_else(lifetime),
            b"no-cache" => self.no_cache |= !self.withhold(value),
            b"private" => self.private |= !self.withhold(value),
            b"no-store" => self.no_store = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"immutable" => self.immutable = true,
            b"no-transform" => self.no_transform = true,
            _ => {}
        }
    }

    /// Applies the names of restricting directives in `malformed`, a text with another syntax: a wrong separator or an
    /// open quotation mark must not make a response for one user public.
    fn restrict(&mut self, malformed: &[u8]) {
        for word in malformed.split(|byte| !is_token(&[*byte])) {
            let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(word);
            self.no_store |= is("no-store");
            self.no_cache |= is("no-cache");
            self.private |= is("private");
        }
    }

    /// Whether `value` lists only field names; they are withheld then.
    fn withhold(&mut self, value: &[u8]) -> bool {
        let names: Option<Vec<_>> =
            list(unquoted(value)).map(|name| HeaderName::from_bytes(name).ok()).collect();
        let names = names.unwrap_or_default();
        let qualified = !names.is_empty();
        self.withheld.extend(names);
        qualified
    }
}

/// Parses a targeted field, if it is a structured dictionary whose members have the types of their directives
/// (RFC 9213 section 2.1).
fn targeted(response: &impl Fields, name: &str) -> Option<ResponseDirectives> {
    let mut value = Vec::new();
    for line in response.lines(name) {
        value.extend_from_slice(if value.is_empty() { b"" } else { b"," });
        value.extend_from_slice(line);
    }
    if value.is_empty() {
        return None;
    }
    let members = Parser::new(&value).parse::<Dictionary>().ok().filter(|members| !members.is_empty())?;
    let mut found = ResponseDirectives { targeted: true, ..Default::default() };
    for (name, member) in &members {
        let ListEntry::Item(item) = member else {
            if is_known(name.as_str()) {
                return None;
            }
            continue;
        };
        let argument = match (name.as_str(), &item.bare_item) {
            (name, BareItem::Integer(seconds)) if is_lifetime(name) => i64::from(*seconds).max(0).to_string(),
            ("no-cache" | "private", BareItem::String(names)) => names.as_str().to_owned(),
            (name, BareItem::Boolean(true)) if !is_lifetime(name) => String::new(),
            (name, _) if is_known(name) => return None,
            _ => continue,
        };
        found.set(name.as_str().as_bytes(), argument.as_bytes());
    }
    Some(found)
}

/// Whether the directive called `name` takes a number of seconds.
pub(crate) fn is_lifetime(name: &str) -> bool {
    matches!(name, "max-age" | "s-maxage" | "stale-while-revalidate" | "stale-if-error")
}

/// Whether a response's directive called `name` has an effect in this crate.
pub(crate) fn is_known(name: &str) -> bool {
    let flags = [
        "no-cache",
        "private",
        "no-store",
        "public",
        "must-revalidate",
        "proxy-revalidate",
        "must-understand",
        "immutable",
        "no-transform",
    ];
    is_lifetime(name) || flags.contains(&name)
}

/// Returns name and argument, without quotes, of one member; `None` when the name is not a token.
pub(crate) fn split(member: &[u8]) -> Option<(&[u8], &[u8])> {
    directive(member).map(|(name, value)| (name, unquoted(value)))
}

/// Returns name and argument (empty without one) of one member; `None` when the name is not a token.
fn directive(member: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = member.iter().position(|&byte| byte == b'=');
    let (name, value) = match equals {
        Some(at) => (&member[..at], &member[at + 1..]),
        None => (member, &member[member.len()..]),
    };
    is_token(name).then_some((name, value))
}

/// Whether `value` may be the argument of a directive: nothing, a token, or a quoted string (RFC 9111 section 5.2).
fn is_argument(value: &[u8]) -> bool {
    value.is_empty() || is_token(value) || unquoted(value).len() < value.len()
}

/// Parses a delta-seconds (RFC 9111 section 1.2.2), as a token or quoted.
fn seconds(value: &[u8]) -> Option<u32> {
    decimal(unquoted(value)).map(|seconds| seconds.min(u32::MAX.into()) as u32)
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn response(lines: &[(&'static str, &str)]) -> ResponseDirectives {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, value.parse().unwrap());
        }
        ResponseDirectives::parse(&map, &["larder-cache-control".into(), "cdn-cache-control".into()])
    }

    #[test]
    fn lifetimes_are_exact() {
        let cases = [
            ("max-age=3600", Some(3600)),
            ("MaX-AgE=3600", Some(3600)),
            ("max-age=\"3600\"", Some(3600)),
            ("max-age=003600", Some(3600)),
            ("max-age=99999999999", Some(u32::MAX)),
            ("max-age=0", Some(0)),
            ("max-age=-3600", Some(0)),
            ("max-age='3600'", Some(0)),
            ("max-age=3600.5", Some(0)),
            ("max-age=a3600", Some(0)),
            ("max-age=3600a", Some(0)),
            ("max-age= 3600", Some(0)),
            ("max-age", Some(0)),
            ("max-age =3600", None),
            ("extension=\"max-age=3600\"", None),
            ("extension=\"max-age=3600\", max-age=1", Some(1)),
            ("max-age=1, extension=\"max-age=3600\"", Some(1)),
            ("max-age=1, max-age=1800", Some(1)),
            ("max-age=1800, max-age=1", Some(1800)),
        ];
        for (value, expected) in cases {
            assert_eq!(response(&[("cache-control", value)]).max_age, expected, "{value}");
        }
        assert_eq!(
            response(&[("cache-control", "max-age=2"), ("cache-control", "max-age=1")]).max_age,
            Some(2)
        );
    }

    #[test]
    fn the_qualified_forms_withhold_fields() {
        let names =
            |names: &[&'static str]| names.iter().map(|n| HeaderName::from_static(n)).collect::<Vec<_>>();
        let cases = [
            ("no-cache", true, false, names(&[])),
            ("No-CaChE=\"A, b\"", false, false, names(&["a", "b"])),
            ("no-cache=a", false, false, names(&["a"])),
            ("no-cache=\"\"", true, false, names(&[])),
            ("no-cache=\"a b\"", true, false, names(&[])),
            ("no-cache=\"a\", no-cache", true, false, names(&["a"])),
            ("private", false, true, names(&[])),
            ("private=\"set-cookie\"", false, false, names(&["set-cookie"])),
            ("private=", false, true, names(&[])),
        ];
        for (value, no_cache, private, withheld) in cases {
            let found = response(&[("cache-control", value)]);
            assert_eq!(
                (found.no_cache, found.private, found.withheld),
                (no_cache, private, withheld),
                "{value}"
            );
        }
    }

    #[test]
    fn malformed_members_restrict() {
        let cases = [
            ("private; max-age=60", (false, false, true)),
            ("max-age=60; Private", (false, false, true)),
            ("max-age=60 private", (false, false, true)),
            ("no-store; no-cache", (true, true, false)),
            ("private =x", (false, false, true)),
            ("x=\"a, private", (false, false, true)),
            ("max-age=60, x=a\"b, no-store", (true, false, false)),
            ("x=\"a; private\", y", (false, false, false)),
            ("x-private; public", (false, false, false)),
        ];
        for (value, expected) in cases {
            let found = response(&[("cache-control", value)]);
            assert_eq!((found.no_store, found.no_cache, found.private), expected, "{value}");
            assert!(!found.public, "{value}");
        }
    }

    #[test]
    fn targeted_fields_are_exact_dictionaries() {
        let cases = [
            ("max-age=100", Some(100)),
            ("max-age=100;p=1", Some(100)),
            ("foobar, max-age=100", Some(100)),
            ("foobar=(1 2), max-age=100", Some(100)),
            ("max-age=1, max-age=100", Some(100)),
            ("max-age=99999999999", Some(u32::MAX)),
            ("max-age=-1", Some(0)),
        ];
        for (value, expected) in cases {
            let found = response(&[("cdn-cache-control", value), ("cache-control", "no-store")]);
            assert!(found.targeted && !found.no_store, "{value}");
            assert_eq!(found.max_age, expected, "{value}");
        }
        let ignored = [
            "",
            "max-age=100, &&&",
            "max-age=\"100\"",
            "max-age=100.5",
            "max-age =100",
            "max-age= 100",
            "MaX-aGe=100",
            "max-age=100,",
            "max-age=(100)",
            "max-age",
            "no-store=1, max-age=100",
            "public=?0, max-age=100",
        ];
        for value in ignored {
            let found = response(&[("cdn-cache-control", value), ("cache-control", "no-store")]);
            assert!(!found.targeted && found.no_store, "{value}");
        }
    }

    #[test]
    fn the_first_valid_target_wins() {
        let found = response(&[
            ("cdn-cache-control", "max-age=1"),
            ("larder-cache-control", "max-age=2, private=\"a\""),
            ("cache-control", "max-age=3"),
        ]);
        assert_eq!((found.max_age, found.withheld.len(), found.private), (Some(2), 1, false));
        let found = response(&[("cdn-cache-control", "max-age=1"), ("larder-cache-control", "!")]);
        assert_eq!(found.max_age, Some(1));
    }

    #[test]
    fn requests_ask() {
        let nothing = RequestDirectives::default();
        let cases = [
            ("", nothing),
            ("max-age=0", RequestDirectives { max_age: Some(0), ..nothing }),
            ("max-age=x", nothing),
            ("max-age=1, max-age=2", RequestDirectives { max_age: Some(1), ..nothing }),
            ("min-fresh=x, min-fresh=2", RequestDirectives { min_fresh: Some(2), ..nothing }),
            ("max-stale", RequestDirectives { max_stale: Some(u32::MAX), ..nothing }),
            ("max-stale=5", RequestDirectives { max_stale: Some(5), ..nothing }),
            ("max-stale=x", nothing),
            ("min-fresh=5, No-Store", RequestDirectives { min_fresh: Some(5), no_store: true, ..nothing }),
            ("only-if-cached", RequestDirectives { only_if_cached: true, ..nothing }),
            (
                "no-cache, stale-if-error=9",
                RequestDirectives { no_cache: true, stale_if_error: Some(9), ..nothing },
            ),
            ("x=\"no-cache\"", nothing),
        ];
        for (value, expected) in cases {
            assert_eq!(RequestDirectives::parse(&fields(&[("cache-control", value)])), expected, "{value}");
        }
    }

    #[test]
    fn pragma_counts_without_cache_control_only() {
        let asks = |lines: &[_]| RequestDirectives::parse(&fields(lines)).no_cache;
        assert!(asks(&[("pragma", "x, No-Cache")]));
        assert!(!asks(&[("pragma", "x")]));
        assert!(!asks(&[("pragma", "no-cache"), ("cache-control", "max-age=5")]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, text in "[a-z=\",; ?0-9.-]{0,40}") {
            for value in [&bytes[..], text.as_bytes()] {
                let Ok(value) = HeaderValue::from_bytes(value) else { continue };
                let map: HeaderMap = ["cache-control", "cdn-cache-control"]
                    .map(|name| (HeaderName::from_static(name), value.clone())).into_iter().collect();
                RequestDirectives::parse(&map);
                ResponseDirectives::parse(&map, &["cdn-cache-control".into()]);
            }
        }
    }
}
