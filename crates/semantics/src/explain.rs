//! Which fields of a response affected a decision and which did not, for `larder why`. The decisions themselves are made in
//! the other modules.

use http::StatusCode;

use crate::date;
use crate::directives::{ResponseDirectives, is_known, is_lifetime, split};
use crate::fields::{Fields, members};
use crate::freshness::{self, Source};
use crate::no_vary_search::{self, Variation};
use crate::rules::{Rules, Times};
use crate::wire::decimal;

/// A note about one field or directive of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The field or directive, as it was written.
    pub about: String,
    /// The text of the note.
    pub text: &'static str,
}

/// Returns the source of the lifetime of a response with these times.
pub fn lifetime_source(rules: &Rules, status: StatusCode, response: &impl Fields, times: Times) -> Source {
    let directives = ResponseDirectives::parse(response, &rules.targeted);
    let date = response.first("date").and_then(date::parse).unwrap_or(times.received);
    let own = freshness::lifetime(rules, &directives, status, response, (date, times));
    match rules.lifetimes.apply(own, freshness::takes_default(status, &directives)) == own {
        true => Source::of(rules, &directives, status, response, (date, times)),
        false => Source::Rule,
    }
}

/// Returns notes about the parts of a response that have no effect, or not the effect that their author may
/// have intended.
pub fn notes(rules: &Rules, response: &impl Fields) -> Vec<Note> {
    let directives = ResponseDirectives::parse(response, &rules.targeted);
    let mut notes = Vec::new();
    let mut note = |about: &str, text| notes.push(Note { about: about.to_owned(), text });
    let has_lifetime = directives.s_maxage.is_some() || directives.max_age.is_some();
    if directives.targeted {
        for (name, shown) in [("cache-control", "Cache-Control"), ("expires", "Expires")] {
            if response.contains(name) {
                note(
                    shown,
                    "is ignored: a field for caches such as this one takes precedence (RFC 9213 2.2)",
                );
            }
        }
    } else {
        if has_lifetime && response.contains("expires") {
            note("Expires", "is ignored: max-age or s-maxage takes precedence (RFC 9111 5.3)");
        }
        of_members(response, &mut note);
    }
    if directives.s_maxage.is_some() && directives.max_age.is_some() {
        note("max-age", "is ignored: s-maxage takes precedence in shared caches (RFC 9111 5.2.2.10)");
    }
    if directives.no_store && !directives.forbids_storing() {
        note("no-store", "is ignored: must-understand takes precedence (RFC 9111 5.2.2.3)");
    }
    if response.contains("pragma") {
        note("Pragma", "has no meaning in responses (RFC 9111 5.4)");
    }
    if response.contains(no_vary_search::FIELD) && Variation::of(response).is_none() {
        note("No-Vary-Search", NO_VARIATION);
    }
    if response.contains("set-cookie") && has_lifetime && !directives.private && !directives.no_store {
        note("Set-Cookie", "is for this client, unless store_cookies says otherwise; the response is stored");
    }
    for name in &directives.withheld {
        note(name.as_str(), "is not stored: no-cache or private names it (RFC 9111 5.2.2.4)");
    }
    notes
}

const NO_VARIATION: &str = "has no effect: key-order, or params or except with a list of strings, would have one \
    (draft-ietf-httpbis-no-vary-search 5)";

/// Adds notes about malformed or unknown members of `Cache-Control`.
fn of_members(response: &impl Fields, note: &mut impl FnMut(&str, &'static str)) {
    for member in members(response, "cache-control") {
        let shown = String::from_utf8_lossy(member);
        let Some((name, value)) = split(member) else {
            note(&shown, "is malformed: it restricts, but permits nothing (RFC 9111 5.2)");
            continue;
        };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        if !is_known(name.as_bytes()) {
            note(&shown, "has no meaning here (RFC 9111 5.2.3)");
        } else if is_lifetime(name.as_bytes()) && decimal(value).is_none() {
            note(&shown, "is not a number of seconds, and counts as 0 (RFC 9111 4.2.1)");
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;
    use crate::history::History;

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn fields_and_directives_without_effect_are_reported() {
        type Lines = &'static [(&'static str, &'static str)];
        let table: &[(Lines, &[&str])] = &[
            (&[("cache-control", "public, max-age=\"5\", immutable"), ("etag", "\"1\"")], &[]),
            (&[("cache-control", "max-age=5"), ("expires", "0")], &["Expires"]),
            (&[("cache-control", "max-age=5, s-maxage=9")], &["max-age"]),
            (
                &[("cache-control", "foo, max-age=soon, post-check=0")],
                &["foo", "max-age=soon", "post-check=0"],
            ),
            (&[("cache-control", "\"max-age=5\"")], &["\"max-age=5\""]),
            (
                &[("cdn-cache-control", "max-age=5"), ("cache-control", "foo"), ("expires", "0")],
                &["Cache-Control", "Expires"],
            ),
            (
                &[("cache-control", "must-understand, no-store"), ("pragma", "no-cache")],
                &["no-store", "Pragma"],
            ),
            (&[("cache-control", "max-age=5"), ("set-cookie", "a=b")], &["Set-Cookie"]),
            (&[("cache-control", "max-age=5, private=\"x-user\"")], &["x-user"]),
            (&[("set-cookie", "a=b")], &[]),
            (&[("no-vary-search", "params=(\"a\")")], &[]),
            (&[("no-vary-search", "params")], &["No-Vary-Search"]),
        ];
        for (lines, expected) in table {
            let notes = notes(&Rules::default(), &fields(lines));
            let about: Vec<_> = notes.iter().map(|note| note.about.as_str()).collect();
            assert_eq!(about, *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_lifetime_has_one_source() {
        let modified = ("last-modified", "Thu, 01 Jan 1970 00:00:01 GMT");
        for (lines, status, expected) in [
            (&[("cache-control", "s-maxage=1, max-age=2")][..], 200, Source::SMaxage),
            (&[("cache-control", "max-age=2"), ("expires", "0")], 200, Source::MaxAge),
            (&[("expires", "0"), modified], 200, Source::Expires),
            (&[("cdn-cache-control", "public"), ("expires", "0"), modified], 200, Source::LastModified),
            (&[modified], 200, Source::LastModified),
            (&[modified], 302, Source::Nothing),
            (&[("etag", "\"1\"")], 200, Source::Nothing),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let times = Times { received: 1_000, ..Times::default() };
            let source = lifetime_source(&Rules::default(), status, &fields(lines), times);
            assert_eq!(source, expected, "{lines:?}");
        }
    }

    #[test]
    fn validations_are_a_source_where_the_origin_gives_no_lifetime() {
        let modified = ("last-modified", "Thu, 01 Jan 1970 00:00:01 GMT");
        let (tag, adaptive) = (("etag", "\"1\""), Rules { heuristic_adaptive: true, ..Rules::default() });
        let source = |rules: &Rules, lines: &[(&'static str, &'static str)], streak| {
            let times =
                Times { received: 1_000, history: History { streak, since: 500 }, ..Times::default() };
            lifetime_source(rules, StatusCode::OK, &fields(lines), times)
        };
        for (lines, streak, expected) in [
            (&[modified][..], 1, Source::LastModified),
            (&[modified], 3, Source::Adapted),
            (&[modified], -1, Source::Adapted),
            (&[tag], 1, Source::Nothing),
            (&[tag], 2, Source::Validations),
            (&[tag, ("cache-control", "max-age=0")], 3, Source::MaxAge),
            (&[tag, ("expires", "0")], 3, Source::Expires),
        ] {
            assert_eq!(source(&adaptive, lines, streak), expected, "{lines:?} {streak}");
        }
        assert_eq!(source(&Rules::default(), &[tag], 3), Source::Nothing);
        assert_eq!(source(&Rules::default(), &[modified], 3), Source::LastModified);
    }

    proptest! {
        #[test]
        fn any_bytes_are_explained_without_a_panic(value in "[ -~]{0,40}") {
            let map = fields(&[("cache-control", &value), ("cdn-cache-control", &value), ("expires", &value)]);
            notes(&Rules::default(), &map);
            lifetime_source(&Rules::default(), StatusCode::OK, &map, Times::default());
        }
    }
}
