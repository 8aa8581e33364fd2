//! Lines of rules, each with a pattern of paths, an extension and the name of a parameter, and a last line with a
//! target: no panic, and the compiled rules match exactly where a loop over the rules matches.

#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use larder_rules::{Conditions, NamedPatterns, Names, Pattern, Query, Request, Rule, RuleSet, normal_path};
use larder_semantics::fields::HeadLines;
use libfuzzer_sys::fuzz_target;

fn rule(line: &str) -> Option<Rule> {
    let mut words = line.split(' ');
    let mut word = || words.next().filter(|word| !word.is_empty());
    let path = word().map(Pattern::parse).transpose().ok()?.into_iter().collect();
    let extension = word().into_iter().map(Box::from).collect();
    let named = |name| Some(NamedPatterns { name: Pattern::parse(name).ok()?, values: Vec::new() });
    let parameter = word().and_then(named);
    let query = Names { each: parameter.into_iter().collect(), all: true };
    let conditions = Conditions { path, extension, query, ..Conditions::default() };
    Some(Rule { conditions, stop: words.next().is_some() })
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (lines, target) = text.rsplit_once('\n').unwrap_or(("", text));
    let rules: Vec<_> = lines.lines().filter_map(rule).collect();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let request = Request {
        method: "GET",
        scheme: "http",
        host: "site.test",
        path: &normal_path(path),
        query,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        certificate: None,
        claims: None,
        now: || 0,
        fields: &HeadLines(b""),
    };
    let mut expected = Vec::new();
    for (number, rule) in rules.iter().enumerate().take(RuleSet::MOST) {
        if rule.conditions.hold_for(&request) {
            expected.push(number as u16);
            if rule.stop {
                break;
            }
        }
    }
    assert_eq!(RuleSet::new(rules).on_request(&request).to_vec(), expected);
    let sorted = Query { sort: true, ..Query::default() };
    let mut once = Vec::new();
    sorted.write(query.unwrap_or_default(), &mut once);
    let written = std::str::from_utf8(&once).expect("parts of text");
    let mut again = Vec::new();
    sorted.write(written.strip_prefix('?').unwrap_or_default(), &mut again);
    assert_eq!(again, once);
});
