//! Rules hold for whatever servers and languages may read in a request, by models of them.

mod models;

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderValue, header};
use larder_rules::{Conditions, Named, Names, Pattern, Request, is_ambiguous, normal_path, readings};
use proptest::prelude::*;

/// Returns the condition that this name is there; `None` if it would be a pattern.
fn named(name: &[u8]) -> Option<Names<Pattern>> {
    let name = str::from_utf8(name).ok().filter(|name| name.trim() == *name)?;
    let name = Some(name).filter(|name| {
        !name.starts_with('~') && !name.contains(|c: char| matches!(c, '*' | '=' | ',') || c.is_control())
    })?;
    Some(Names { each: vec![Named { name: Pattern::parse(name).ok()?, values: Vec::new() }], all: true })
}

fn holds(conditions: &Conditions, query: Option<&str>, cookies: &str) -> bool {
    let mut fields = HeaderMap::new();
    fields.insert(header::COOKIE, HeaderValue::from_str(cookies).expect("a value"));
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (method, scheme, host, path) = ("GET", "http", "site.test", &b"/"[..]);
    conditions.hold_for(&Request { method, scheme, host, path, query, client, fields: &fields })
}

proptest! {
    #[test]
    fn each_path_that_servers_choose_is_known_or_refused(
        path in "/([ab.;?]|/|\\\\|\\.php|%2[0eEfF5]|%3[bBfF]|%5c|%61|%0a|%c0%af|\\.\\.){0,9}",
    ) {
        let path = path.split('?').next().unwrap_or_default();
        if !is_ambiguous(path) {
            let normal = normal_path(path).into_owned();
            let known = [vec![normal.clone()], readings(&normal)].concat();
            for found in models::paths(path) {
                let found = normal_path(&String::from_utf8_lossy(&found).replace('%', "%25")).into_owned();
                let is_end = |byte: &u8| matches!(byte, b'?' | b'#');
                let further = readings(&found);
                let is_known = known.contains(&found) || found.iter().any(is_end) || further.iter().any(|path| known.contains(path));
                prop_assert!(is_known, "{path}: {}", String::from_utf8_lossy(&found));
            }
        }
    }

    #[test]
    fn conditions_hold_for_each_parameter_that_languages_find(
        query in "([ab=&;.+_]|\\[|\\]|%20|%5b|%5B|%00|%61|%2e){0,9}",
    ) {
        for name in models::parameters(&query) {
            let Some(query_names) = named(&name) else { continue };
            let conditions = Conditions { query: query_names, ..Conditions::default() };
            prop_assert!(holds(&conditions, Some(&query), ""), "{query}: {}", String::from_utf8_lossy(&name));
        }
    }

    #[test]
    fn conditions_hold_for_each_cookie_that_languages_find(
        line in "([ab=;.,+_ \"]|; |=|\\[|\\]|\t|%20|%5b|%00|%61|\\$){0,10}",
    ) {
        for name in models::cookies(&line) {
            let Some(cookie) = named(&name) else { continue };
            let conditions = Conditions { cookie, ..Conditions::default() };
            prop_assert!(holds(&conditions, None, &line), "{line}: {}", String::from_utf8_lossy(&name));
        }
    }
}
