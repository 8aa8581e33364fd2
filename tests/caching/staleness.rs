//! RFC 5861: stale responses while a new one is fetched, and when the fetch fails.

use larder_testkit::{Answer, Larder, Origin};

#[test]
fn rfc_5861_section_3_one_refresh_runs_while_stale_responses_go_out() {
    let (gate, origin) = Origin::gated(|seen, held| match seen.number {
        0 => {
            Answer::with_body("200 OK\nCache-Control: max-age=9, stale-while-revalidate=900\nAge: 9", b"old")
        }
        _ => Answer::default()
            .then_wait(held)
            .then("HTTP/1.1 200 OK\r\nCache-Control: max-age=900\r\nContent-Length: 3\r\n\r\nnew".as_bytes()),
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    for _ in 0..3 {
        let stale = larder.client().ask("GET /");
        assert_eq!((stale.text(), stale.cache().as_str()), ("old", "hit; detail=stale-while-revalidate"));
    }
    origin.wait_for(2);
    gate.open();
    larder.settle();
    let fresh = larder.get("/");
    assert_eq!((fresh.text(), fresh.is_hit(), origin.count()), ("new", true, 2));
}

#[test]
fn rfc_5861_section_3_beyond_its_window_it_is_validated_first() {
    let stale = "200 OK\nCache-Control: max-age=9, stale-while-revalidate=9\nAge: 60\nETag: \"1\"\n\nold";
    let origin = Origin::in_order([stale, "200 OK\nCache-Control: max-age=900\n\nnew"]);
    let larder = Larder::before(&origin);
    larder.get("/");
    assert_eq!(larder.get("/").text(), "new");
}

#[test]
fn rfc_5861_section_4_a_stale_response_stands_in_for_errors() {
    for (directive, status, stands_in) in [
        ("stale-if-error=900", "500 Oops", true),
        ("stale-if-error=900", "503 Busy", true),
        ("stale-if-error=900", "404 Not Found", false),
        ("stale-if-error=9", "503 Busy", false),
        ("stale-if-error=0", "503 Busy", false),
        // Without a directive of the origin, the operator's `stale-if-error` of an hour applies.
        ("public", "503 Busy", true),
        ("must-revalidate", "503 Busy", false),
        ("s-maxage=9", "503 Busy", false),
    ] {
        let origin = Origin::by(move |seen| match seen.number {
            0 => format!("200 OK\nCache-Control: max-age=9, {directive}\nAge: 60\n\nold"),
            _ => status.to_owned(),
        });
        let larder = Larder::before(&origin);
        larder.get("/");
        let response = larder.get("/");
        let code = status[..3].parse().expect("a status");
        assert_eq!(response.status, if stands_in { 200 } else { code }, "{directive} {status}");
        let cache = format!("fwd=stale; fwd-status={code}; detail=stale-if-error");
        assert_eq!(response.cache() == cache, stands_in, "{directive} {status}: {response:?}");
    }
}

#[test]
fn section_4_2_4_stale_responses_stand_in_for_a_dead_origin() {
    for (directive, status) in [("public", 200), ("must-revalidate", 502), ("no-cache", 502)] {
        let origin = Origin::by(move |_| {
            format!("200 OK\nCache-Control: max-age=9, {directive}\nAge: 9\nETag: \"1\"\n\nold")
        });
        let larder = Larder::before(&origin);
        larder.get("/");
        origin.die();
        for method in ["GET", "HEAD"] {
            assert_eq!(larder.ask(&format!("{method} /")).status, status, "{method} {directive}");
        }
    }
}

#[test]
fn a_stale_error_gives_way_to_a_newer_one() {
    for (method, own) in [("GET", ""), ("HEAD", ""), ("GET", "\nRange: bytes=0-0")] {
        let origin = Origin::by(|seen| {
            format!("503 Maintenance\nCache-Control: max-age=9\nAge: 9\nX-Number: {}\n\nbusy", seen.number)
        });
        let larder = Larder::with_site(&[&origin], "stale_if_error = '1h'\nstale_if_slow = '1s'");
        for number in ["0", "1", "2"] {
            let request = format!("{} /{own}", if number == "0" { "GET" } else { method });
            let answer = larder.ask(&request);
            assert_eq!((answer.status, answer.field("x-number")), (503, Some(number)), "{request}");
        }
    }
}

/// RFC 9211 section 2.1.
#[test]
fn a_stale_response_for_an_origin_without_answer_is_no_hit() {
    const OLD: &str = "200 OK\nCache-Control: max-age=9, stale-if-error=900\nAge: 9\nETag: \"1\"";
    let (gate, origin) = Origin::gated(|seen, held| match (seen.number, seen.field("x-end")) {
        (0, _) => Answer::with_body(OLD, b"old"),
        (_, Some("late")) => Answer::raw("").then_wait(held).then_close(),
        _ => Answer::raw("").then_close(),
    });
    let rule = "[[site.rule]]\nmatch = { field = { X-End = 'late' } }\nfirst_byte = '300ms'\n";
    let larder = Larder::with_site(&[&origin], rule);
    larder.get("/");
    let ask = |own: &str, requests: &[&str]| {
        for request in requests {
            let stale = larder.ask(&format!("{request}\n{own}"));
            assert_eq!(stale.cache(), "fwd=stale; detail=stale-if-error", "{request} {own}");
        }
    };
    let all = ["GET /", "HEAD /", "GET /\nRange: bytes=0-1", "GET /\nIf-None-Match: \"1\""];
    ask("X-End: closed", &all);
    ask("X-End: late", &all[..1]);
    gate.open();
    let mut clients: Vec<_> = (0..3).map(|_| larder.client()).collect();
    clients.iter_mut().for_each(|client| client.send("GET /"));
    for client in &mut clients {
        assert_eq!(client.receive("GET").cache(), "fwd=stale; detail=stale-if-error");
    }
    origin.die();
    ask("X-End: dead", &all);
}

#[test]
fn rfc_5861_section_4_a_bridged_error_leaves_the_stored_response() {
    let old = "200 OK\nCache-Control: max-age=9, stale-if-error=900\nAge: 9\nETag: \"1\"\n\nold";
    let origin =
        Origin::in_order([old, "500 Oops", "304 Not Modified\nCache-Control: max-age=900\nETag: \"1\""]);
    let larder = Larder::before(&origin);
    for cache in ["stored", "stale-if-error", "fwd-status=304", "hit"] {
        let response = larder.get("/");
        assert!(response.text() == "old" && response.cache().contains(cache), "{cache}: {response:?}");
    }
}
