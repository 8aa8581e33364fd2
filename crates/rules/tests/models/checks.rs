//! Comparisons of what rules read with what the models read.

use std::net::{IpAddr, Ipv4Addr};

use larder_rules::{Conditions, NamedPatterns, Names, Pattern, Request, is_ambiguous, normal_path, readings};
use larder_semantics::fields::HeadLines;

/// Returns a path that a server may choose for `path` and that rules do not know; `None` if there is none, or if sites
/// with rules for paths refuse `path`. The path has no literal `?` or `#`.
pub(crate) fn unknown_path(path: &str) -> Option<String> {
    if is_ambiguous(path) {
        return None;
    }
    let normal = normal_path(path).into_owned();
    let known = [vec![normal.clone()], readings(&normal)].concat();
    let encoded = |byte: &u8| match byte {
        b'%' | 0x80.. => format!("%{byte:02x}"),
        _ => (*byte as char).to_string(),
    };
    let is_unknown = |found: &Vec<u8>| {
        let found = normal_path(&found.iter().map(encoded).collect::<String>()).into_owned();
        !known.contains(&found) && !readings(&found).iter().any(|path| known.contains(path))
    };
    super::paths(path).into_iter().find(is_unknown).map(|path| String::from_utf8_lossy(&path).into_owned())
}

/// Returns the name of a parameter that a language may read in `query` and that conditions do not find.
pub(crate) fn missed_parameter(query: &str) -> Option<String> {
    let holds = |names| holds(Conditions { query: names, ..Conditions::default() }, Some(query), "");
    missed(super::parameters(query), holds)
}

/// Returns the name of a cookie that a language may read in `line`, a value of `Cookie` without white space around it,
/// and that conditions do not find.
pub(crate) fn missed_cookie(line: &str) -> Option<String> {
    missed(super::cookies(line), |names| {
        holds(Conditions { cookie: names, ..Conditions::default() }, None, line)
    })
}

fn missed(found: super::Found, holds: impl Fn(Names<Pattern>) -> bool) -> Option<String> {
    let names = found.into_iter().filter_map(|name| String::from_utf8(name).ok());
    names.into_iter().find(|name| condition(name).is_some_and(|names| !holds(names)))
}

/// Returns the condition that this name is there; `None` if it would be a pattern, or is no name.
fn condition(name: &str) -> Option<Names<Pattern>> {
    let is_special = |c: char| matches!(c, '*' | '=' | ',') || c.is_control();
    if name.trim() != name || name.starts_with('~') || name.contains(is_special) {
        return None;
    }
    Some(Names {
        each: vec![NamedPatterns { name: Pattern::parse(name).ok()?, values: Vec::new() }],
        all: true,
    })
}

fn holds(conditions: Conditions, query: Option<&str>, cookies: &str) -> bool {
    let head = format!("Cookie: {cookies}\r\n");
    conditions.hold_for(&Request {
        method: "GET",
        scheme: "http",
        host: "site.test",
        path: b"/",
        query,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        certificate: None,
        claims: None,
        now: || 0,
        fields: &HeadLines(head.as_bytes()),
    })
}
