//! A path, a query and a line of cookies, one on each line: rules know each path, and conditions hold for each name, that
//! models of NGINX, PHP, Python and others find.

#![no_main]

#[path = "../../crates/rules/tests/models/mod.rs"]
mod models;

use std::net::{IpAddr, Ipv4Addr};

use larder_rules::{Conditions, Named, Names, Pattern, Request, is_ambiguous, normal_path, readings};
use larder_semantics::fields::HeadLines;
use libfuzzer_sys::fuzz_target;

/// Returns the condition that this name is there; `None` if it would be a pattern, or is no name.
fn named(name: &[u8]) -> Option<Names<Pattern>> {
    let name = str::from_utf8(name).ok().filter(|name| name.trim() == *name && !name.starts_with('~'))?;
    let name =
        Some(name).filter(|name| !name.contains(|c: char| matches!(c, '*' | '=' | ',') || c.is_control()))?;
    Some(Names { each: vec![Named { name: Pattern::parse(name).ok()?, values: Vec::new() }], all: true })
}

fn is_known(path: &str, found: &[u8]) -> bool {
    let normal = normal_path(path).into_owned();
    let known = [vec![normal.clone()], readings(&normal)].concat();
    let encoded = |byte: &u8| match byte {
        b'%' | 0x80.. => format!("%{byte:02x}"),
        _ => (*byte as char).to_string(),
    };
    let found = normal_path(&found.iter().map(encoded).collect::<String>()).into_owned();
    known.contains(&found)
        || found.iter().any(|byte| matches!(byte, b'?' | b'#'))
        || readings(&found).iter().any(|path| known.contains(path))
}

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = str::from_utf8(bytes).ok().filter(|text| text.is_ascii()) else { return };
    let mut lines = text.lines();
    // No request has control characters in its target or in a field.
    let is_line = |line: &&str| line.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control());
    let (path, query) = (lines.next(), lines.next().filter(is_line));
    // White space around the value of a field is no part of it.
    let cookies = lines.next().filter(is_line).map(|line| line.trim_matches([' ', '\t']));
    // Rules do not follow an encoded semicolon or number sign through all combinations with other readings.
    let is_simple = |path: &str| !["%3b", "%23"].iter().any(|code| path.to_ascii_lowercase().contains(code));
    let is_path = |path: &&str| {
        path.starts_with('/') && !path.contains(['?', '#']) && !is_ambiguous(path) && is_simple(path)
    };
    for path in path.into_iter().filter(is_path) {
        for found in models::paths(path) {
            assert!(is_known(path, &found), "{path}: {}", String::from_utf8_lossy(&found));
        }
    }
    let head = format!("Cookie: {}\r\n", cookies.unwrap_or_default());
    let request = Request {
        method: "GET",
        scheme: "http",
        host: "site.test",
        path: b"/",
        query,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        fields: &HeadLines(head.as_bytes()),
    };
    for query in query.into_iter().flat_map(models::parameters).filter_map(|name| named(&name)) {
        let conditions = Conditions { query, ..Conditions::default() };
        assert!(conditions.hold_for(&request), "{conditions:?}");
    }
    for cookie in cookies.into_iter().flat_map(models::cookies).filter_map(|name| named(&name)) {
        let conditions = Conditions { cookie, ..Conditions::default() };
        assert!(conditions.hold_for(&request), "{conditions:?}");
    }
});
