//! Limits of the rate of requests, and of concurrent requests.

use std::net::Ipv4Addr;

use larder_testkit::{Answer, Client, Larder, Origin, Response, eventually, site};

const FRESH: &str = "200 OK\nCache-Control: max-age=100";

/// Returns a site with these limits for the paths below `/a/`.
fn limited(origin: &Origin, limit: &str) -> String {
    format!("{}\n[[site.rule]]\nmatch = {{ path = '/a/*' }}\nlimit = {limit}\n", site(&[origin], ""))
}

fn statuses<const N: usize>(larder: &Larder, requests: [&str; N]) -> [u16; N] {
    requests.map(|request| larder.ask(&format!("GET {request}")).status)
}

fn assert_refused(response: &Response, text: &str) {
    let fields = (response.field("cache-status"), response.field("content-type"));
    assert_eq!((response.status, response.text().contains(text)), (429, true), "{}", response.text());
    assert_eq!(fields.1, Some("text/plain; charset=utf-8"));
    assert!(fields.0.is_some_and(|status| status.ends_with("detail=rate-limited")), "{:?}", fields.0);
}

#[test]
fn beyond_its_burst_a_client_gets_429_and_when_to_come_again() {
    let origin = Origin::always(FRESH);
    let larder = Larder::start(&limited(&origin, "{ requests = '1/h', burst = 2 }"));
    assert_eq!(statuses(&larder, ["/a/1", "/a/1", "/a/1", "/elsewhere"]), [200, 200, 429, 200]);
    let refused = larder.get("/a/2");
    assert_refused(&refused, "429: a rule of this proxy allows 1 in an hour for each client");
    let seconds: u32 = refused.field("retry-after").and_then(|value| value.parse().ok()).expect("a number");
    assert!((3_500..=3_600).contains(&seconds), "{seconds}");
    let other = Client::from(Ipv4Addr::new(127, 0, 0, 2), larder.address()).ask("GET /a/1");
    assert_eq!(other.status, 200, "another client has its own bucket");
    assert_eq!(larder.ask("HEAD /a/1").status, 429);
    assert_eq!(origin.count(), 2);
}

#[test]
fn tokens_come_back_with_time() {
    let larder = Larder::start(&limited(&Origin::always(FRESH), "{ requests = '1/50ms' }"));
    assert_eq!(larder.get("/a/1").status, 200);
    eventually("a token", || (larder.get("/a/1").status == 200).then_some(()));
}

#[test]
fn hits_are_free_where_only_misses_count() {
    let origin = Origin::by(|seen| match seen.target.as_str() {
        "/a/stale" => "200 OK\nCache-Control: max-age=1, stale-while-revalidate=1000\nAge: 10".to_owned(),
        _ => FRESH.to_owned(),
    });
    let larder = Larder::start(&limited(&origin, "{ requests = '3/h', count = 'misses' }"));
    assert_eq!(statuses(&larder, ["/a/1", "/a/1", "/a/1", "/a/stale"]), [200; 4]);
    assert_eq!(larder.get("/a/stale").cache(), "hit; detail=stale-while-revalidate");
    larder.settle();
    assert_eq!(origin.count(), 3, "a refresh in the background takes no token");
    assert_eq!(larder.ask("POST /a/1\n\nx").status, 200);
    assert_eq!(larder.ask("HEAD /a/2").status, 429);
    for request in ["GET /a/2", "POST /a/2\n\nx", "GET /a/stale\nCache-Control: no-cache"] {
        assert_refused(&larder.ask(request), "3 in an hour");
    }
    assert_eq!(larder.get("/a/1").status, 429, "the POST has made it a miss");
    assert_eq!((larder.get("/a/stale").status, larder.get("/elsewhere").status), (200, 200));
}

#[test]
fn a_request_that_needs_two_fetches_takes_one_token() {
    let origin = Origin::in_order([
        "200 OK\nCache-Control: max-age=9\nAge: 19\n\nold",
        // Others may not use it: after the fetch on behalf of all comes one for this client.
        "200 OK\nCache-Control: no-store\n\nown",
        "200 OK\nCache-Control: no-store\n\nown",
        FRESH,
    ]);
    let limit = "{ requests = '3/h', count = 'misses' }\nstale_if_slow = '1m'";
    let larder = Larder::start(&limited(&origin, limit));
    let answers = [larder.get("/a/1"), larder.get("/a/1")].map(|answer| answer.text().to_owned());
    assert_eq!((answers.each_ref().map(String::as_str), origin.count()), (["old", "own"], 3));
    assert_eq!(statuses(&larder, ["/a/2", "/a/3"]), [200, 429]);
}

#[test]
fn followers_of_a_fetch_take_no_token() {
    let (gate, held_back) = Origin::gated(|_, held| {
        held.pass();
        Answer::with_body(FRESH, b"late")
    });
    let larder = Larder::start(&limited(&held_back, "{ requests = '1/h', count = 'misses', by = 'all' }"));
    let mut clients: Vec<_> = (0..3).map(|_| larder.client()).collect();
    clients[0].send("GET /a/1");
    held_back.wait_for(1);
    clients[1..].iter_mut().for_each(|client| client.send("GET /a/1"));
    assert_eq!(larder.client().ask("GET /a/2").status, 429);
    gate.open();
    for client in &mut clients {
        let response = client.receive("GET");
        assert_eq!((response.status, response.text()), (200, "late"));
    }
}

#[test]
fn requests_share_a_limit_by_field_host_or_all() {
    let by = |by: &str| {
        let origin = Origin::always(FRESH);
        Larder::start(&limited(&origin, &format!("{{ requests = '1/h', by = '{by}' }}")))
    };
    let by_field = by("field:X-Key");
    assert_eq!(
        statuses(&by_field, ["/a/\nX-Key: 1", "/a/\nX-Key: 2", "/a/\nX-Key: 1", "/a/", "/a/"]),
        [200, 200, 429, 200, 429]
    );
    let by_host = by("host");
    assert_eq!(
        statuses(&by_host, ["/a/\nHost: a.test", "/a/\nHost: b.test", "/a/\nHost: A.test:80"]),
        [200, 200, 429]
    );
    let by_all = by("all");
    let other = |larder: &Larder| Client::from(Ipv4Addr::new(127, 0, 0, 2), larder.address()).ask("GET /a/");
    assert_eq!((by_all.get("/a/").status, other(&by_all).status), (200, 429));
    let by_network = by("network");
    assert_eq!((by_network.get("/a/").status, other(&by_network).status), (200, 429));
}

#[test]
fn the_client_is_the_one_that_a_trusted_proxy_names() {
    let origin = Origin::always(FRESH);
    let config = format!("trust = '127.0.0.1/32'\n{}", limited(&origin, "{ requests = '1/h' }"));
    let larder = Larder::start(&config);
    let named = |address: &str| larder.ask(&format!("GET /a/\nX-Forwarded-For: {address}")).status;
    assert_eq!(["192.0.2.1", "192.0.2.2", "192.0.2.1"].map(named), [200, 200, 429]);
    assert_eq!(["2001:db8::1", "2001:db8:0:1::1", "2001:db8::2"].map(named), [200, 200, 429]);
}

#[test]
fn a_concurrent_limit_counts_requests_until_their_replies_are_sent() {
    let (gate, origin) = Origin::gated(|seen, held| match seen.target.as_str() {
        "/a/slow" => {
            let head = "200 OK\nCache-Control: no-store\nContent-Length: 5";
            Answer::with_body(head, b"half").then_wait(held).then(*b"x")
        }
        _ => Answer::with_body(FRESH, b"x"),
    });
    let larder = Larder::start(&limited(&origin, "{ concurrent = 1 }"));
    let mut slow = larder.client();
    slow.send("GET /a/slow");
    let head = slow.head();
    assert_eq!(head.status, 200);
    let refused = larder.client().ask("GET /a/quick");
    assert_refused(&refused, "1 at once for each client");
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert_eq!(larder.client().ask("GET /elsewhere").status, 200);
    gate.open();
    assert_eq!(slow.content(&head).0, b"halfx");
    eventually("the end of the reply", || (larder.get("/a/quick").status == 200).then_some(()));
    // A client that disconnects frees its place.
    let mut left = larder.client();
    left.send("GET /a/slow");
    drop(left);
    eventually("the end of a request", || (larder.client().ask("GET /a/quick").status == 200).then_some(()));
}

#[test]
fn a_refused_request_counts_against_none_of_several_limits() {
    let origin = Origin::always(FRESH);
    let limits = "[{ requests = '2/h', by = 'all' }, { requests = '1/h', by = 'field:X-Key' }]";
    let larder = Larder::start(&limited(&origin, limits));
    assert_eq!(
        statuses(
            &larder,
            ["/a/\nX-Key: 1", "/a/\nX-Key: 1", "/a/\nX-Key: 1", "/a/\nX-Key: 2", "/a/\nX-Key: 3"]
        ),
        [200, 429, 429, 200, 429]
    );
}

#[test]
fn a_later_rule_replaces_the_limit_of_an_earlier_one() {
    let origin = Origin::always(FRESH);
    let later = "[[site.rule]]\nmatch = { path = '/a/more/*' }\nlimit = { requests = '3/h' }";
    let larder = Larder::start(&format!("{}{later}", limited(&origin, "{ requests = '1/h' }")));
    assert_eq!(statuses(&larder, ["/a/1", "/a/1", "/a/more/"]), [200, 429, 200]);
    assert_eq!(statuses(&larder, ["/a/more/", "/a/more/", "/a/more/"]), [200, 200, 429]);
}

#[test]
fn a_reload_forgets_no_requests_unless_the_limit_is_another() {
    let origin = Origin::always(FRESH);
    let larder = Larder::start(&limited(&origin, "{ requests = '1/h' }"));
    assert_eq!(statuses(&larder, ["/a/1", "/a/1"]), [200, 429]);
    larder.reload(&format!(
        "{}[[site.rule]]\nmatch = {{ path = '/b' }}\nrespond = 404",
        limited(&origin, "{ requests = '1/h' }")
    ));
    eventually("the new config", || (larder.get("/b").status == 404).then_some(()));
    assert_eq!(larder.get("/a/1").status, 429);
    larder.reload(&limited(&origin, "{ requests = '1/h', burst = 2 }"));
    eventually("the new limit", || (larder.get("/a/1").status == 200).then_some(()));
}

#[test]
fn the_forward_proxy_has_limits_for_each_host() {
    let origin = Origin::always(FRESH);
    let rule = "[[forward.rule]]\nlimit = { requests = '1/h', by = 'host', count = 'misses' }";
    let larder = Larder::start(&format!("[forward]\nallow_private = true\nports = '1-65535'\n{rule}"));
    let ask = |path: &str| {
        let host = origin.address;
        Client::to(larder.forward).ask(&format!("GET http://{host}{path}\nHost: {host}")).status
    };
    assert_eq!([ask("/1"), ask("/1"), ask("/2")], [200, 200, 429]);
}

#[test]
fn a_tunnel_is_in_progress_as_long_as_it_is_open() {
    let origin = Origin::always(FRESH);
    let (target, port) = (origin.address, origin.address.port());
    let rule = "[[forward.rule]]\nmatch = { method = 'CONNECT' }\nlimit = { concurrent = 1 }";
    let larder = Larder::start(&format!("[forward]\nallow_private = true\nconnect_ports = [{port}]\n{rule}"));
    let open = || {
        let mut client = Client::to(larder.forward);
        let status = client.ask(&format!("CONNECT {target}\nHost: {target}")).status;
        (client, status)
    };
    let (mut tunnel, status) = open();
    assert_eq!((status, tunnel.ask("GET /").status, open().1), (200, 200, 429));
    drop(tunnel);
    eventually("the end of the tunnel", || (open().1 == 200).then_some(()));
}

#[test]
fn a_304_by_a_tag_gateway_counts_as_a_hit_for_limits() {
    let origin = Origin::always("200 OK\nETag: \"1\"");
    let rule = "role = 'tags'\n[[site.rule]]\nlimit = { requests = '1/h', count = 'misses' }";
    let larder = Larder::start_settled(&site(&[&origin], rule), &[("site1", &origin.url())]);
    assert_eq!(
        statuses(&larder, ["/", "/\nIf-None-Match: \"1\"", "/\nIf-None-Match: \"1\"", "/"]),
        [200, 304, 304, 429]
    );
}

#[test]
fn uploads_have_a_limit_by_path() {
    let origin = Origin::by(|seen| format!("200 OK\n\n{}", seen.body.len()));
    let rules = "[[site.rule]]\nmatch = { path = '/small/*' }\nmax_body = '4B'\n\
                 [[site.rule]]\nmatch = { path = '/large/*' }\nmax_body = '1KiB'\n";
    let larder = Larder::start(&format!("[limits]\nbody = '8B'\n{}", site(&[&origin], rules)));
    for (path, length, status) in
        [("/small/a", 4, 200), ("/small/a", 5, 413), ("/a", 8, 200), ("/a", 9, 413), ("/large/a", 1024, 200)]
    {
        let answer = larder.ask(&format!("POST {path}\n\n{}", "x".repeat(length)));
        assert_eq!(answer.status, status, "{path} {length}");
    }
}

#[test]
fn other_spellings_of_a_cookie_or_parameter_share_its_limit() {
    let limits = "[{ requests = '1/h', by = 'cookie:session' }, { requests = '1/h', by = 'query:key' }]";
    let larder = Larder::start(&limited(&Origin::always(FRESH), limits));
    let ask = |key: &str, cookie: &str| larder.ask(&format!("GET /a/1?{key}\nCookie: {cookie}")).status;
    assert_eq!(ask("key=1", "session=1"), 200);
    for (key, cookie) in [
        ("key=2", "session=1"),
        ("key=1", "session=2"),
        ("key=%31", "session=2"),
        ("KEY=1", "session=2"),
        ("key=3", "a=b; session=%31"),
        ("key=3", "Session=1 "),
    ] {
        assert_eq!(ask(key, cookie), 429, "{key} {cookie}");
    }
    assert_eq!(ask("key=4", "session=4"), 200);
    let several = [("key=5&key=6", "session=5"), ("key=7;key=8", "session=6"), ("key=5&key=9", "session=7")];
    assert_eq!(several.map(|(key, cookie)| ask(key, cookie)), [200, 429, 429]);
}

#[test]
fn a_second_value_of_a_field_gets_no_limit_of_its_own() {
    let larder = Larder::start(&limited(&Origin::always(FRESH), "{ requests = '1/h', by = 'field:X-Key' }"));
    let ask = |second: &str| larder.ask(&format!("GET /a/1\nX-Key: 1\nX-Key: {second}")).status;
    assert_eq!([ask("2"), ask("3")], [200, 429]);
}
