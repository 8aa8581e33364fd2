//! The PROXY protocol: the client's address, and refusals. The clients over TLS are curl, behind a proxy that forwards
//! bytes.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use larder_testkit::{Client, Larder, Origin, Pair, eventually, site};

use super::relay::pass_on;

const PAGE: &str = "200 OK\nCache-Control: max-age=60\n\na page";
const FROM_LOOPBACK: &str = "[reverse]\nlisten = '127.0.0.1:0'\nproxy_protocol = '127.0.0.1'\n";

/// Returns a header of version 1 with the address `client`.
fn line(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 198.51.100.1 1234 80\r\n").into_bytes()
}

/// Returns a header of version 2 with an additional TLV.
fn binary(client: [u8; 4]) -> Vec<u8> {
    let block = [&client[..], &[198, 51, 100, 1], &[4, 210, 0, 80], &[0x20, 0, 2, 7, 7]].concat();
    header(0x21, 0x11, &block)
}

fn header(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family, 0, block.len() as u8], block].concat()
}

/// Opens a connection that begins with `header`.
fn behind(address: SocketAddr, header: &[u8]) -> Client {
    let mut client = Client::to(address);
    client.raw(header);
    client
}

#[test]
fn the_client_that_a_header_names_counts_in_logs_rights_and_fields() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let origin = Origin::always(PAGE);
    let logging = format!("access_log = 'json'\naccess_log_file = '{}'\n", log.display());
    let keys = "purge_from = '192.0.2.1'\n";
    let larder = Larder::start(&format!("{logging}{FROM_LOOPBACK}{}", site(&[&origin], keys)));
    for (header, path) in [(line("192.0.2.1"), "/1"), (binary([192, 0, 2, 1]), "/2")] {
        let mut client = behind(larder.address(), &header);
        assert_eq!(client.ask(&format!("GET {path}")).text(), "a page");
        assert_eq!(origin.last().field("x-forwarded-for"), Some("192.0.2.1"));
        larder.settle();
        assert!(client.ask(&format!("GET {path}")).is_hit(), "the header is part of no request");
        assert_eq!(client.ask(&format!("PURGE {path}")).status, 200);
    }
    assert_eq!(behind(larder.address(), &line("192.0.2.2")).ask("PURGE /1").status, 403);
    eventually("seven lines with the client's address", || {
        let lines = fs::read_to_string(&log).unwrap();
        let of =
            |ip: &str| lines.lines().filter(|line| line.contains(&format!("\"client\":\"{ip}\""))).count();
        (of("192.0.2.1") == 6 && of("192.0.2.2") == 1).then_some(())
    });
}

#[test]
fn headers_that_name_no_client_keep_the_address_of_the_proxy() {
    let origin = Origin::always("200 OK\nCache-Control: no-store\n\na page");
    let larder = Larder::start(&format!("{FROM_LOOPBACK}{}", site(&[&origin], "")));
    let headers = [b"PROXY UNKNOWN\r\n".to_vec(), header(0x20, 0, &[]), header(0x21, 0, &[1, 2, 3])];
    for header in headers {
        assert_eq!(behind(larder.address(), &header).ask("GET /").text(), "a page");
        assert_eq!(origin.last().field("x-forwarded-for"), Some("127.0.0.1"));
    }
}

#[test]
fn a_header_from_another_network_is_a_bad_request() {
    let origin = Origin::always(PAGE);
    let larder = Larder::start(&format!("{FROM_LOOPBACK}{}", site(&[&origin], "")));
    let address = larder.address();
    for header in [line("192.0.2.1"), binary([192, 0, 2, 1])] {
        let mut client = Client::from(Ipv4Addr::new(127, 0, 0, 2), address);
        client.raw(&header);
        client.raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.receive("GET").status, 400);
    }
    let mut plain = Client::from(Ipv4Addr::new(127, 0, 0, 2), address);
    assert_eq!(plain.ask("GET /").text(), "a page");
    assert_eq!(origin.last().field("x-forwarded-for"), Some("127.0.0.2"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn connections_without_a_valid_proxy_header_are_closed_and_logged() {
    let origin = Origin::always(PAGE);
    let larder = Larder::start(&format!("{FROM_LOOPBACK}{}", site(&[&origin], "")));
    let mut client = Client::to(larder.address());
    client.send("GET /");
    assert!(client.is_closed());
    larder.wait_for_log("127.0.0.1 sent no PROXY header: the connection begins with other bytes");
    let mut client = behind(larder.address(), b"PROXY TCP4 localhost localhost 1 2\r\n");
    assert!(client.is_closed());
    larder.wait_for_log("its line is not 'PROXY TCP4'");
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_header_has_as_much_time_as_the_head_of_a_request() {
    let origin = Origin::always(PAGE);
    let tables = format!("{FROM_LOOPBACK}[timeouts]\nhead = '200ms'\n{}", site(&[&origin], ""));
    let larder = Larder::start(&tables);
    for begun in [&b""[..], b"PROXY TCP4 192.0.2"] {
        assert!(behind(larder.address(), begun).is_closed());
    }
}

#[test]
fn the_forward_proxy_serves_the_networks_of_the_clients_that_headers_name() {
    let origin = Origin::always(PAGE);
    let tables = "[forward]\nallow_private = true\nproxy_protocol = '127.0.0.1'\nclients = '192.0.2.0/24'\n";
    let larder = Larder::start(tables);
    let request = format!("GET {}/", origin.url());
    assert_eq!(behind(larder.forward, &line("192.0.2.1")).ask(&request).text(), "a page");
    let refused = behind(larder.forward, &line("198.51.100.9")).ask(&request);
    assert!(refused.status == 403 && refused.text().contains("198.51.100.9"), "{refused:?}");
}

#[test]
fn a_reload_changes_which_proxies_send_headers() {
    let origin = Origin::always(PAGE);
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\n";
    let larder = Larder::start(&format!("{listen}{}", site(&[&origin], "")));
    let ask = || behind(larder.address(), &line("192.0.2.1")).ask("GET /");
    assert_eq!(ask().status, 400);
    larder.reload(&format!("{FROM_LOOPBACK}{}", site(&[&origin], "")));
    eventually("headers to be accepted", || (ask().status == 200).then_some(()));
}

/// Starts a proxy in front that forwards bytes and sends `header` first on each connection; returns its address.
fn balancer(larder: SocketAddr, header: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || listener.incoming().flatten().for_each(|near| pass_on(near, larder, &header)));
    address
}

fn curl(words: &[&str], url: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--insecure", "--max-time", "60", "--noproxy", "*"]);
    let output = command.args(words).arg(url).output().expect("curl");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn headers_come_before_tls_and_before_http2() {
    let folder = tempfile::tempdir().unwrap();
    let origin =
        Origin::by(|seen| format!("200 OK\n\n{}", seen.field("x-forwarded-for").unwrap_or_default()));
    let pair = Pair::self_signed(folder.path(), "localhost");
    let listen =
        "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\nproxy_protocol = '127.0.0.1'\n";
    let larder = Larder::start(&format!("{listen}{}{}", pair.table(), site(&[&origin], "cache = false\n")));
    let version = ["--write-out", " %{http_version}"];
    for header in [line("192.0.2.1"), binary([192, 0, 2, 1])] {
        let plain = balancer(larder.address(), header.clone());
        let tls = balancer(larder.door("reverse, TLS"), header);
        let known = ["--http2-prior-knowledge", version[0], version[1]];
        assert_eq!(curl(&known, &format!("http://{plain}/")), "192.0.2.1 2");
        for (word, spoken) in [("--http2", "2"), ("--http1.1", "1.1")] {
            let words = [word, version[0], version[1]];
            assert_eq!(curl(&words, &format!("https://{tls}/")), format!("192.0.2.1 {spoken}"));
        }
    }
    // The header that curl itself sends has curl's address.
    let (plain, tls) = (larder.address(), larder.door("reverse, TLS"));
    for url in [format!("http://{plain}/"), format!("https://{tls}/")] {
        assert_eq!(curl(&["--haproxy-protocol"], &url), "127.0.0.1");
    }
}
