//! `heuristic_adaptive`: where the origin gives no lifetime, validations make the heuristic lifetime longer or shorter.

use larder_testkit::{Larder, Origin, Seen, eventually, site};

use super::date;

const ADAPTIVE: &str = "heuristic_adaptive = true";
/// Seconds since the last change; they result in the default lifetime of 100 seconds.
const UNCHANGED: i64 = 1_000;

/// Returns 304 to a request with the current tag, which is made of the path. By `Age`, a lifetime of 200 seconds has
/// expired.
fn answer(seen: &Seen, modified: &str) -> String {
    let tag = format!("\"{}\"", seen.target.trim_start_matches('/'));
    match seen.field("if-none-match") == Some(&*tag) {
        true => format!("304 Not Modified\nETag: {tag}\nAge: 200"),
        false => format!("200 OK\nETag: {tag}\n{modified}Age: 200\n\nx"),
    }
}

fn lifetime(larder: &Larder, path: &str) -> (u64, String) {
    let why = larder.ask_admin(&format!("GET /why?url=http://site.test{path}")).json();
    let stored = &why["stored"];
    (
        stored["lifetime"].as_u64().expect("a number"),
        stored["lifetime_from"].as_str().expect("words").to_owned(),
    )
}

fn is_about(lifetime: u64, expected: u64) -> bool {
    (expected..=expected + expected / 20 + 1).contains(&lifetime)
}

#[test]
fn an_unchanged_response_is_fresh_for_longer_after_each_validation() {
    let modified = format!("Last-Modified: {}\n", date(UNCHANGED));
    let origin = Origin::by(move |seen| answer(seen, &modified));
    let larder = Larder::start(&site(&[&origin], ADAPTIVE));
    for (asked, expected, source) in [
        (1, 100, "Last-Modified"),
        (2, 100, "Last-Modified"),
        (3, 200, "Last-Modified and validations"),
        (4, 400, "Last-Modified and validations"),
    ] {
        larder.get("/a");
        assert_eq!(origin.count(), asked);
        let (lifetime, from) = lifetime(&larder, "/a");
        assert!(is_about(lifetime, expected) && from == source, "{lifetime} by {from}, not {expected}");
    }
    assert!(larder.get("/a").is_hit(), "its age is 200 seconds, of 400");
}

#[test]
fn a_304_that_is_too_long_to_store_counts_once() {
    let (modified, long) = (format!("Last-Modified: {}\n", date(UNCHANGED)), "x".repeat(40_000));
    let origin = Origin::by(move |seen| {
        let field = if seen.field("if-none-match").is_some() { "X-New" } else { "X-Old" };
        answer(seen, &modified).replacen('\n', &format!("\n{field}: {long}\n"), 1)
    });
    let larder = Larder::start(&site(&[&origin], ADAPTIVE));
    for (number, expected) in [(0, 100), (1, 100), (2, 200), (3, 400)] {
        larder.get("/a");
        assert_eq!(origin.count(), 1 + 2 * number, "each 304, and then the whole");
        let (lifetime, _) = lifetime(&larder, "/a");
        assert!(is_about(lifetime, expected), "{lifetime}, not {expected}");
    }
}

#[test]
fn a_changed_response_is_fresh_for_a_shorter_time() {
    let modified = format!("Last-Modified: {}\n", date(UNCHANGED));
    let origin =
        Origin::by(move |seen| format!("200 OK\nETag: \"{}\"\n{modified}Age: 200\n\nx", seen.number));
    let larder = Larder::start(&site(&[&origin], ADAPTIVE));
    for expected in [100, 50, 25] {
        larder.get("/a");
        let (lifetime, from) = lifetime(&larder, "/a");
        assert!(is_about(lifetime, expected), "{lifetime} by {from}, not {expected}");
    }
}

#[test]
fn given_lifetimes_stay_and_guessed_ones_adapt_only_if_configured() {
    let modified = format!("Last-Modified: {}\n", date(UNCHANGED));
    let given = "Cache-Control: max-age=0\n";
    for (keys, fields, expected) in [
        ("", modified.clone(), 100),
        (ADAPTIVE, format!("{modified}{given}"), 0),
        (ADAPTIVE, given.to_owned(), 0),
    ] {
        let origin = Origin::by(move |seen| answer(seen, &fields));
        let larder = Larder::start(&site(&[&origin], keys));
        for _ in 0..6 {
            assert!(!larder.get("/a").is_hit());
        }
        let (lifetime, from) = lifetime(&larder, "/a");
        assert!(is_about(lifetime, expected) && !from.contains("validations"), "{lifetime} by {from}");
    }
}

#[test]
fn a_tag_that_stays_the_same_for_a_while_gives_a_lifetime() {
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        Some("\"1\"") => "304 Not Modified\nETag: \"1\"".to_owned(),
        _ => "200 OK\nETag: \"1\"\n\nx".to_owned(),
    });
    let larder = Larder::start(&site(&[&origin], &format!("{ADAPTIVE}\nheuristic = '100%'")));
    eventually("a hit after some validations", || larder.get("/a").is_hit().then_some(()));
    let (lifetime, from) = lifetime(&larder, "/a");
    assert!(lifetime >= 1 && from == "validations", "{lifetime} by {from}");
}
