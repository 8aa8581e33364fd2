//! Effects of one client that others must not get: its cookies, its errors, its reloads.

use larder_testkit::{Answer, Client, Larder, Origin};

const SESSION: &str = "200 OK\nCache-Control: max-age=100\nSet-Cookie: session=0123456789abcdef\n\nbody";

fn cookie_of(larder: &Larder) -> Option<String> {
    larder.get("/").field("set-cookie").map(str::to_owned)
}

#[test]
fn a_cookie_goes_to_the_client_only_whose_request_it_answers() {
    let origin = Origin::always(SESSION);
    let larder = Larder::before(&origin);
    assert!(cookie_of(&larder).is_some());
    assert_eq!((cookie_of(&larder), origin.count()), (None, 1));
    let none = Larder::with_site(&[&origin], "store_cookies = 'none'");
    assert!((cookie_of(&none), cookie_of(&none)) == (Some("session=0123456789abcdef".to_owned()), None));
    let all = Larder::with_site(&[&origin], "store_cookies = 'all'");
    assert!(cookie_of(&all).is_some() && cookie_of(&all).is_some());
}

#[test]
fn a_copy_of_a_cookie_is_not_stored_either() {
    let answers = [
        "200 OK\nCache-Control: s-maxage=1\nAge: 1\nETag: \"1\"\nX-Middleware-Set-Cookie: session=of-one\n\nbody",
        "304 Not Modified\nCache-Control: s-maxage=100\nETag: \"1\"\nX-Middleware-Set-Cookie: session=of-two",
    ];
    let larder = Larder::before(&Origin::in_order(answers));
    let copies = [(); 3].map(|()| larder.get("/").field("x-middleware-set-cookie").map(str::to_owned));
    assert_eq!(copies, [Some("session=of-one".to_owned()), Some("session=of-two".to_owned()), None]);
}

#[test]
fn a_cookie_that_tells_no_client_from_others_is_stored() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nSet-Cookie: lang=en; Path=/\n\nbody");
    let larder = Larder::before(&origin);
    assert_eq!(
        (cookie_of(&larder), cookie_of(&larder)),
        (Some("lang=en; Path=/".to_owned()), Some("lang=en; Path=/".to_owned()))
    );
}

#[test]
fn followers_of_a_response_do_not_get_its_cookie() {
    let (gate, origin) = Origin::gated(|_, held| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nSet-Cookie: session=0123456789abcdef\r\n";
        Answer::raw(format!("{head}Content-Length: 4\r\n\r\nbo")).then_wait(held).then("dy")
    });
    let larder = Larder::before(&origin);
    let mut clients: Vec<Client> = (0..5).map(|_| larder.client()).collect();
    let heads: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            client.send("GET /");
            client.head()
        })
        .collect();
    gate.open();
    let cookies = heads.iter().filter(|head| head.field("set-cookie").is_some()).count();
    assert_eq!((cookies, origin.count()), (1, 1));
    assert!(heads[0].field("set-cookie").is_some());
    larder.settle();
}

#[test]
fn an_error_in_reply_to_a_reload_keeps_the_stored_response() {
    for error in [
        "400 Bad Request\nCache-Control: max-age=100\n\nerror",
        "400 Bad Request\nCache-Control: no-store\n\nerror",
        "404 Not Found\nCache-Control: max-age=100\n\nerror",
        "403 Forbidden\n\nerror",
        "503 Service Unavailable\nCache-Control: no-store\n\nerror",
        "503 Service Unavailable\nCache-Control: max-age=100\n\nerror",
    ] {
        let origin = Origin::in_order(["200 OK\nCache-Control: max-age=100\n\nbody", error]);
        let larder = Larder::before(&origin);
        larder.get("/");
        assert_eq!(larder.ask("GET /\nCache-Control: no-cache").text(), "error");
        let other = larder.get("/");
        assert_eq!((other.text(), other.is_hit(), origin.count()), ("body", true, 2), "{error}");
    }
}

#[test]
fn a_reload_with_cookies_leaves_the_stored_response_to_others() {
    for personal in ["private", "no-store", "private; max-age=100"] {
        let origin = Origin::by(move |seen| match seen.field("cookie") {
            Some(_) => format!("200 OK\nCache-Control: {personal}\n\nmine"),
            None => "200 OK\nCache-Control: max-age=100\n\nbody".to_owned(),
        });
        let larder = Larder::before(&origin);
        larder.get("/");
        assert_eq!(larder.ask("GET /\nCache-Control: no-cache\nCookie: user=1").text(), "mine");
        let other = larder.get("/");
        assert_eq!((other.text(), other.is_hit(), origin.count()), ("body", true, 2), "{personal}");
    }
}

#[test]
fn an_error_for_one_variant_takes_the_place_of_no_other() {
    let origin = Origin::by(|seen| match seen.field("a") {
        Some("good") => "200 OK\nCache-Control: max-age=100\nVary: A\n\nbody".to_owned(),
        _ => "400 Bad Request\nCache-Control: max-age=100\n\nerror".to_owned(),
    });
    let larder = Larder::before(&origin);
    larder.ask("GET /\nA: good");
    assert_eq!(larder.ask("GET /\nA: bad").status, 400);
    assert!(larder.ask("GET /\nA: good").is_hit());
}

#[test]
fn an_error_takes_the_place_of_a_stale_response() {
    let origin = Origin::in_order([
        "200 OK\nCache-Control: max-age=10\nAge: 20\nETag: \"1\"\n\nbody",
        "404 Not Found\nCache-Control: max-age=100\n\ngone",
    ]);
    let larder = Larder::before(&origin);
    larder.get("/");
    assert_eq!(larder.get("/").status, 404);
    assert!(larder.get("/").is_hit());
}

#[test]
fn reloads_at_the_same_time_share_the_next_fetch() {
    let (gate, origin) = Origin::gated(|seen, held| {
        if seen.target == "/" && seen.field("cache-control").is_some() {
            held.pass();
        }
        Answer::with_body("200 OK\nCache-Control: max-age=100", seen.number.to_string().as_bytes())
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    larder.get("/hit");
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    // After this request, a worker has accepted each connection.
    clients.iter_mut().for_each(|client| assert!(client.ask("GET /hit").is_hit()));
    for client in &mut clients {
        client.send("GET /\nCache-Control: no-cache");
    }
    origin.wait_for(3);
    // When these are answered, both workers have read all requests that were sent before.
    (0..16).for_each(|_| assert!(larder.client().ask("GET /hit").is_hit()));
    assert_eq!(origin.count(), 3);
    gate.open();
    let bodies: Vec<_> = clients.iter_mut().map(|client| client.receive("GET").text().to_owned()).collect();
    // The first fetch began before the other requests arrived, so its response may be older than they are. If a fetch
    // ends before all waiting requests have woken, another fetch follows.
    assert_eq!(bodies.iter().filter(|body| *body == "2").count(), 1, "{bodies:?}");
    assert!(origin.count() <= 12, "{} requests for {bodies:?}", origin.count());
}

#[test]
fn a_site_may_ignore_reloads() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::with_site(&[&origin], "reloads = 'ignore'");
    larder.get("/");
    for asked in ["Cache-Control: no-cache", "Pragma: no-cache", "Cache-Control: max-age=0, min-fresh=1000"] {
        assert!(larder.ask(&format!("GET /\n{asked}")).is_hit(), "{asked}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_request_that_the_origin_does_not_answer_fails_alone() {
    let (gate, origin) = Origin::gated(|seen, held| match (seen.target.as_str(), seen.field("bad")) {
        // A failure on a reused connection is retried once, which would be counted here; so the connection is closed.
        ("/warm", _) => Answer::with_body("200 OK\nConnection: close\nCache-Control: max-age=100", b"warm"),
        (_, Some(_)) => Answer::default().then_wait(held).then_close(),
        (_, None) => Answer::with_body("200 OK\nCache-Control: max-age=100", b"good"),
    });
    let larder = Larder::with_site(&[&origin], "retries = 0");
    larder.get("/warm");
    let mut bad = larder.client();
    bad.send("GET /\nBad: 1");
    origin.wait_for(2);
    let mut others: Vec<_> = (0..5).map(|_| larder.client()).collect();
    for other in &mut others {
        // Each request waits for the fill as soon as the hit before it has been answered.
        let host = "Host: site.test\r\n\r\n";
        other.raw(format!("GET /warm HTTP/1.1\r\n{host}GET / HTTP/1.1\r\n{host}").as_bytes());
        assert_eq!(other.receive("GET").text(), "warm");
    }
    gate.open();
    assert_eq!(bad.receive("GET").status, 502);
    for other in &mut others {
        assert_eq!(other.receive("GET").text(), "good");
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn followers_of_a_fetch_have_a_time_limit_of_their_own() {
    let (gate, origin) = Origin::gated(|_, held| Answer::default().then_wait(held).then_close());
    let larder = Larder::with(&origin, "[timeouts]\nfirst_byte = '1s'");
    let mut clients: Vec<_> = (0..8).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send("GET /");
    }
    for client in &mut clients {
        assert_eq!(client.receive("GET").status, 504);
    }
    gate.open();
}
