//! Hits that the validator compares with the origin's current responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use larder_testkit::{Answer, Gate, Larder, Origin, Seen, eventually};

use super::{found, stats, validated, validating};

/// Whether a request is from the validator.
fn is_marked(seen: &Seen) -> bool {
    seen.field("larder-validate") == Some("1")
}

/// Returns an origin with these lines in its responses, and the number in their content, which the test can set.
fn numbered(lines: &'static str) -> (Origin, Arc<AtomicU32>) {
    let number = Arc::new(AtomicU32::new(1));
    let shown = Arc::clone(&number);
    let origin = Origin::by(move |_| format!("200 OK\n{lines}\n\nnumber {}", shown.load(Ordering::Acquire)));
    (origin, number)
}

/// Returns the HTTP date that is `seconds` before now.
fn date_before(seconds: u32) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let then = u32::try_from(now).expect("before 2106") - seconds;
    String::from_utf8_lossy(&larder_semantics::date::format(then)).into_owned()
}

/// Returns the counts of a report, in this order: ok, stale, changed meanwhile, unstable, failed.
fn counts(larder: &Larder, hits: u64) -> [u64; 5] {
    let found = validated(larder, hits);
    ["ok", "stale", "changed_meanwhile", "unstable", "failed"].map(|name| found[name].as_u64().expect(name))
}

#[test]
fn a_hit_that_the_origin_has_replaced_is_stale() {
    let (origin, number) = numbered("Cache-Control: max-age=900\nAge: 300");
    let larder = validating(&origin, "");
    larder.get("/users/7");
    assert!(larder.get("/users/7").is_hit());
    assert_eq!(counts(&larder, 1), [1, 0, 0, 0, 0]);
    number.store(2, Ordering::Release);
    assert_eq!(larder.get("/users/7").text(), "number 1");
    assert_eq!(counts(&larder, 2), [1, 1, 0, 0, 0]);
    larder.wait_for_log("s: http://site.test/users/7 (site site1, route \"users\"), a hit (fresh)");
    let route = &validated(&larder, 2)["routes"][0];
    assert_eq!((&route["site"], &route["route"]), (&"site1".into(), &"users".into()));
    // The time of the change is unknown, so the staleness is the age of the response.
    let stalest = route["staleness"]["max"].as_u64().expect("seconds");
    assert!((300..320).contains(&stalest), "{route}");
    assert!(stats(&larder, "--validator").contains("50.00%"), "{}", stats(&larder, "--validator"));
    // The validator's response was not stored, and its request was not counted.
    assert_eq!((larder.get("/users/7").text(), larder.stat("requests")), ("number 1", 4));
}

#[test]
fn longer_lifetimes_are_advised_with_the_staleness_of_their_route() {
    let number = Arc::new(AtomicU32::new(1));
    let shown = Arc::clone(&number);
    let origin = Origin::by(move |seen| {
        let lifetime = if seen.target == "/users/late" { 0 } else { 900 };
        format!("200 OK\nCache-Control: max-age={lifetime}\nETag: \"1\"\n\n{}", shown.load(Ordering::Acquire))
    });
    let larder = validating(&origin, "");
    (0..2).for_each(|_| _ = larder.get("/users/7"));
    validated(&larder, 1);
    number.store(2, Ordering::Release);
    larder.get("/users/7");
    validated(&larder, 2);
    (0..2).for_each(|_| _ = larder.get("/users/late"));
    let late = found(&larder, "/advise")["lifetimes"][0].take();
    let expected = serde_json::json!({ "route": "site.test/users", "share": 0.2, "stale": 0.5 });
    assert_eq!(late, expected);
}

#[test]
fn how_stale_it_was_the_origin_may_say() {
    let modified = date_before(100);
    let origin = Origin::by(move |seen| match seen.number {
        0 => "200 OK\nCache-Control: max-age=900\nAge: 300\n\nold".to_owned(),
        _ => format!("200 OK\nLast-Modified: {modified}\n\nnew"),
    });
    let larder = validating(&origin, "");
    larder.get("/");
    larder.get("/");
    let stalest = validated(&larder, 1)["routes"][0]["staleness"]["max"].as_u64().expect("seconds");
    assert!((100..120).contains(&stalest), "{stalest}");
}

#[test]
fn a_hit_invalidated_during_its_validation_is_not_counted_stale() {
    let (gate, number) = (Gate::default(), AtomicU32::new(1));
    let held = gate.clone();
    let origin = Origin::answering(move |seen| {
        let changes = seen.target == "/other";
        let body = number.fetch_add(u32::from(changes), Ordering::AcqRel);
        let answer = if is_marked(seen) { Answer::default().then_wait(&held) } else { Answer::default() };
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=900\r\nContent-Length: 1\r\n\r\n";
        answer.then(format!("{head}{body}").into_bytes())
    });
    let larder = validating(&origin, "");
    larder.get("/");
    larder.ask("POST /other");
    assert!(larder.get("/").is_hit());
    origin.wait_for(3);
    larder.ask("POST /");
    gate.open();
    assert_eq!(counts(&larder, 1), [0, 0, 1, 0, 0]);
}

#[test]
fn a_hit_whose_time_has_come_since_is_stale_all_the_same() {
    let (gate, origin) = Origin::gated(|seen, held| match is_marked(seen) {
        false => Answer::with_body("200 OK\nCache-Control: max-age=903\nAge: 900", b"old"),
        true => Answer::default().then_wait(held).then("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew"),
    });
    let larder = validating(&origin, "");
    let stored = Instant::now();
    larder.get("/");
    assert!(larder.get("/").is_hit());
    origin.wait_for(2);
    eventually("the end of its time", || (stored.elapsed() > Duration::from_secs(4)).then_some(()));
    gate.open();
    assert_eq!(counts(&larder, 1), [0, 1, 0, 0, 0]);
}

#[test]
fn a_hit_that_was_given_though_stale_is_stale_whatever_comes_next() {
    let origin = Origin::by(|seen| match seen.number {
        0 => "200 OK\nCache-Control: max-age=9, stale-while-revalidate=900\nAge: 9\n\nold".to_owned(),
        _ => "200 OK\nCache-Control: max-age=900\n\nnew".to_owned(),
    });
    let larder = validating(&origin, "");
    larder.get("/");
    assert_eq!(larder.get("/").text(), "old");
    assert_eq!(counts(&larder, 1), [0, 1, 0, 0, 0]);
    larder.wait_for_log("a stale-hit (stale-while-revalidate)");
}

#[test]
fn a_page_that_changes_each_time_cannot_be_compared() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=900\n\nrequest {}", seen.number));
    let larder = validating(&origin, "");
    larder.get("/");
    larder.get("/");
    assert_eq!(counts(&larder, 1), [0, 0, 0, 1, 0]);
}

#[test]
fn a_failing_origin_gives_no_verdict_on_hits() {
    let origin = Origin::in_order(["200 OK\nCache-Control: max-age=900\n\nold", "503 Busy"]);
    let larder = validating(&origin, "");
    larder.get("/");
    larder.get("/");
    assert_eq!(counts(&larder, 1), [0, 0, 0, 0, 1]);
    origin.die();
    larder.get("/");
    assert_eq!(counts(&larder, 2), [0, 0, 0, 0, 2]);
}

#[test]
fn the_validator_also_checks_revalidated_responses() {
    // The origin wrongly answers 304 to conditional requests, although the content has changed.
    let origin = Origin::by(|seen| match (seen.number, seen.field("if-none-match")) {
        (0, _) => "200 OK\nCache-Control: no-cache\nETag: \"1\"\n\nold".to_owned(),
        (_, Some(_)) => "304 Not Modified\nETag: \"1\"".to_owned(),
        _ => "200 OK\nCache-Control: no-cache\nETag: \"2\"\n\nnew".to_owned(),
    });
    let larder = validating(&origin, "");
    larder.get("/");
    assert_eq!(larder.get("/").text(), "old");
    assert_eq!(counts(&larder, 1), [0, 1, 0, 0, 0]);
    larder.wait_for_log("a revalidated (");
}

#[test]
fn the_same_is_asked_for_without_conditions() {
    let origin =
        Origin::always("200 OK\nCache-Control: max-age=900\nETag: \"1\"\nVary: Accept-Language\n\nabc");
    let larder = validating(&origin, "");
    let asks = ["", "\nIf-None-Match: \"1\"", "\nRange: bytes=1-1", ""];
    for (hits, (fields, status)) in asks.iter().zip([200, 304, 206, 200]).enumerate() {
        let response = larder.ask(&format!("GET /a?b\nAccept-Language: de{fields}"));
        assert_eq!(response.status, status);
        validated(&larder, hits as u64);
    }
    assert_eq!((counts(&larder, 3), origin.count()), ([3, 0, 0, 0, 0], 4));
    let last = origin.last();
    assert_eq!((&*last.target, last.field("accept-language"), is_marked(&last)), ("/a?b", Some("de"), true));
    assert_eq!((last.field("if-none-match"), last.field("range")), (None, None));
    assert!(last.field("via").is_some());
    // The validator repeats neither a HEAD nor a request of another validator.
    larder.ask("HEAD /a?b\nAccept-Language: de");
    assert!(larder.ask("GET /a?b\nAccept-Language: de\nLarder-Validate: 1").is_hit());
    assert_eq!((counts(&larder, 3), origin.count()), ([3, 0, 0, 0, 0], 4));
}

#[test]
fn a_stored_part_is_not_compared_with_the_whole() {
    let part =
        "206 Partial Content\nCache-Control: max-age=900\nETag: \"1\"\nContent-Range: bytes 0-1/6\n\nab";
    let origin = Origin::always(part);
    let larder = validating(&origin, "");
    larder.ask("GET /\nRange: bytes=0-1");
    assert!(larder.ask("GET /\nRange: bytes=0-1").is_hit());
    assert_eq!((counts(&larder, 0), origin.count()), ([0; 5], 1));
}

#[test]
fn the_validator_checks_no_more_hits_per_second_than_its_rate() {
    let (origin, _) = numbered("Cache-Control: max-age=900");
    let larder = validating(&origin, "rate = 1");
    larder.get("/");
    let (mut client, hits) = (larder.client(), 50);
    client.raw("GET / HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(hits).as_bytes());
    for _ in 0..hits {
        assert!(client.receive("GET").is_hit());
    }
    let found = validated(&larder, hits as u64);
    let (checked, skipped) = (found["checked"].as_u64().unwrap(), found["skipped"]["rate"].as_u64().unwrap());
    assert!((1..=3).contains(&checked) && checked + skipped == hits as u64, "{found}");
    assert_eq!(origin.count() as u64, 1 + checked);
}

#[test]
fn credentials_are_repeated_only_if_told() {
    let (origin, _) = numbered("Cache-Control: public, max-age=900");
    for (keys, expected) in [("", [0, 2]), ("cookies = true", [2, 0])] {
        let larder = validating(&origin, keys);
        larder.get("/");
        for line in ["Cookie: a=b", "Authorization: Basic eDp5"] {
            assert!(larder.ask(&format!("GET /\n{line}")).is_hit());
        }
        let found = validated(&larder, 2);
        assert_eq!([&found["ok"], &found["skipped"]["credentials"]], expected, "{keys}");
    }
    assert_eq!(origin.count(), 4);
}

#[test]
fn without_a_sample_no_hit_is_checked() {
    let (origin, number) = numbered("Cache-Control: max-age=900");
    let larder = Larder::before(&origin);
    larder.get("/");
    number.store(2, Ordering::Release);
    assert!(larder.get("/").is_hit());
    assert_eq!((counts(&larder, 0), origin.count()), ([0; 5], 1));
    assert!(stats(&larder, "--validator").starts_with("no hit is validated; set sample"));
}
