//! Requests over TLS, and the responses to them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use larder_testkit::{Answer, Client, Larder, Origin, eventually, file_with};
use rustix::process::Signal;
use rustls::StreamOwned;

use super::clients::{curl, s_client};
use super::{Authority, TLS, larder, wild};

const PAGE: &str = "200 OK\nCache-Control: max-age=60\n\na page";

#[test]
fn a_page_over_tls_is_stored_for_https_alone() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let larder = larder(&authority, &origin, "");
    for is_hit in [false, true] {
        let said = curl(&authority, larder.door(TLS), "site.test", "/a", &[]);
        assert!(said.ok && said.text().ends_with("a page"), "{}{}", said.text(), said.err);
        assert_eq!(said.has("; hit"), is_hit, "{}", said.text());
        larder.settle();
    }
    assert_eq!((origin.count(), origin.last().field("x-forwarded-proto")), (1, Some("https")));
    assert!(!larder.get("/a\nHost: site.test").is_hit(), "http is another origin");
    assert_eq!((origin.count(), origin.last().field("x-forwarded-proto")), (2, Some("http")));
}

#[test]
fn large_pages_arrive_whole_in_every_version_and_suite() {
    let page: Vec<u8> = (0..5_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let sent = page.clone();
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=60", &sent));
    let authority = Authority::new();
    let larder = larder(&authority, &origin, "");
    let suites = [
        ["--tlsv1.3", "--tls13-ciphers", "TLS_AES_128_GCM_SHA256"],
        ["--tlsv1.3", "--tls13-ciphers", "TLS_AES_256_GCM_SHA384"],
        ["--tlsv1.3", "--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"],
        ["--tls-max", "1.2", "--no-alpn"],
    ];
    let versions = ["--http1.1", "--http2"]
        .iter()
        .flat_map(|version| suites.map(|words| [&words[..], &[version]].concat()));
    for words in versions {
        let said = curl(&authority, larder.door(TLS), "site.test", "/large", &words);
        assert!(said.ok && said.out.ends_with(&page), "{words:?}: {} bytes {}", said.out.len(), said.err);
        larder.settle();
    }
    for suite in
        ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"]
    {
        let words = ["--tls-max", "1.2", "--ciphers", suite, "--range", "1000000-4999999"];
        let said = curl(&authority, larder.door(TLS), "site.test", "/large", &words);
        assert!(said.ok && said.out.ends_with(&page[1_000_000..]), "{suite}: {}", said.err);
        assert!(said.has("HTTP/2 206"), "{}", said.text());
    }
}

#[test]
fn clients_agree_on_http2_if_they_can() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let larder = larder(&authority, &origin, "");
    for (word, version) in
        [("--http2", "HTTP/2 200"), ("--http1.1", "HTTP/1.1 200"), ("--no-alpn", "HTTP/1.1 200")]
    {
        let said = curl(&authority, larder.door(TLS), "site.test", "/a", &[word]);
        assert!(
            said.ok && said.has(version) && said.text().ends_with("a page"),
            "{word}: {}{}",
            said.text(),
            said.err
        );
        larder.settle();
    }
    assert_eq!(origin.count(), 1, "both versions have one store");
}

#[test]
fn a_reload_decides_which_versions_new_clients_are_offered() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let config = super::config(&authority, &origin, "");
    let larder = Larder::start(&config);
    let agrees = |version: &str| {
        eventually(version, || {
            let said = curl(&authority, larder.door(TLS), "site.test", "/a", &["--http2"]);
            assert!(said.ok && said.text().ends_with("a page"), "{}{}", said.text(), said.err);
            said.has(version).then_some(())
        });
    };
    agrees("HTTP/2 200");
    larder.reload(&format!("limits.streams = 0\n{config}"));
    agrees("HTTP/1.1 200");
    larder.reload(&config);
    agrees("HTTP/2 200");
}

#[test]
fn content_goes_both_ways_on_one_connection() {
    let authority = Authority::new();
    let origin = Origin::by(|seen| format!("200 OK\n\n{} {}", seen.method, seen.body.len()));
    let larder = larder(&authority, &origin, "");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("upload");
    fs::write(&file, vec![b'x'; 3_000_000]).expect("written");
    let data = format!("@{}", file.display());
    for version in ["--http1.1", "--http2"] {
        let said = curl(&authority, larder.door(TLS), "site.test", "/up", &[version, "--data-binary", &data]);
        assert!(said.ok && said.text().ends_with("POST 3000000"), "{}{}", said.text(), said.err);
    }
    let request = "GET /1 HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(3)
        + "GET /2 HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    let said = s_client(&authority, larder.door(TLS), &["-quiet"], &request);
    assert_eq!(said.text().matches("GET 0").count(), 4, "{}{}", said.text(), said.err);
}

#[test]
fn requests_without_tls_are_redirected_where_a_site_requires_it() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let larder = larder(&authority, &origin, "https = 'redirect'");
    let port = larder.door(TLS).port();
    for _ in 0..2 {
        let response = larder.get("/a?b\nHost: site.test");
        assert_eq!(response.status, 301);
        assert_eq!(response.field("location"), Some(&*format!("https://site.test:{port}/a?b")));
        let over_tls = curl(&authority, larder.door(TLS), "site.test", "/a?b", &[]);
        assert!(over_tls.text().ends_with("a page"), "{}{}", over_tls.text(), over_tls.err);
        larder.settle();
    }
    assert_eq!(larder.ask("POST /a\nHost: site.test\nContent-Length: 0").status, 308);
    let mut old = larder.client();
    old.raw(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(old.receive("GET").status, 400, "there is no host to redirect to");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_redirect_to_https_keeps_signature_and_parameters() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let (_folder, keys) = file_with("keys", "0123456789abcdef\n");
    let keys = keys.display();
    for place in ["query", "path", "folder"] {
        let rules = format!(
            "https = 'redirect'\n[[site.rule]]\nsigned = {{ keys = '{keys}', in = '{place}' }}\nquery.drop = 'utm_*'"
        );
        let larder = larder(&authority, &origin, &rules);
        for path in [
            "/a?utm_source=b&expires=9&signature=310cd3491005a1b968b1110c8f6216b99e944df9686ac65b1693e83aedebb7e8",
            "/a/9/310cd3491005a1b968b1110c8f6216b99e944df9686ac65b1693e83aedebb7e8/b?utm_source=c",
        ] {
            let answer = larder.get(&format!("{path}\nHost: site.test"));
            let expected = format!("https://site.test:{}{path}", larder.door(TLS).port());
            assert_eq!((answer.status, answer.field("location")), (301, Some(&*expected)), "{place}");
        }
    }
}

#[test]
fn a_site_that_requires_tls_asks_no_password_without_tls() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let rule = "https = 'redirect'\npurge_from = '127.0.0.1'\n[[site.rule]]\nusers = '/dev/null'";
    let larder = larder(&authority, &origin, rule);
    for (request, status) in [("GET /", 301), ("OPTIONS /", 308), ("GET /\nAuthorization: Basic eDp5", 301)] {
        assert_eq!(larder.ask(&format!("{request}\nHost: site.test")).status, status, "{request}");
    }
    assert_eq!(larder.ask("PURGE /\nHost: site.test").status, 200);
    let over_tls = curl(&authority, larder.door(TLS), "site.test", "/", &["-i"]);
    assert!(over_tls.has(" 401"), "{}{}", over_tls.text(), over_tls.err);
    let why = larder.ask_admin("GET /why?url=http://site.test/").json();
    assert_eq!(
        (&why["decision"]["reason"], &why["decision"]["asks_origin"]),
        (&"only-https".into(), &false.into())
    );
}

#[test]
fn a_target_must_have_the_scheme_of_its_connection() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let larder = larder(&authority, &origin, "");
    let request = "GET http://site.test/a HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    let said = s_client(&authority, larder.door(TLS), &["-quiet"], request);
    assert!(said.has("HTTP/1.1 421"), "{}{}", said.text(), said.err);
    let said = s_client(&authority, larder.door(TLS), &["-quiet"], &request.replace("http://", "https://"));
    assert!(said.has("HTTP/1.1 200"), "{}{}", said.text(), said.err);
}

#[test]
fn a_client_in_clear_gets_an_explanation_and_others_are_served() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let larder = larder(&authority, &origin, "");
    let mut plain = TcpStream::connect(larder.door(TLS)).expect("it accepts");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n").expect("it reads");
    let mut told = String::new();
    // Unread bytes may end the connection with an error.
    let _ = plain.read_to_string(&mut told);
    assert!(told.starts_with("HTTP/1.1 400"), "{told}");
    // Half a message, noise, no bytes, and an invalid header.
    let mut rest = Vec::new();
    for bytes in [&b"\x16\x03\x01\x02\x00\x01"[..], &[0x80; 600], b"", b"\x16\x03\x01\xff\xff"] {
        let mut stream = TcpStream::connect(larder.door(TLS)).expect("it accepts");
        stream.write_all(bytes).expect("it reads");
        rest.push(stream);
    }
    let said = curl(&authority, larder.door(TLS), "site.test", "/a", &[]);
    assert!(said.ok && said.text().ends_with("a page"), "{}{}", said.text(), said.err);
}

#[test]
fn a_forward_proxy_is_reached_over_tls() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let pair = authority.pair("proxy", &["localhost"]);
    let larder = Larder::start(&format!(
        "[forward]\nlisten_tls = '127.0.0.1:0'\nallow_private = true\nconnect_ports = [{}]\n{}",
        origin.address.port(),
        pair.table()
    ));
    let proxy = format!("https://localhost:{}", larder.door("forward, TLS").port());
    for words in [&[][..], &["--proxytunnel"]] {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "none"]);
        command.args(["--proxy-cacert", &authority.file(), "--proxy", &proxy]).args(words);
        let output = command.arg(format!("http://{}/a", origin.address)).output().expect("curl");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a page", "{words:?}: {told}");
    }
}

#[test]
fn the_line_protocol_is_spoken_over_tls() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let pair = authority.pair("line", &["site.test"]);
    let larder = Larder::start(&format!(
        "[timeouts]\nidle = '300ms'\n[line]\nlisten = '127.0.0.1:0'\ntls = true\nform = 'bare'\n[forward]\n\
         allow_private = true\n{}",
        pair.table()
    ));
    let said = s_client(&authority, larder.door("line, TLS"), &["-quiet"], &format!("{}/a\n", origin.url()));
    assert!(said.text().ends_with("a page"), "{}{}", said.text(), said.err);
    assert!(!said.has("unexpected eof"), "it ended with close_notify: {}", said.err);
}

#[test]
fn other_protocols_go_through_tls() {
    let (authority, origin) = (
        Authority::new(),
        Origin::speaking(|peer| {
            peer.request();
            peer.send(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                   Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello",
            );
        }),
    );
    let larder = larder(&authority, &origin, "");
    let request = "GET /ws HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let said = s_client(&authority, larder.door(TLS), &["-quiet"], request);
    assert!(said.has("hello"), "{}{}", said.text(), said.err);
}

#[test]
fn handshakes_do_not_keep_a_process_from_stopping() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let pair = authority.pair("site", &["site.test"]);
    let site = larder_testkit::site(&[&origin], "");
    let limits = "[timeouts]\nhead = '1h'\ndrain = '1h'\n";
    let mut larder = Larder::start(&format!("{limits}{}{}{site}", super::LISTEN, pair.table()));
    let mut amid = TcpStream::connect(larder.door(TLS)).expect("a listener");
    amid.write_all(b"\x16").expect("it listens");
    larder.wait_for("connections", 1);
    larder.signal(Signal::TERM);
    assert_eq!(larder.ended().code(), Some(0));
}

#[test]
fn a_new_client_may_still_make_its_handshake_when_the_process_ends() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let mut larder = larder(&authority, &origin, "");
    let mut used = larder.client();
    used.ask("GET /");
    let stream = TcpStream::connect(larder.door(TLS)).expect("it listens");
    larder.wait_for("connections", 2);
    let mut client = StreamOwned::new(wild::client(&authority, wild::suites()[0]), stream);
    larder.signal(Signal::TERM);
    // From here on the process ends.
    assert!(used.is_closed());
    client.write_all(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("close_notify at the end");
    assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("a page"), "{answer}");
    assert!(larder.ended().success());
}

#[test]
fn a_connection_that_waits_too_long_ends_with_a_word() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let pair = authority.pair("site", &["site.test"]);
    let site = larder_testkit::site(&[&origin], "");
    let larder =
        Larder::start(&format!("[timeouts]\nidle = '300ms'\n{}{}{site}", super::LISTEN, pair.table()));
    let said =
        s_client(&authority, larder.door(TLS), &["-quiet"], "GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n");
    assert!(said.ok && said.text().ends_with("a page"), "{}{}", said.text(), said.err);
    assert!(!said.has("unexpected eof"), "it ended with close_notify: {}", said.err);
    eventually("no connection", || (larder.stat("connections") == 0).then_some(()));
    drop(Client::to(larder.address()));
}
