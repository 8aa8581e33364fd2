//! RFC 9110 section 7.6: the fields that a proxy removes and adds, and the requests that it answers itself.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use larder_testkit::http2::{self, END_HEADERS, END_STREAM, HEADERS};
use larder_testkit::{Answer, Client, Larder, Origin};

#[test]
fn rfc_9110_section_7_6_1_fields_of_one_connection_stop_here() {
    let origin = Origin::always(
        "200 OK\nConnection: keep-alive, hop\nHop: h\nKeep-Alive: timeout=5\nProxy-Connection: x\nUpgrade: h2c\n\
         Proxy-Authenticate: Basic\nEnd: e",
    );
    let larder = Larder::before(&origin);
    let response = larder.ask(
        "GET /\nConnection: keep-alive, Hop\nHop: h\nKeep-Alive: 5\nProxy-Connection: x\nTE: gzip\n\
         Proxy-Authorization: Basic x\nEnd: e",
    );
    let seen = origin.last();
    for name in ["hop", "keep-alive", "proxy-connection", "te", "upgrade", "connection"] {
        assert_eq!((seen.field(name), response.field(name)), (None, None), "{name}");
    }
    assert_eq!((seen.field("proxy-authorization"), response.field("proxy-authenticate")), (None, None));
    assert_eq!((seen.field("end"), response.field("end")), (Some("e"), Some("e")));
}

/// RFC 9110 section 15.5.22.
#[test]
fn a_426_names_the_protocols_that_it_demands() {
    let answer = "426 Upgrade Required\nConnection: Upgrade\nUpgrade: HTTP/3.0, websocket\nCache-Control: max-age=60\n\nno";
    let origin = Origin::always(answer);
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for request in ["GET /", "GET /", "HEAD /", "POST /\n\nbody"] {
        let refused = client.ask(request);
        let fields = (refused.field("upgrade"), refused.field("connection"));
        assert_eq!(
            (refused.status, fields),
            (426, (Some("HTTP/3.0, websocket"), Some("upgrade"))),
            "{request}"
        );
    }
    assert_eq!(origin.count(), 4, "what concerns a connection is not stored");
    let mut client = larder_testkit::http2::Client::new(&larder);
    let refused = client.get(1, "/");
    assert_eq!((refused.status, refused.field("upgrade"), refused.field("connection")), (426, None, None));
}

#[test]
fn rfc_9110_section_7_6_3_via_grows_in_both_directions() {
    let origin = Origin::always("200 OK\nVia: 1.1 back\n\nbody");
    let larder = Larder::before(&origin);
    let response = larder.ask("GET /\nVia: 1.0 front");
    let seen = origin.last();
    assert!(seen.field("via").is_some_and(|via| via.starts_with("1.0 front, 1.1 Larder (")), "{seen:?}");
    let via: Vec<_> = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("via")).collect();
    assert_eq!(via.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["1.1 back", "1.1 Larder"]);
    larder.ask("GET / HTTP/1.0\nHost: site.test");
    assert!(
        origin.last().field("via").is_some_and(|via| via.starts_with("1.0 Larder (")),
        "{:?}",
        origin.last()
    );
}

#[test]
fn a_request_that_goes_in_circles_is_stopped() {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    let passes = ["1.1 Larder"; 8].join(", ");
    assert_eq!(larder.ask(&format!("GET /\nVia: {passes}")).status, 508);
    assert_eq!(origin.count(), 0);
}

/// Starts a simple proxy that forwards each request to the address in `next`, with `host` if given, and adds a `Via`.
fn forwarding(next: &Arc<OnceLock<SocketAddr>>, host: Option<&'static str>) -> Origin {
    let next = Arc::clone(next);
    Origin::answering(move |seen| {
        let mut request = format!("{} {}", seen.method, seen.target);
        for (name, value) in &seen.fields {
            let value = match name.to_ascii_lowercase().as_str() {
                "via" => format!("{value}, 1.1 between"),
                "host" => host.unwrap_or(value).to_owned(),
                _ => value.clone(),
            };
            request += &format!("\n{name}: {value}");
        }
        request += &format!("\n\n{}", String::from_utf8_lossy(&seen.body));
        let answer = Client::to(*next.get().expect("an address")).ask(&request);
        Answer::with_body(&format!("{} Forwarded", answer.status), &answer.body)
    })
}

#[test]
fn a_site_that_leads_back_by_another_proxy_gets_508_at_once() {
    let next = Arc::default();
    let between = forwarding(&next, None);
    let larder = Larder::with(&between, "[timeouts]\nfirst_byte = '1h'");
    next.set(larder.address()).expect("the first");
    for (count, request) in ["GET /a", "POST /a\n\nbody", "GET /a\nAuthorization: x"].into_iter().enumerate()
    {
        let answer = larder.ask(request);
        assert_eq!((answer.status, between.count()), (508, count + 1), "{request}");
        assert!(answer.text().contains("come back to this proxy"), "{}", answer.text());
    }
    larder.wait_for_log("so the origin leads back here");
}

#[test]
fn a_request_may_pass_through_two_sites_of_this_proxy() {
    let (next, origin) = (Arc::default(), Origin::always("200 OK\n\nbehind"));
    let between = forwarding(&next, Some("inner.test"));
    let sites = format!(
        "[[site]]\nhosts = 'site.test'\norigin = '{}'\n[[site]]\nhosts = 'inner.test'\norigin = '{}'\n",
        between.url(),
        origin.url()
    );
    let larder = Larder::start(&sites);
    next.set(larder.address()).expect("the first");
    let answer = larder.get("/");
    assert_eq!((answer.status, answer.text()), (200, "behind"));
}

#[test]
fn origins_learn_the_clients_address_as_configured() {
    let own = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];
    let table = [
        ("x-forwarded-for", [Some("127.0.0.1"), Some("http"), Some("site.test"), None]),
        ("forwarded", [None, None, None, Some("for=127.0.0.1;host=\"site.test\";proto=http")]),
        ("off", [None; 4]),
    ];
    for (option, expected) in table {
        let origin = Origin::always("200 OK");
        let larder = Larder::with(&origin, &format!("client_address = '{option}'"));
        larder.ask("GET /\nX-Forwarded-For: 1.2.3.4\nForwarded: for=1.2.3.4");
        let seen = origin.last();
        assert_eq!(own.map(|name| seen.field(name)), expected, "{option}");
    }
}

#[test]
fn origins_learn_no_host_of_a_request_that_names_none() {
    for (option, expected) in
        [("x-forwarded-for", [None, None]), ("forwarded", [None, Some("for=127.0.0.1;proto=http")])]
    {
        let origin = Origin::always("200 OK");
        let larder = Larder::with(&origin, &format!("client_address = '{option}'"));
        for host in ["", "Host:\r\n"] {
            let mut client = larder.client();
            client.raw(format!("GET / HTTP/1.0\r\n{host}\r\n").as_bytes());
            assert_eq!(client.receive("GET").status, 200);
            let seen = origin.last();
            assert_eq!(["x-forwarded-host", "forwarded"].map(|name| seen.field(name)), expected, "{option}");
        }
    }
}

#[test]
fn rfc_3986_section_3_2_3_an_empty_port_is_no_port() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::start(&format!("[[site]]\nhosts = ['a.test']\norigin = '{}'", origin.url()));
    let mut client = larder.client();
    for (number, target) in ["/ HTTP/1.1\nHost: a.test:", "http://a.test:/\nHost: a.test", "/\nHost: a.test"]
        .into_iter()
        .enumerate()
    {
        assert_eq!(client.ask(&format!("GET {target}")).is_hit(), number > 0, "{target}");
        larder.settle();
    }
    let seen = origin.last();
    assert_eq!(["host", "x-forwarded-host"].map(|name| seen.field(name)), [Some("a.test"); 2]);
}

#[test]
fn rfc_3986_section_6_2_3_zeros_before_a_port_mean_nothing() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::before(&origin);
    let ask = |host: &str| larder.ask(&format!("GET /\nHost: {host}")).is_hit();
    let spellings = ["a.test:0080", "a.test:080", "a.test:80", "a.test"];
    assert_eq!(spellings.map(ask), [false, true, true, true]);
    let seen = origin.last();
    assert_eq!(["host", "x-forwarded-host"].map(|name| seen.field(name)), [Some("a.test"); 2]);
    assert_eq!(["a.test:08080", "a.test:8080", "a.test:80800"].map(ask), [false, true, false]);
    let mut http2 = http2::Client::new(&larder);
    let request = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a.test:080")];
    http2.raw(&http2::frame(HEADERS, END_HEADERS | END_STREAM, 1, &http2::section(&request)));
    assert!(http2.response(1).fields.iter().any(|(_, value)| value.contains("; hit")));
    for purged in spellings {
        larder.ask_admin(&format!("POST /purge?url=http://{purged}/&hard\nLarder-Admin: 1"));
        assert!(!ask("a.test") && ask(purged), "{purged}");
    }
}

#[test]
fn origins_see_the_host_as_configured() {
    let origin = Origin::always("200 OK");
    let own = origin.address.to_string();
    for (option, expected) in [("preserve", "site.test"), ("origin", &own), ("set.test", "set.test")] {
        let larder = Larder::with_site(&[&origin], &format!("host = '{option}'"));
        larder.ask("GET /");
        assert_eq!(origin.last().field("host"), Some(expected), "{option}");
    }
}

#[test]
fn rfc_9110_section_7_6_2_max_forwards_limits_options_and_trace() {
    let origin = Origin::always("200 OK\n\norigin");
    let larder = Larder::before(&origin);
    for method in ["OPTIONS", "TRACE"] {
        assert_eq!(larder.ask(&format!("{method} /\nMax-Forwards: 3")).text(), "origin");
        assert_eq!(origin.last().field("max-forwards"), Some("2"), "{method}");
    }
    let before = origin.count();
    let options = larder.ask("OPTIONS /\nMax-Forwards: 0");
    assert_eq!((options.status, options.field("allow").is_some()), (204, true));
    assert_eq!(larder.ask("OPTIONS *").status, 204);
    assert_eq!(origin.count(), before);
    // Other methods ignore the field.
    assert_eq!(larder.ask("GET /\nMax-Forwards: 0").text(), "origin");
}

#[test]
fn rfc_9110_section_9_3_8_trace_shows_the_request_without_secrets() {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    let trace = larder.ask("TRACE /a\nMax-Forwards: 0\nA: b\nCookie: secret\nAuthorization: secret");
    assert_eq!((trace.status, trace.field("content-type")), (200, Some("message/http")));
    assert!(trace.text().starts_with("TRACE ") && trace.text().contains("a: b\r\n"));
    assert!(!trace.text().contains("secret"));
    assert_eq!(origin.count(), 0);
}
