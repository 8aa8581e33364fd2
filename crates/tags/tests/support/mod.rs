//! A gateway without sockets: short forms of requests, and a clock that tests set.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_tags::{Change, Couplings, Pools, Settings, TagDecision, Ticket, Verdict};

thread_local! {
    static NOW: Cell<u32> = const { Cell::new(1_000) };
}

/// Advances this test's clock by some seconds.
pub(crate) fn pass(seconds: u32) {
    NOW.set(NOW.get() + seconds);
}

/// Returns pools with these settings, and the clock of this test.
pub(crate) fn pools(settings: Settings) -> Arc<Pools> {
    Arc::new(Pools::new(settings, || NOW.get()))
}

/// Returns pools in which a change of `users` blanks `paths`.
pub(crate) fn coupled() -> Arc<Pools> {
    pools(Settings { couplings: couplings(&[("users", "paths")], false), ..Settings::default() })
}

pub(crate) fn couplings(pairs: &[(&str, &str)], transitive: bool) -> Couplings {
    let mut direct = BTreeMap::<Box<str>, Vec<Box<str>>>::new();
    pairs.iter().for_each(|(from, to)| direct.entry((*from).into()).or_default().push((*to).into()));
    Couplings::new(&direct, transitive)
}

/// Parses lines such as `Name: value`.
pub(crate) fn fields(lines: &str) -> HeaderMap {
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").expect("a field line");
        let value = HeaderValue::from_str(value).expect("a value");
        (HeaderName::from_bytes(name.as_bytes()).expect("a name"), value)
    };
    let mut map = HeaderMap::new();
    lines.lines().map(field).for_each(|(name, value)| _ = map.append(name, value));
    map
}

/// Asks about a GET with these lines.
pub(crate) fn get(pools: &Arc<Pools>, target: &str, lines: &str) -> TagDecision {
    pools.ask(&Method::GET, b"site.test", target.as_bytes(), &fields(lines))
}

/// Returns the ticket of a GET that has to be forwarded.
pub(crate) fn forwarded(pools: &Arc<Pools>, target: &str, lines: &str) -> Ticket {
    match get(pools, target, lines) {
        TagDecision::Forward(ticket) => ticket,
        TagDecision::NotModified(fields) => panic!("GET {target} is answered: {fields:?}"),
        TagDecision::Change(_) | TagDecision::Pass(_) => panic!("GET {target} is not for the pools"),
    }
}

/// Begins a change.
pub(crate) fn post(pools: &Arc<Pools>, target: &str) -> Change {
    match pools.ask(&Method::POST, b"site.test", target.as_bytes(), &HeaderMap::new()) {
        TagDecision::Change(change) => change,
        _ => panic!("a POST is a change"),
    }
}

/// Whether a GET with these lines is answered without the backend.
pub(crate) fn matches(pools: &Arc<Pools>, target: &str, lines: &str) -> bool {
    matches!(get(pools, target, lines), TagDecision::NotModified(_))
}

/// Returns the decision about a GET with `request`, which the backend answers with a 200 of these lines.
pub(crate) fn fetched(pools: &Arc<Pools>, target: &str, request: &str, answer: &str) -> Verdict {
    forwarded(pools, target, request).answer(&fields(request), StatusCode::OK, &fields(answer), None)
}
