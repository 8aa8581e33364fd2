//! The compiled set returns the same as a loop over all rules in their order, for any rules and requests.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue};
use larder_rules::{
    Conditions, NamedPatterns, Names, Pattern, Request, Response, Rule, RuleSet, normal_path,
};
use proptest::prelude::*;

fn patterns(texts: &'static str) -> impl Strategy<Value = Vec<Pattern>> {
    prop::collection::vec(texts.prop_map(|text| Pattern::parse(&text).expect("a pattern")), 0..3)
}

fn words(words: &'static [&'static str]) -> impl Strategy<Value = Vec<Box<str>>> {
    prop::collection::vec(prop::sample::select(words).prop_map(Box::from), 0..2)
}

/// Returns names from texts that match `text`, each made by `name`.
fn names<N: std::fmt::Debug>(text: &'static str, name: fn(&str) -> N) -> impl Strategy<Value = Names<N>> {
    let named = (text, patterns("[xy*]{1,2}"))
        .prop_map(move |(text, values)| NamedPatterns { name: name(&text), values });
    (prop::collection::vec(named, 0..3), any::<bool>()).prop_map(|(each, all)| Names { each, all })
}

fn field_names() -> impl Strategy<Value = Names<Box<str>>> {
    names("[ab]", |text| text.into())
}

fn name_patterns() -> impl Strategy<Value = Names<Pattern>> {
    names("[ab]|a\\*|\\*b", |text| Pattern::parse(text).expect("a pattern"))
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let about_request = (
        patterns("(/[ab]{0,2}){1,2}\\*?|\\*b|~a+b"),
        words(&["css", "JS"]),
        patterns("a|\\*\\.b"),
        words(&["GET", "POST"]),
        prop::collection::vec((0u8..4, 30u8..=32), 0..2),
        (name_patterns(), field_names(), name_patterns()),
    );
    let about_response =
        (prop::collection::vec((100u16..600, 100u16..600), 0..2), field_names(), prop::option::of(0u64..100));
    (about_request, about_response).prop_map(|(request, (status, response_field, length))| {
        let (path, extension, host, method, client, (query, field, cookie)) = request;
        let network = |(last, length)| {
            ipnet::Ipv4Net::new(Ipv4Addr::new(10, 0, 0, last), length).expect("a network").trunc().into()
        };
        Conditions {
            path,
            extension,
            host,
            method,
            client: client.into_iter().map(network).collect(),
            query,
            field,
            cookie,
            status: status.into_iter().map(|(one, other)| one.min(other)..=one.max(other)).collect(),
            response_field,
            length: length.map(|least| least..=u64::MAX),
            ..Conditions::default()
        }
    })
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let rule = (conditions(), prop::collection::vec(conditions(), 0..3), prop::bool::weighted(0.2));
    let rule =
        rule.prop_map(|(conditions, not, stop)| Rule { conditions: Conditions { not, ..conditions }, stop });
    prop::collection::vec(rule, 0..12)
}

fn fields(names: &[(String, String)], cookies: &[(String, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in names {
        map.append(
            HeaderName::try_from(name).expect("a name"),
            HeaderValue::try_from(value).expect("a value"),
        );
    }
    let cookies: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    map.insert("cookie", HeaderValue::try_from(cookies.join("; ")).expect("cookies"));
    map
}

fn naive(rules: &[Rule], holds: impl Fn(&Conditions) -> bool) -> Vec<u16> {
    let mut found = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        if holds(&rule.conditions) {
            found.push(number as u16);
            if rule.stop {
                break;
            }
        }
    }
    found
}

proptest! {
    #[test]
    fn the_index_loses_no_rule(
        rules in rules(),
        path in "(/[ab%2e.]{0,3}){1,3}(\\.(css|js|JS|x))?",
        (method, host) in ("GET|POST", "a|x\\.b"),
        query in prop::option::of("([ab]=[xy]{0,2}&?){0,3}"),
        lines in prop::collection::vec(("[ab]", "[xy]{0,2}"), 0..4),
        cookies in prop::collection::vec(("[ab]", "[xy]{0,2}"), 0..3),
        (status, length, last) in (100u16..600, prop::option::of(0u64..200), 0u8..6),
    ) {
        let (set, fields) = (RuleSet::new(rules.clone()), fields(&lines, &cookies));
        let path = normal_path(&path);
        let request = Request {
            method: &method,
            scheme: "http",
            host: &host,
            path: &path,
            query: query.as_deref(),
            client: IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)),
            certificate: None,
            claims: None,
            now: || 0,
            fields: &fields,
        };
        let response = Response { status, length, fields: &fields };
        let before = naive(&rules, |own| !own.need_response() && own.hold_for(&request));
        prop_assert_eq!(set.on_request(&request).to_vec(), before);
        let after = naive(&rules, |own| own.hold_for(&request) && own.hold_with(&request, &response));
        prop_assert_eq!(set.on_response(&request, &response).to_vec(), after);
        for (number, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.conditions.contradiction().is_some()) {
            let own = &rule.conditions;
            prop_assert!(!(own.hold_for(&request) && own.hold_with(&request, &response)), "{number}");
        }
        for (later, earlier) in set.unreachable() {
            let both = |number: usize| rules[number].conditions.hold_for(&request)
                && rules[number].conditions.hold_with(&request, &response);
            prop_assert!(!both(later) || both(earlier), "{later} is not covered by {earlier}");
        }
    }
}
