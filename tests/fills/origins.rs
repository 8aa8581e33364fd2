//! The choice of the origin, retries, and the queue of requests.

use std::time::Instant;

use larder_testkit::{Answer, Gate, Larder, Origin, eventually};

/// Starts an origin that reads requests and closes the connection without a response.
fn mute() -> Origin {
    Origin::answering(|_| Answer::default().then_close())
}

#[test]
fn beyond_the_queue_a_request_is_refused_at_once() {
    let (gate, origin) = Origin::gated(|seen, held| {
        held.pass();
        Answer::with_body("200 OK", seen.target.as_bytes())
    });
    let larder = Larder::with(&origin, "[limits]\nin_flight = 1\nqueue = 1");
    let [mut first, mut second] = [larder.client(), larder.client()];
    first.send("GET /1");
    origin.wait_for(1);
    second.send("GET /2");
    larder.wait_for("queued", 1);
    for method in ["GET", "POST"] {
        let third = larder.client().ask(&format!("{method} /3"));
        assert_eq!((third.status, third.field("retry-after").is_some()), (503, true), "{method}");
        assert_eq!(third.cache(), "detail=overloaded");
    }
    assert_eq!(origin.count(), 1);
    gate.open();
    assert_eq!((first.receive("GET").text(), second.receive("GET").text()), ("/1", "/2"));
}

/// RFC 9111 section 4.2.3: the response delay begins when the request is sent.
#[test]
fn time_in_the_queue_is_no_part_of_a_response_s_age() {
    let (gate, origin) = Origin::gated(|seen, held| {
        if seen.target == "/1" {
            held.pass();
        }
        Answer::with_body("200 OK\nCache-Control: max-age=100", seen.target.as_bytes())
    });
    let larder = Larder::with(&origin, "[limits]\nin_flight = 1");
    let age = |path: &str| {
        larder.client().ask(&format!("GET {path}")).field("age").and_then(|age| age.parse().ok()).unwrap_or(0)
    };
    let [mut first, mut second] = [larder.client(), larder.client()];
    larder.get("/clock");
    first.send("GET /1");
    origin.wait_for(2);
    second.send("GET /2");
    larder.wait_for("queued", 1);
    eventually("three seconds in the queue", || (age("/clock") >= 3).then_some(()));
    let opened = Instant::now();
    gate.open();
    assert_eq!((first.receive("GET").text(), second.receive("GET").text()), ("/1", "/2"));
    let age: u64 = age("/2");
    assert!(age <= opened.elapsed().as_secs() + 1, "{age} s");
    assert_eq!(origin.count(), 3, "each was fetched once");
}

#[test]
fn a_full_queue_does_not_keep_hits_from_being_served() {
    let (gate, origin) = Origin::gated(|seen, held| match seen.number {
        0 => Answer::with_body("200 OK\nCache-Control: max-age=100", b"body"),
        _ => Answer::default().then_wait(held).then_close(),
    });
    let larder = Larder::with(&origin, "[limits]\nin_flight = 1\nqueue = 0");
    larder.get("/");
    let mut slow = larder.client();
    slow.send("GET /slow");
    origin.wait_for(2);
    assert!(larder.client().ask("GET /").is_hit());
    gate.open();
}

#[test]
fn a_place_is_free_again_however_its_request_ends() {
    let origin = Origin::answering(|seen| match seen.target.as_str() {
        "/mute" => Answer::default().then_close(),
        "/half" => Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").then_close(),
        _ => Answer::with_body("200 OK", b"body"),
    });
    let larder = Larder::with(&origin, "[limits]\nin_flight = 1\nqueue = 0");
    for path in ["/mute", "/half", "/", "/mute", "/half"] {
        let mut client = larder.client();
        client.send(&format!("GET {path}"));
        client.finish();
        client.rest();
        larder.wait_for("in_flight", 0);
    }
    assert_eq!(larder.get("/").text(), "body");
}

#[test]
fn rfc_9110_section_9_2_2_only_idempotent_requests_are_tried_again() {
    for (request, tries) in [("GET /", 3), ("HEAD /", 3), ("DELETE /", 3), ("POST /", 1), ("PATCH /", 1)] {
        let origin = mute();
        let larder = Larder::with_site(&[&origin], "retries = 2");
        assert_eq!((larder.ask(request).status, origin.count()), (502, tries), "{request}");
    }
    // A request with content is not repeated, because its content can be sent only once.
    let origin = mute();
    let larder = Larder::with_site(&[&origin], "retries = 2");
    assert_eq!((larder.ask("PUT /\n\ncontent").status, origin.count()), (502, 1));
}

#[test]
fn another_origin_answers_for_one_that_does_not() {
    let [bad, good] = [mute(), Origin::always("200 OK\n\ngood")];
    let larder = Larder::with_site(&[&bad, &good], "max_fails = 1000");
    for _ in 0..6 {
        assert_eq!(larder.get("/").text(), "good");
    }
    assert!(bad.count() >= 2);
}

#[test]
fn an_origin_that_is_gone_costs_not_even_a_post() {
    let [bad, good] = [mute(), Origin::always("200 OK\n\ngood")];
    bad.die();
    let larder = Larder::with_site(&[&bad, &good], "max_fails = 1000");
    for _ in 0..6 {
        assert_eq!(larder.ask("POST /").text(), "good");
    }
}

#[test]
fn an_origin_that_fails_is_left_alone() {
    let [bad, good] = [mute(), Origin::always("200 OK\n\ngood")];
    let larder = Larder::with_site(&[&bad, &good], "max_fails = 2\nfail_timeout = '1h'");
    for _ in 0..12 {
        assert_eq!(larder.get("/").text(), "good");
    }
    assert_eq!((bad.count(), good.count()), (2, 12));
}

#[test]
fn the_others_share_the_requests_of_an_origin_that_is_sick_evenly() {
    let sick = Origin::always("500 Sick");
    let [one, other] = [(), ()].map(|()| Origin::always("200 OK\n\nwell"));
    let keys = "health = '/health'\nhealth_interval = '2s'\nmax_fails = 1000";
    let larder = Larder::with_site(&[&sick, &one, &other], keys);
    eventually("the check", || (larder.stats()["sites"][0]["origins"][0]["healthy"] == false).then_some(()));
    let mut client = larder.client();
    for _ in 0..20 {
        assert_eq!(client.ask("POST /").text(), "well");
    }
    assert_eq!([&sick, &one, &other].map(|origin| origin.count_of("/")), [0, 10, 10]);
}

#[test]
fn an_origin_whose_check_fails_is_left_alone_until_it_succeeds() {
    let repaired = Gate::default();
    let state = repaired.clone();
    let sick = Origin::by(move |seen| match seen.target.as_str() {
        "/health" if !state.is_open() => "500 Sick".to_owned(),
        _ => "200 OK\n\nsick".to_owned(),
    });
    let well = Origin::always("200 OK\n\nwell");
    let larder = Larder::with_site(&[&sick, &well], "health = '/health'\nhealth_interval = '2s'");
    let answers = || [larder.get("/"), larder.get("/")].map(|response| response.text().to_owned());
    eventually("only the healthy one", || answers().iter().all(|text| text == "well").then_some(()));
    assert!(answers().iter().all(|text| text == "well"));
    repaired.open();
    eventually("both", || answers().iter().any(|text| text == "sick").then_some(()));
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let origin = Origin::by(|seen| format!("{} Status", &seen.target[1..]));
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for (method, status) in [("GET", 200), ("POST", 404), ("HEAD", 200), ("GET", 204), ("PUT", 500)] {
        assert_eq!(client.ask(&format!("{method} /{status}")).status, status, "{method}");
    }
    assert_eq!((origin.count(), origin.connections()), (5, 1));
}

#[test]
fn rfc_9112_section_9_3_1_closed_idle_connections_fail_no_request() {
    let origin = Origin::answering(|_| Answer::with_body("200 OK", b"body").then_close());
    let larder = Larder::with_site(&[&origin], "retries = 0");
    let mut client = larder.client();
    for _ in 0..20 {
        assert_eq!(client.ask("GET /").text(), "body");
    }
    assert_eq!((origin.count(), origin.connections()), (20, 20));
}

#[test]
fn unsolicited_bytes_from_an_origin_answer_no_later_request() {
    let origin = Origin::answering(|seen| match seen.target.as_str() {
        "/two" => Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 200 OK\r\n\r\nevil"),
        _ => Answer::with_body("200 OK", b"good"),
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for _ in 0..5 {
        assert_eq!(client.ask("GET /two").text(), "1");
        assert_eq!(client.ask("GET /").text(), "good");
    }
}

#[test]
fn an_origin_whose_check_lacks_the_text_gets_no_requests() {
    let broken = Origin::by(|seen| match seen.target.as_str() {
        "/health" => "200 OK\n\ndatabase: down".to_owned(),
        _ => "200 OK\n\nbroken".to_owned(),
    });
    let well = Origin::always("200 OK\n\ndatabase: up");
    let keys = "health = '/health'\nhealth_text = ': up'\nhealth_interval = '2s'";
    let larder = Larder::with_site(&[&broken, &well], keys);
    larder.wait_for_log("its answer to the health check /health lacks ': up'");
    assert!((0..4).all(|_| larder.get("/").text() == "database: up"));
}

#[test]
fn health_checks_name_the_host_of_the_site() {
    let origin = Origin::by(|seen| match seen.field("host") {
        Some("shop.test") => "200 OK\n\nshop".to_owned(),
        other => format!("421 Misdirected Request\n\n{other:?}"),
    });
    let keys = "hosts = ['*.shop.test', 'shop.test']\nhealth = '/health'\nhealth_interval = '2s'";
    let larder = Larder::with_site(&[&origin], keys);
    eventually("checks", || (origin.count_of("/health") > 1).then_some(()));
    assert_eq!(larder.stats()["sites"][0]["origins"][0]["healthy"], true);
}

/// RFC 9110 section 15.5.9.
#[test]
fn a_408_for_an_idle_connection_is_no_answer() {
    let origin = Origin::answering(|seen| match seen.number % 2 {
        0 => Answer::with_body("200 OK", b"answered"),
        _ => Answer::with_body("408 Request Timeout\nConnection: close", b"late").then_close(),
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for (request, status, count) in [("GET /", 200, 1), ("GET /", 200, 3), ("POST /\n\nform", 408, 4)] {
        assert_eq!((client.ask(request).status, origin.count()), (status, count), "{request}");
    }
}

#[test]
fn an_idle_connection_is_used_as_long_as_the_origin_keeps_it() {
    for (seconds, connections) in [(0, 3), (60, 1)] {
        let head = format!("200 OK\nKeep-Alive: max=9, timeout={seconds}");
        let origin = Origin::by(move |_| format!("{head}\n\nbody"));
        let larder = Larder::before(&origin);
        let mut client = larder.client();
        (0..3).for_each(|_| assert_eq!(client.ask("GET /").status, 200));
        assert_eq!(origin.connections(), connections, "{seconds}");
    }
}

#[test]
fn a_connection_that_one_client_has_authorised_carries_no_other_request() {
    for (credentials, connections) in [("Basic YTpi", 1), ("NTLM TlRMTVNTUAA=", 2), ("negotiate YII=", 2)] {
        let origin = Origin::always("200 OK\n\nbody");
        let larder = Larder::before(&origin);
        let mut client = larder.client();
        assert_eq!(client.ask(&format!("GET /\nAuthorization: {credentials}")).status, 200);
        assert_eq!(client.ask("GET /").status, 200);
        assert_eq!(origin.connections(), connections, "{credentials}");
    }
}
