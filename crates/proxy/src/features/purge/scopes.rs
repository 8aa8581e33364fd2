//! The scopes of purges, by the words of users.

use larder_semantics::key;
use larder_semantics::purge::Scope;
use larder_store::purges::{LONGEST_END, LONGEST_START};
use larder_words::named;

use crate::base::path_prefix::spellings;
use crate::base::settings::Role;
use crate::exchange::plan::Plan;
use crate::exchange::target::{Address, role_in_keys, ruled_keys};
use crate::features::inventory;

named! {
    /// The kinds of scopes of a purge.
    pub enum ScopeKind, name {
        /// One URL.
        Url = "url",
        /// URLs with this beginning.
        Prefix = "prefix",
        /// URLs that match a pattern.
        Glob = "glob",
        /// Responses with a tag.
        Tag = "tag",
        /// Responses of a cache group.
        Group = "group",
        /// URLs of a host.
        Host = "host",
        /// All responses.
        All = "all",
    }
}

impl ScopeKind {
    /// Returns the scopes for `value`. A group's origin is `host`, with its scheme or for both schemes. The error is
    /// the reason why `value` names no scope, in one line.
    pub fn scopes(self, value: &str, host: Option<&str>) -> Result<Vec<Scope>, String> {
        if value.is_empty() && self != Self::All {
            let name = self.name();
            return Err(format!("no {name}: write {name}=VALUE"));
        }
        Ok(match self {
            Self::Url => spelled(value, |url| Ok(inventory::keys(url)?.map(Scope::Url).into()))?,
            Self::Prefix => spelled(value, |url| Ok(vec![Scope::Prefix(start(&inventory::address(url)?))]))?,
            Self::Glob => spelled(value, glob)?,
            Self::Tag => vec![Scope::Tag(value.into())],
            Self::Host => vec![Scope::Host(authority(value)?)],
            Self::Group => {
                let host = host.ok_or("a group needs its host: write host=HOST, or host=http://HOST:PORT")?;
                let group = |origin| Scope::Group { origin, name: value.to_owned() };
                origins(host)?.into_iter().map(group).collect()
            }
            Self::All => vec![Scope::All],
        })
    }
}

/// Adds the keys under which rules store the URLs of `scopes`: without ignored parameters, or with parameters in
/// another order.
pub fn add_ruled(plan: &Plan, scopes: &mut Vec<Scope>) {
    let urls = scopes.iter().filter_map(|scope| match scope {
        Scope::Url(key) => Some(ruled_keys(plan, key)),
        _ => None,
    });
    let mut ruled: Vec<_> = urls.flatten().map(Scope::Url).filter(|scope| !scopes.contains(scope)).collect();
    scopes.append(&mut ruled);
}

/// Returns the scopes that `read` returns for the usual [`spellings`] of `value`.
fn spelled(value: &str, read: impl Fn(&str) -> Result<Vec<Scope>, String>) -> Result<Vec<Scope>, String> {
    let value = inventory::encoded(value);
    let mut scopes = read(&value)?;
    for other in spellings(&value) {
        scopes.extend(read(&other)?);
    }
    Ok(scopes)
}

/// Returns the beginning of the keys of all URLs that begin with `address`.
fn start(address: &Address<'_>) -> Vec<u8> {
    let mut start = Vec::new();
    key::write(&mut start, address.scheme, address.authority.as_bytes(), address.path.as_bytes());
    start
}

/// Returns the scopes of a glob, for a fuzz target.
///
/// # Errors
/// The reason why it is none, in one line.
#[cfg(fuzzing)]
pub fn glob_of_purge(value: &str) -> Result<Vec<Scope>, String> {
    glob(value)
}

/// Returns the scopes of a URL with one star. What is behind the star is the end of the path; any query may follow.
fn glob(value: &str) -> Result<Vec<Scope>, String> {
    let wrong = |why: &str| format!("'{}': {why}", value.escape_debug());
    let encoded = inventory::encoded(value);
    let Some((before, end)) = encoded.split_once('*') else {
        return Err(wrong("a glob has a star; purge single URLs without this"));
    };
    if end.contains('*') {
        return Err(wrong("a glob has one star"));
    }
    let address = inventory::address(before)?;
    if !before.split_once("://").is_some_and(|(_, rest)| rest.contains('/')) {
        return Err(wrong("the star stands behind the host"));
    }
    let start = start(&address);
    if end.is_empty() {
        return Ok(vec![Scope::Prefix(start)]);
    }
    if start.len() > LONGEST_START || end.len() >= LONGEST_END {
        return Err(wrong("a glob has at most 1,000 bytes before its star, and 62 behind it"));
    }
    if end.contains('?') || before.contains('?') {
        return Err(wrong("a glob is about the path, and not about the query"));
    }
    // Behind the URL of a key without a query is the kind of its clients.
    let ends =
        [Role::Reverse, Role::Forward].map(|role| [end.as_bytes(), &[role_in_keys(role)][..]].concat());
    let glob = |end| Scope::Glob { start: start.clone(), end };
    Ok(ends.into_iter().chain([end.as_bytes().to_vec()]).map(glob).collect())
}

/// Returns a host, with its port if it has one, as it is in keys.
fn authority(host: &str) -> Result<Vec<u8>, String> {
    if host.is_empty() || host.contains(['/', '?', '#', '@', ' ']) {
        let shown = host.escape_debug();
        return Err(format!(
            "'{shown}' is not a host; write it without scheme and path, such as 'site.example'"
        ));
    }
    let key = start(&Address { scheme: "http", authority: host, path: "" });
    key::parse(&key).map(|(_, authority, _)| authority.to_vec()).ok_or_else(|| "which host?".to_owned())
}

/// Returns the origin that `host` names, or the origins of both schemes.
fn origins(host: &str) -> Result<Vec<Vec<u8>>, String> {
    let origin = |address: &Address<'_>| key::origin(&start(address)).map(<[u8]>::to_vec);
    if host.contains("://") {
        let address = inventory::address(host)?;
        return match address.path {
            "" | "/" => Ok(origin(&address).into_iter().collect()),
            _ => Err(format!("'{}': an origin has no path", host.escape_debug())),
        };
    }
    authority(host)?;
    let of = |scheme| origin(&Address { scheme, authority: host, path: "" });
    Ok(["http", "https"].into_iter().filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use larder_semantics::purge::Effect;
    use larder_store::purges::Purges;
    use proptest::prelude::*;

    use super::*;

    fn key(scheme: &str, authority: &str, path: &str) -> Vec<u8> {
        let mut key = Vec::new();
        key::write(&mut key, scheme, authority.as_bytes(), path.as_bytes());
        key
    }

    #[test]
    fn words_stand_for_scopes() {
        let group = |scheme, authority| {
            let origin = key::origin(&key(scheme, authority, "/")).unwrap().to_vec();
            Scope::Group { origin, name: "g".to_owned() }
        };
        let glob = |end: &str| Scope::Glob { start: key("http", "a", "/b"), end: end.as_bytes().to_vec() };
        let urls = |url| inventory::keys(url).unwrap().map(Scope::Url).to_vec();
        for (kind, value, host, expected) in [
            (ScopeKind::Url, "http://A/b?c", None, urls("http://a/b?c")),
            (ScopeKind::Prefix, "http://A:80", None, vec![Scope::Prefix(key("http", "a", "/"))]),
            (ScopeKind::Prefix, "https://a/b", None, vec![Scope::Prefix(key("https", "a", "/b"))]),
            (ScopeKind::Glob, "http://a/b*", None, vec![Scope::Prefix(key("http", "a", "/b"))]),
            (ScopeKind::Glob, "http://a/b*.png", None, [".pngR", ".pngF", ".png"].map(glob).to_vec()),
            (ScopeKind::Tag, "t, u", None, vec![Scope::Tag(b"t, u".to_vec())]),
            (ScopeKind::Host, "A.Test.", None, vec![Scope::Host(b"a.test".to_vec())]),
            (ScopeKind::Host, "a:8080", None, vec![Scope::Host(b"a:8080".to_vec())]),
            (ScopeKind::Group, "g", Some("a"), vec![group("http", "a"), group("https", "a")]),
            (ScopeKind::Group, "g", Some("https://a:8443/"), vec![group("https", "a:8443")]),
            (ScopeKind::All, "", None, vec![Scope::All]),
        ] {
            assert_eq!(kind.scopes(value, host), Ok(expected), "{kind:?} {value}");
        }
    }

    #[test]
    fn encoded_bytes_are_purged_in_their_usual_spellings() {
        let prefix = |path: &str| Scope::Prefix(key("http", "a", path));
        for (value, expected) in [
            ("http://a/%c3%A9", &["/%c3%A9", "/%C3%A9", "/%c3%a9"][..]),
            ("http://a/é", &["/%C3%A9", "/%c3%a9"]),
            ("http://a/%7Ex%2f", &["/%7Ex%2f", "/%7Ex%2F", "/%7ex%2f", "/~x%2F", "/~x%2f"]),
            ("http://a/%41%zz", &["/%41%zz", "/A%zz"]),
            ("http://a/~%", &["/~%"]),
        ] {
            let expected = expected.iter().map(|path| prefix(path)).collect();
            assert_eq!(ScopeKind::Prefix.scopes(value, None), Ok(expected), "{value}");
        }
        assert_eq!(ScopeKind::Url.scopes("http://a/%c3", None).unwrap().len(), 4);
        assert_eq!(ScopeKind::Glob.scopes("http://a/%c3*.png", None).unwrap().len(), 6);
    }

    #[test]
    fn a_purge_of_an_invalid_scope_is_reported_in_a_line() {
        for (kind, value, host, expected) in [
            (ScopeKind::Url, "a", None, "'a': write the scheme too, such as 'http://a'"),
            (
                ScopeKind::Glob,
                "http://a/b",
                None,
                "'http://a/b': a glob has a star; purge single URLs without this",
            ),
            (ScopeKind::Glob, "http://a/*/*", None, "'http://a/*/*': a glob has one star"),
            (ScopeKind::Glob, "http://a*/b", None, "'http://a*/b': the star stands behind the host"),
            (
                ScopeKind::Glob,
                "http://a/*b?c",
                None,
                "'http://a/*b?c': a glob is about the path, and not about the query",
            ),
            (ScopeKind::Tag, "", None, "no tag: write tag=VALUE"),
            (
                ScopeKind::Group,
                "g",
                None,
                "a group needs its host: write host=HOST, or host=http://HOST:PORT",
            ),
            (ScopeKind::Group, "g", Some("http://a/b"), "'http://a/b': an origin has no path"),
            (
                ScopeKind::Host,
                "http://a",
                None,
                "'http://a' is not a host; write it without scheme and path, such as 'site.example'",
            ),
        ] {
            assert_eq!(kind.scopes(value, host), Err(expected.to_owned()), "{kind:?} {value}");
        }
        let [longest, too_long] = [62, 63].map(|end| format!("http://a/*{}", "e".repeat(end)));
        assert!(ScopeKind::Glob.scopes(&longest, None).is_ok());
        for value in [too_long, format!("http://a/{}*e", "s".repeat(1_024))] {
            let why = ScopeKind::Glob.scopes(&value, None).expect_err("too long");
            assert!(
                why.ends_with(": a glob has at most 1,000 bytes before its star, and 62 behind it"),
                "{why}"
            );
        }
    }

    proptest! {
        /// Any text is a glob or an error of one line, and a glob reaches its own text with anything for its star.
        #[test]
        fn any_text_is_a_glob_or_refused(text in "(http://a/)?[a-z*?/\\r\\n\u{e4}]{0,20}") {
            match ScopeKind::Glob.scopes(&text, None) {
                Err(why) => prop_assert_eq!(why.lines().count(), 1),
                Ok(scopes) => {
                    prop_assert!(text.matches('*').count() == 1 && !scopes.is_empty());
                    let url = inventory::encoded(&text).replace('*', "/x*y");
                    let keys = inventory::keys(&url).expect("a URL");
                    let purges = [(Effect::Remove, scopes)];
                    for key in keys {
                        prop_assert!(Purges::would_reach(&purges, &key, &HeaderMap::new()), "{}", url);
                    }
                }
            }
        }
    }
}
