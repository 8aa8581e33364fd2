//! Parent proxies: requests in the form for proxies, tunnels, credentials, and what happens while none answers.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use larder_testkit::{Answer, Authority, Client, Larder, Origin, Response, eventually, free, site};
use rustix::net::sockopt::set_socket_linger;

use super::relay::{pass_on, socks_to};

/// Returns a name that no name server is asked for: it has a label of 64 letters.
fn nowhere() -> String {
    format!("{}.test", "a".repeat(64))
}

/// Returns the reason for an answer without an origin.
fn why(answer: &Response) -> Option<&str> {
    answer.field("cache-status")?.split_once("detail=").map(|(_, reason)| reason)
}

/// Answers for any origin with the URL and the credential that it was sent.
fn parent() -> Origin {
    Origin::by(|seen| {
        let credential = seen.field("proxy-authorization").unwrap_or("none");
        format!("200 OK\nCache-Control: max-age=100\n\n{} {credential}", seen.target)
    })
}

/// Opens tunnels for all, to `address`.
fn tunnels_to(address: SocketAddr) -> Origin {
    Origin::speaking(move |peer| {
        let asked = peer.request().expect("a request");
        assert_eq!((asked.method.as_str(), asked.field("host")), ("CONNECT", Some(asked.target.as_str())));
        peer.send(b"HTTP/1.1 200 Opened\r\nVia: 1.1 parent\r\n\r\n");
        let near = peer.stream.get_ref().try_clone().expect("a descriptor");
        // The test's connections end with it.
        pass_on(near, address, peer.stream.buffer());
        std::thread::park();
    })
}

#[test]
fn a_parent_of_socks_opens_tunnels_for_http_too() {
    let page = Origin::always("200 OK\n\na page");
    let ask = |user: &str, parent: &Origin| {
        let larder = Larder::start(&format!(
            "[parent]\nhttp = 'socks5h://{user}{}'\n[[site]]\norigin = 'http://far.test'",
            parent.address
        ));
        larder.get("/a")
    };
    assert_eq!(ask("me:a%3Ab@", &socks_to(("far.test", 80), page.address)).text(), "a page");
    assert_eq!((page.last().target.as_str(), page.last().field("host")), ("/a", Some("site.test")));
    let refusing = Origin::speaking(|peer| {
        peer.stream.read_exact(&mut [0; 3]).expect("a message");
        peer.send(b"\x05\xff");
    });
    let refused = ask("", &refusing);
    assert_eq!((refused.status, why(&refused)), (502, Some("parent-refused")));
}

#[test]
fn a_request_for_http_reaches_the_parent_with_the_whole_url() {
    let parent = parent();
    let keys = format!("[parent]\nhttp = 'http://me:a%3Ab@{}'\n", parent.address);
    let larder = Larder::start(&format!("{keys}[[site]]\norigin = 'http://o.test:81'"));
    let forward =
        || Client::to(larder.forward).ask("GET http://far.test/a?b\nProxy-Authorization: Basic eDp5");
    assert_eq!(forward().text(), "http://far.test/a?b Basic bWU6YTpi");
    larder.settle();
    assert!(forward().is_hit());
    assert_eq!(larder.get("/c").text(), "http://o.test:81/c Basic bWU6YTpi");
    assert_eq!(parent.last().field("host"), Some("o.test:81"));
}

#[test]
fn https_origins_and_tunnels_are_reached_through_the_parents_tunnel() {
    let (authority, page) =
        (Authority::new(), Origin::always("200 OK\nCache-Control: max-age=100\n\na page"));
    let pair = authority.pair("far.test", &["far.test"]);
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let far = Larder::start(&format!("{listen}{}{}", pair.table(), site(&[&page], "")));
    let parent = tunnels_to(far.door("reverse, TLS"));
    let keys = format!("[parent]\nhttp = '{}'\n", parent.url());
    let site = format!("[[site]]\norigin = 'https://far.test'\nhost = 'origin'\nca = '{}'", authority.file());
    let larder = Larder::start(&format!("{keys}{site}"));
    assert_eq!(larder.get("/").text(), "a page");
    assert_eq!(parent.last().target, "far.test:443");
    let plain = tunnels_to(far.address());
    let larder = Larder::start(&format!("[parent]\nhttps = '{}'", plain.url()));
    let mut tunnel = Client::to(larder.forward);
    assert_eq!(tunnel.ask("CONNECT far.test:443\nHost: far.test:443").status, 200);
    assert_eq!(tunnel.ask("GET /").text(), "a page");
}

#[test]
fn a_parent_over_tls_forwards_requests_and_opens_tunnels() {
    let (authority, page) =
        (Authority::new(), Origin::always("200 OK\nCache-Control: max-age=100\n\na page"));
    let pair = authority.pair("both", &["far.test", "localhost"]);
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let far = Larder::start(&format!("{listen}{}{}", pair.table(), site(&[&page], "")));
    let (http, https) = (parent(), tunnels_to(far.door("reverse, TLS")));
    let onwards = format!("[parent]\nhttp = '{}'\nhttps = '{}'\n", http.url(), https.url());
    let secured = Larder::start(&format!("[forward]\nlisten_tls = '127.0.0.1:0'\n{onwards}{}", pair.table()));
    let url = format!("https://localhost:{}", secured.door("forward, TLS").port());
    let site = format!("[[site]]\norigin = 'https://far.test'\nhost = 'origin'\nca = '{}'", authority.file());
    let config = format!("[parent]\nhttp = '{url}'\n{site}");
    let trusting = Larder::start_in(&config, &[("SSL_CERT_FILE", Path::new(&authority.file()))]);
    assert_eq!(trusting.get("/").text(), "a page");
    assert_eq!(https.last().target, "far.test:443");
    let forwarded = Client::to(trusting.forward).ask("GET http://near.test/a");
    assert_eq!(forwarded.text(), "http://near.test/a none");
    let distrusting = Larder::start(&config);
    assert_eq!(why(&distrusting.get("/")), Some("parent-unreachable"));
}

#[test]
fn a_tunnel_through_a_parent_over_tls_ends_with_its_client() {
    let silent = Origin::speaking(|peer| {
        peer.request().expect("a request");
        peer.send(b"HTTP/1.1 200 Opened\r\n\r\n");
        std::thread::park();
    });
    let authority = Authority::new();
    let pair = authority.pair("both", &["localhost"]);
    let onwards = format!("[parent]\nhttp = '{}'\n", silent.url());
    let secured = Larder::start(&format!("[forward]\nlisten_tls = '127.0.0.1:0'\n{onwards}{}", pair.table()));
    let config = format!("[parent]\nhttp = 'https://localhost:{}'", secured.door("forward, TLS").port());
    let larder = Larder::start_in(&config, &[("SSL_CERT_FILE", Path::new(&authority.file()))]);
    let files = || fs::read_dir(format!("/proc/{}/fd", larder.id())).expect("a process").count();
    let before = files();
    for _ in 0..40 {
        let mut client = Client::to(larder.forward);
        assert_eq!(client.ask("CONNECT far.test:443\nHost: far.test:443").status, 200);
        // With a linger time of zero, the close resets the connection.
        set_socket_linger(&client.stream, Some(Duration::ZERO)).expect("a socket");
    }
    eventually("the ends of the tunnels", || (files() < before + 40).then_some(()));
}

#[test]
fn while_a_parent_is_down_another_way_is_used() {
    let (parent, down) = (parent(), format!("http://{}", free()));
    let both = format!("http = ['{down}', '{}']", parent.url());
    let direct = format!("http = '{down}'\nfallback = 'direct'");
    let excepted = format!("http = '{}'\nno_proxy = 'test'", parent.url());
    for (keys, status, reason) in [
        (both, 200, None),
        (format!("http = '{down}'"), 502, Some("parent-unreachable")),
        // Without a parent, the name is resolved here, and has no address.
        (direct, 502, Some("origin-unresolved")),
        (excepted, 502, Some("origin-unresolved")),
    ] {
        let larder = Larder::start(&format!("[parent]\n{keys}"));
        let answer = Client::to(larder.forward).ask(&format!("GET http://{}/", nowhere()));
        assert_eq!((answer.status, why(&answer)), (status, reason), "{keys}");
    }
}

#[test]
fn a_site_may_have_its_own_parent_or_none() {
    let parent = parent();
    let site = |host: &str, own: &str| {
        format!("[[site]]\nhosts = '{host}'\norigin = 'http://{}'\nparent = {own}\n", nowhere())
    };
    let sites = [site("own.test", &format!("'{}'", parent.url())), site("none.test", "[]")].concat();
    let larder = Larder::start(&format!("[parent]\nhttp = 'http://{}'\n{sites}", free()));
    assert_eq!(larder.ask("GET /a\nHost: own.test").status, 200);
    assert_eq!(why(&larder.ask("GET /a\nHost: none.test")), Some("origin-unresolved"));
}

#[test]
fn parents_of_the_environment_are_used_if_the_config_says_so() {
    let parent = parent();
    let url = parent.url();
    let variables = [("HTTP_PROXY", Path::new(&url)), ("NO_PROXY", Path::new("other.test, 10.0.0.0/8"))];
    let larder = Larder::start_in("[parent]\nfrom_env = true", &variables);
    let mut client = Client::to(larder.forward);
    assert_eq!(client.ask("GET http://far.test/").text(), "http://far.test/ none");
    let direct = client.ask(&format!("GET http://{}.other.test/", "a".repeat(64)));
    assert_eq!(why(&direct), Some("origin-unresolved"));
    let without = Larder::start_in("", &variables);
    let direct = Client::to(without.forward).ask(&format!("GET http://{}/", nowhere()));
    assert_eq!(why(&direct), Some("origin-unresolved"));
}

#[test]
fn a_tunnel_that_comes_back_to_this_proxy_is_refused() {
    let parent = Origin::always("502 Bad Gateway\n\n");
    let larder = Larder::start(&format!("[parent]\nhttp = '{}'", parent.url()));
    let ask = |via: &str| {
        let asked = format!("CONNECT far.test:443\nHost: far.test:443\nVia: {via}");
        Client::to(larder.forward).ask(&asked).status
    };
    assert_eq!(ask("1.1 other"), 502);
    let via = parent.last().field("via").expect("the passes").to_owned();
    assert!(via.starts_with("1.1 other, 1.1 Larder ("), "{via}");
    assert_eq!((ask(&via), parent.count()), (508, 1));
}

#[test]
fn a_parent_may_send_few_interim_responses() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    for (count, status) in [(32, 200), (33, 502)] {
        let answer = interim.repeat(count) + "HTTP/1.1 200 Opened\r\n\r\n";
        let parent = Origin::answering(move |_| Answer::raw(answer.clone()));
        let larder = Larder::start(&format!("[parent]\nhttp = '{}'", parent.url()));
        let opened = Client::to(larder.forward).ask("CONNECT far.test:443\nHost: far.test:443");
        assert_eq!(opened.status, status, "{count}");
    }
}

#[test]
fn addresses_of_private_networks_are_refused_before_a_parent_is_asked() {
    let parent = parent();
    let larder = Larder::start(&format!("[parent]\nhttp = '{}'", parent.url()));
    for host in ["169.254.169.254", "127.0.0.1:9", "localhost:9", "[fd00::1]"] {
        assert_eq!(Client::to(larder.forward).ask(&format!("GET http://{host}/")).status, 403, "{host}");
    }
    assert_eq!(parent.count(), 0);
}
