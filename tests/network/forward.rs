//! The forward proxy: its clients can reach any origin, tunnels, and the addresses that it must not reach (RFC 9110
//! sections 7.3 and 9.3.6).

use std::time::Duration;

use larder_testkit::{Client, Larder, Origin, free};

const OPEN: &str = "[forward]\nallow_private = true";

fn body() -> Origin {
    Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.target))
}

#[test]
fn rfc_9112_section_3_2_2_the_absolute_form_names_the_origin() {
    let origin = body();
    let larder = Larder::start(OPEN);
    let mut client = Client::to(larder.forward);
    for hit in [false, true] {
        // The target takes precedence over `Host`.
        let response = client.ask(&format!("GET {}/a?b\nHost: other.test", origin.url()));
        larder.settle();
        assert_eq!((response.text(), response.is_hit()), ("/a?b", hit));
    }
    let seen = origin.last();
    assert_eq!(
        (seen.target.as_str(), seen.field("host")),
        ("/a?b", Some(origin.address.to_string().as_str()))
    );
    assert_eq!(origin.count(), 1);
    let empty = client.ask(&format!("GET {}", origin.url()));
    assert_eq!(empty.text(), "/");
}

/// RFC 9112 section 3.2.4.
#[test]
fn options_without_a_path_concern_the_whole_origin() {
    let origin = body();
    let larder = Larder::start(OPEN);
    let mut client = Client::to(larder.forward);
    for (path, expected) in [("", "*"), ("/", "/"), ("?a", "/?a")] {
        let answer = client.ask(&format!("OPTIONS {}{path}", origin.url()));
        assert_eq!(answer.text(), expected, "{path}");
    }
}

#[test]
fn rfc_9112_section_9_3_connections_of_http_1_0_clients_end() {
    let origin = body();
    let larder = Larder::start(OPEN);
    // The second is a hit.
    for fields in ["Connection: keep-alive", "Proxy-Connection: keep-alive"] {
        let mut client = Client::to(larder.forward);
        let response = client.ask(&format!("GET {}/a HTTP/1.0\n{fields}", origin.url()));
        assert_eq!((response.text(), response.field("connection")), ("/a", Some("close")), "{fields}");
        assert!(client.is_closed(), "{fields}");
        larder.settle();
    }
}

#[test]
fn origins_learn_a_forward_clients_address_only_if_configured() {
    let told = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];
    let by_option =
        [("", [None; 4]), ("client_address = 'forwarded'", [None, None, None, Some("for=127.0.0.1")])];
    for (option, expected) in by_option {
        let origin = body();
        let larder = Larder::start(&format!("{OPEN}\n{option}"));
        let url = origin.url();
        let mut client = Client::to(larder.forward);
        client.ask(&format!(
            "GET {url}/\nX-Forwarded-For: 192.0.2.1\nX-Real-IP: 192.0.2.1\nForwarded: for=192.0.2.1"
        ));
        let seen = origin.last();
        let first = |name: &str| seen.field(name).and_then(|value| value.split(';').next());
        assert_eq!(told.map(first), expected, "{option}");
        assert!(
            seen.fields.iter().all(|(_, value)| !value.contains("192.0.2.1")),
            "what the client writes itself"
        );
    }
}

#[test]
fn clients_get_a_script_that_names_the_proxy_as_they_reach_it() {
    let larder = Larder::start("[forward]\npac_direct = 'intranet.test'");
    let mut client = Client::to(larder.forward);
    for path in ["/proxy.pac", "/wpad.dat"] {
        let script = client.ask(&format!("GET {path}\nHost: larder.test:3128"));
        assert_eq!(script.field("content-type"), Some("application/x-ns-proxy-autoconfig"));
        assert!(script.text().contains("return \"PROXY larder.test:3128\";"), "{}", script.text());
        assert!(script.text().contains("dnsDomainIs(host, \".intranet.test\")"));
    }
    // The host would become a part of the script.
    for refused in ["GET /proxy.pac\nHost: a'+b", "GET /other\nHost: larder.test:3128"] {
        assert_eq!(Client::to(larder.forward).ask(refused).status, 400, "{refused}");
    }
    let off = Larder::start("[forward]\npac = false");
    assert_eq!(Client::to(off.forward).ask("GET /proxy.pac\nHost: a").status, 400);
}

#[test]
fn names_that_differ_in_case_only_are_one_origin() {
    let origin = body();
    let larder = Larder::start(OPEN);
    let mut client = Client::to(larder.forward);
    let port = origin.address.port();
    client.ask(&format!("GET http://localhost:{port}/"));
    larder.settle();
    assert!(client.ask(&format!("GET HTTP://LocalHost:{port}/")).is_hit());
}

#[test]
fn forward_proxy_entries_do_not_answer_for_a_reverse_site() {
    let origin = body();
    let larder = Larder::with(&origin, OPEN);
    let forward = || {
        let response = Client::to(larder.forward).ask(&format!("GET {}/a", origin.url()));
        larder.settle();
        response
    };
    let reverse = || larder.ask(&format!("GET /a\nHost: {}", origin.address));
    for hit in [false, true] {
        for response in [forward(), reverse()] {
            assert_eq!((response.text(), response.is_hit()), ("/a", hit));
        }
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn rfc_9110_section_9_3_6_a_tunnel_carries_bytes_both_ways() {
    let echo = Origin::speaking(|peer| {
        while let Some(byte) = peer.exactly(1) {
            peer.send(&byte.to_ascii_uppercase());
        }
    });
    let port = echo.address.port();
    let larder = Larder::start(&format!("{OPEN}\nconnect_ports = [{port}]"));
    let mut client = Client::to(larder.forward);
    // Bytes that immediately follow the head belong to the tunnel.
    client
        .raw(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\nearly").as_bytes());
    let opened = client.receive("CONNECT");
    assert_eq!((opened.field("content-length"), opened.field("transfer-encoding")), (None, None));
    assert_eq!(client.exactly(5), b"EARLY");
    client.raw(b"later\r\n\r\n");
    assert_eq!(client.exactly(9), b"LATER\r\n\r\n");
    client.raw(&[b'x'; 5_000]);
    assert_eq!(client.exactly(5_000), [b'X'; 5_000]);
    client.finish();
    assert!(client.is_closed());
    larder.wait_for("requests", 1);
    assert!(larder.stat("bytes_served") > 5_000, "what the tunnel carried counts");
}

/// RFC 9110 section 9.3.6.
#[test]
fn a_connect_with_content_opens_no_tunnel() {
    let origin = body();
    let (target, port) = (origin.address, origin.address.port());
    let larder = Larder::start(&format!("{OPEN}\nconnect_ports = [{port}]"));
    for (content, status) in
        [("Content-Length: 5\n\nbytes", 400), ("Transfer-Encoding: chunked\n\n0\r\n\r\n", 400), ("X: -", 200)]
    {
        let answer = Client::to(larder.forward).ask(&format!("CONNECT {target}\nHost: {target}\n{content}"));
        assert_eq!(answer.status, status, "{content}");
    }
}

#[test]
fn a_tunnel_is_closed_when_it_falls_silent_and_not_before() {
    let echo = Origin::speaking(|peer| {
        while let Some(byte) = peer.exactly(1) {
            peer.send(&byte);
        }
    });
    let port = echo.address.port();
    let larder = Larder::start(&format!("{OPEN}\nconnect_ports = [{port}]\n[timeouts]\ntunnel = '3s'"));
    let mut client = Client::to(larder.forward);
    assert_eq!(client.ask(&format!("CONNECT 127.0.0.1:{port}\nHost: 127.0.0.1:{port}")).status, 200);
    // Longer than the limit in total, with pauses that leave a busy machine some time.
    for _ in 0..7 {
        std::thread::sleep(Duration::from_millis(500));
        client.raw(b"a");
        assert_eq!(client.exactly(1), b"a");
    }
    assert!(client.is_closed());
}

#[test]
fn rfc_9110_section_9_3_6_a_failed_tunnel_is_explained() {
    let port = free().port();
    let larder = Larder::start(&format!("{OPEN}\nconnect_ports = [443, {port}]"));
    let connect = |target: &str| Client::to(larder.forward).ask(&format!("CONNECT {target}\nHost: {target}"));
    let refused = connect("127.0.0.1:25");
    assert_eq!(refused.status, 403);
    let text = format!("403: tunnels to port 25 are not allowed; connect_ports: 443, {port}\n");
    assert_eq!(refused.text(), text);
    assert_eq!(connect(&format!("127.0.0.1:{port}")).status, 502);
    for target in ["127.0.0.1", "/", "127.0.0.1:x", "http://a:443"] {
        assert_eq!(connect(target).status, 400, "{target}");
    }
}

#[test]
fn addresses_that_are_not_public_are_refused_by_default() {
    let origin = body();
    let port = origin.address.port();
    let larder = Larder::start(&format!("[forward]\nconnect_ports = [{port}]"));
    for host in [
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "[fe80::1]",
        "[fd00::1]",
    ] {
        for request in [format!("GET http://{host}:{port}/"), format!("CONNECT {host}:{port}")] {
            let response = Client::to(larder.forward).ask(&format!("{request}\nHost: {host}:{port}"));
            assert_eq!(response.status, 403, "{request}");
            assert_eq!(response.text(), "403: the origin's address is not allowed\n");
            assert!(response.cache().ends_with("detail=origin-forbidden"), "{response:?}");
        }
    }
    larder.settle();
    let stats = larder.stats();
    assert_eq!((&stats["refused"], &stats["errors"]), (&stats["requests"], &0.into()), "{stats}");
    // Numeric spellings of addresses are not valid hosts.
    for host in ["2130706433", "0x7f.1"] {
        for request in [format!("GET http://{host}:{port}/"), format!("CONNECT {host}:{port}")] {
            let response = Client::to(larder.forward).ask(&format!("{request}\nHost: {host}:{port}"));
            assert_eq!(response.status, 400, "{request}");
        }
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn the_guard_is_for_clients_of_the_forward_proxy_only() {
    let origin = body();
    let larder = Larder::before(&origin);
    assert_eq!(larder.get("/a").text(), "/a");
    let forward = Client::to(larder.forward).ask(&format!("GET {}/a", origin.url()));
    assert_eq!(forward.status, 403);
}

#[test]
fn a_request_to_it_as_a_web_server_gets_an_explanation() {
    let larder = Larder::start("");
    let mut client = Client::to(larder.forward);
    let response = client.ask("GET /index.html");
    assert_eq!(response.status, 400);
    assert!(response.text().contains("this is a forward proxy"), "{response:?}");
    assert!(response.text().contains("curl -x "), "{response:?}");
}

#[test]
fn credentials_for_the_proxy_stay_with_it() {
    let origin = body();
    let larder = Larder::start(OPEN);
    let request =
        format!("GET {}/\nProxy-Authorization: Basic eA==\nAuthorization: Basic eQ==", origin.url());
    Client::to(larder.forward).ask(&request);
    let seen = origin.last();
    assert_eq!(seen.field("proxy-authorization"), None);
    assert_eq!(seen.field("authorization"), Some("Basic eQ=="));
}
