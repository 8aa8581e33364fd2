//! Any `Cookie` of a site with sticky sessions and conditions on cookies: no panic, no origin is named without its key, a
//! cookie is found beside any others, and compiled rules hold exactly where each condition does.

#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use larder_proxy::settings::{Origin, Sticky};
use larder_rules::{Conditions, NamedPatterns, Names, Pattern, Request, Rule, RuleSet};
use larder_semantics::fields::HeadLines;
use libfuzzer_sys::fuzz_target;

/// Conditions on cookies: a name, a pattern of names, a value, and what must not be there.
fn conditions() -> [Conditions; 4] {
    let cookie = |name: &str, values: &[&str]| {
        let pattern = |text: &&str| Pattern::parse(text).expect("a pattern");
        let named = NamedPatterns { name: pattern(&name), values: values.iter().map(pattern).collect() };
        let cookie = Names { each: vec![named], all: !values.is_empty() };
        Conditions { cookie, ..Conditions::default() }
    };
    let not = vec![cookie("session", &[])];
    let without = Conditions { not, ..Conditions::default() };
    [cookie("session", &[]), cookie("s*n", &[]), cookie("session", &["yes"]), without]
}

/// Returns which conditions hold for a request with this line of cookies.
fn held(conditions: &[Conditions], cookies: &[u8]) -> Vec<u16> {
    let head = [b"Cookie: ", cookies, b"\r\n"].concat();
    let request = Request {
        method: "GET",
        scheme: "http",
        host: "site.test",
        path: b"/",
        query: None,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        certificate: None,
        claims: None,
        now: || 0,
        fields: &HeadLines(&head),
    };
    let rules = conditions.iter().map(|own| Rule { conditions: own.clone(), stop: false }).collect();
    let found = RuleSet::new(rules).on_request(&request).to_vec();
    let alone = (0..).zip(conditions).filter(|(_, own)| own.hold_for(&request)).map(|(number, _)| number);
    assert_eq!(found, alone.collect::<Vec<u16>>());
    found
}

fuzz_target!(|bytes: &[u8]| {
    let is_of_line = |byte: &&u8| !matches!(byte, b'\r' | b'\n' | 0);
    let line: Vec<u8> = bytes.iter().filter(is_of_line).copied().collect();
    let head = [b"Cookie: ", &line[..], b"\r\n"].concat();
    assert!(!Sticky::new("session", None).keeps(&Origin::new(false, "a:1"), &HeadLines(&head)));
    let conditions = conditions();
    let found = held(&conditions, &line);
    assert_ne!(found.contains(&0), found.contains(&3), "a condition and its opposite");
    for cookies in [[b"session=yes; ", &line[..]].concat(), [&line[..], b"; session=yes"].concat()] {
        assert_eq!(held(&conditions, &cookies), [0, 1, 2]);
    }
});
