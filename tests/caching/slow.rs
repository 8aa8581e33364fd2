//! `stale_if_slow`: a stale response in place of an origin that takes long.

use std::time::{Duration, Instant};

use larder_testkit::{Answer, Gate, Larder, Origin, eventually};

const LIMIT: Duration = Duration::from_millis(300);

/// Starts an origin whose first response, with this `Cache-Control`, is stale on arrival. The next one waits at the gate.
fn slow(directives: &'static str) -> (Gate, Origin) {
    Origin::gated(move |seen, held| match seen.number {
        0 => Answer::with_body(&format!("200 OK\nCache-Control: max-age=9, {directives}\nAge: 19"), b"old"),
        _ => Answer::default()
            .then_wait(held)
            .then("HTTP/1.1 200 OK\r\nCache-Control: max-age=900\r\nContent-Length: 3\r\n\r\nnew".as_bytes()),
    })
}

#[test]
fn only_the_first_client_waits_for_a_slow_origin() {
    let (gate, origin) = slow("public");
    let larder = Larder::with_site(&[&origin], "stale_if_slow = '300ms'");
    larder.get("/");
    let begun = Instant::now();
    let first = larder.client().ask("GET /");
    assert!(begun.elapsed() >= LIMIT);
    assert_eq!((first.text(), first.cache().as_str()), ("old", "hit; detail=stale-if-slow"));
    // If each waited, five of them could not be quicker than this, on any machine.
    eventually("clients that do not wait", || {
        let begun = Instant::now();
        (0..5).for_each(|_| assert_eq!(larder.client().ask("GET /").text(), "old"));
        (begun.elapsed() < 5 * LIMIT).then_some(())
    });
    assert_eq!(origin.count(), 2, "one fetch goes on");
    gate.open();
    larder.settle();
    let fresh = larder.get("/");
    assert_eq!((fresh.text(), fresh.is_hit(), origin.count()), ("new", true, 2));
}

#[test]
fn an_origin_that_answers_in_time_answers_as_usual() {
    let origin = Origin::in_order([
        "200 OK\nCache-Control: max-age=9\nAge: 9\nETag: \"1\"\n\nold",
        "304 Not Modified\nCache-Control: max-age=9\nAge: 9\nETag: \"1\"",
        "200 OK\nCache-Control: max-age=900\n\nnew",
    ]);
    let larder = Larder::with_site(&[&origin], "stale_if_slow = '1m'");
    larder.get("/");
    let validated = larder.get("/");
    assert_eq!(
        (validated.text(), validated.cache().as_str()),
        ("old", "fwd=stale; fwd-status=304; detail=expired")
    );
    assert_eq!((larder.get("/").text(), origin.count()), ("new", 3));
}

#[test]
fn a_client_waits_for_the_origin_where_stale_responses_may_not_answer() {
    for (directives, request) in [
        ("must-revalidate", "GET /"),
        ("no-cache", "GET /"),
        ("stale-if-error=0", "GET /"),
        ("public", "GET /\nCache-Control: no-cache"),
        ("public", "GET /\nCache-Control: max-age=0"),
        ("public", "GET /\nCache-Control: max-stale=5"),
    ] {
        let (gate, origin) = slow(directives);
        let larder = Larder::with_site(&[&origin], "stale_if_slow = '1ms'");
        larder.get("/");
        let mut client = larder.client();
        client.send(request);
        origin.wait_for(2);
        gate.open();
        assert_eq!(client.receive("GET").text(), "new", "{directives} {request}");
    }
}

#[test]
fn a_rule_sets_the_wait_for_some_paths_and_why_says_it() {
    let (gate, origin) = slow("public");
    let rule = "[[site.rule]]\nmatch = { path = '/a' }\nstale_if_slow = '20ms'";
    let larder = Larder::with_site(&[&origin], rule);
    larder.get("/a");
    let why = larder.ask_admin("GET /why?url=http://site.test/a");
    assert!(why.text().contains("does not answer within 20ms"), "{}", why.text());
    assert_eq!(larder.client().ask("GET /a").cache(), "hit; detail=stale-if-slow");
    gate.open();
}

#[test]
fn heads_and_ranges_wait_no_longer_for_a_slow_origin() {
    for (request, text) in [("HEAD /", ""), ("GET /\nRange: bytes=1-1", "l")] {
        let (gate, origin) = slow("public");
        let larder = Larder::with_site(&[&origin], "stale_if_slow = '50ms'");
        larder.get("/");
        for _ in 0..2 {
            let stale = larder.client().ask(request);
            assert_eq!(
                (stale.text(), stale.cache().as_str()),
                (text, "hit; detail=stale-if-slow"),
                "{request}"
            );
        }
        assert_eq!(origin.count(), 2, "one fetch goes on: {request}");
        gate.open();
        larder.settle();
        assert_eq!((larder.get("/").text(), origin.count()), ("new", 2), "{request}");
    }
}

#[test]
fn heads_and_ranges_get_the_answer_of_an_origin_in_time() {
    for (request, text) in [("HEAD /", ""), ("GET /\nRange: bytes=1-1", "e")] {
        let origin = Origin::in_order([
            "200 OK\nCache-Control: max-age=9\nAge: 19\n\nold",
            "200 OK\nCache-Control: max-age=900\n\nnewer",
        ]);
        let larder = Larder::with_site(&[&origin], "stale_if_slow = '1m'");
        larder.get("/");
        let answer = larder.ask(request);
        let length = if text.is_empty() { "5" } else { "1" };
        assert_eq!((answer.text(), answer.field("content-length")), (text, Some(length)), "{request}");
        assert_eq!(answer.cache(), "fwd=stale; fwd-status=200; detail=expired", "{request}");
        assert_eq!((larder.get("/").text(), origin.count()), ("newer", 2), "{request}");
    }
}
