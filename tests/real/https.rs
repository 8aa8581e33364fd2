//! Origins with TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use larder_testkit::{Client, Larder};

use super::servers::Server;

const PAGE: &str = "a page that was encrypted once";

/// Starts nginx with one page.
fn origin(folder: &tempfile::TempDir) -> Server {
    fs::write(folder.path().join("page"), PAGE).expect("written");
    Server::nginx_with_tls(folder.path())
}

#[test]
fn an_https_origin_is_asked_once_by_a_larder_that_trusts_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = origin(&folder);
    let site = format!("[[site]]\norigin = 'https://localhost:{}'\nhost = 'origin'", origin.port());
    let larder = Larder::start_in(&site, &[("SSL_CERT_FILE", &origin.certificate())]);
    for is_hit in [false, true] {
        let response = larder.get("/page");
        assert_eq!((response.status, response.text(), response.is_hit()), (200, PAGE, is_hit));
    }
}

#[test]
fn a_forward_client_may_leave_tls_to_the_proxy() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = origin(&folder);
    let larder =
        Larder::start_in("[forward]\nallow_private = true", &[("SSL_CERT_FILE", &origin.certificate())]);
    let request = format!("GET https://localhost:{}/page", origin.port());
    for is_hit in [false, true] {
        let response = Client::to(larder.forward).ask(&request);
        assert_eq!((response.status, response.text(), response.is_hit()), (200, PAGE, is_hit));
        larder.settle();
    }
}

#[test]
fn doors_fetch_what_is_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = origin(&folder);
    let config = "[line]\nlisten = '127.0.0.1:0'\n[forward]\nallow_private = true";
    let larder = Larder::start_in(config, &[("SSL_CERT_FILE", &origin.certificate())]);
    for hits in 0..2 {
        let mut client = TcpStream::connect(larder.door("line")).expect("it accepts");
        writeln!(client, "https://localhost:{}/page", origin.port()).expect("it reads");
        client.shutdown(Shutdown::Write).expect("still connected");
        let mut page = String::new();
        client.read_to_string(&mut page).expect("text");
        assert_eq!(page, format!("+{}\n{PAGE}.\n", PAGE.len()));
        larder.settle();
        assert_eq!(larder.stat("hits"), hits);
    }
}

#[test]
fn an_origin_without_a_valid_certificate_gets_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = origin(&folder);
    let stranger = Larder::start(&format!("[[site]]\norigin = 'https://localhost:{}'", origin.port()));
    let trusting = |host: &str| {
        let site = format!("[[site]]\norigin = 'https://{host}:{}'", origin.port());
        Larder::start_in(&site, &[("SSL_CERT_FILE", &origin.certificate())])
    };
    for larder in [stranger, trusting("127.0.0.1")] {
        let response = larder.get("/page");
        assert_eq!(response.status, 502);
        assert!(response.cache().contains("origin-"), "{}", response.cache());
    }
}

#[test]
fn a_collector_may_speak_tls() {
    use larder_testkit::eventually;
    let folder = tempfile::tempdir().expect("a folder");
    let collector = origin(&folder);
    let config = format!(
        "[forward]\nallow_private = true\n[trace]\nendpoint = 'https://localhost:{}'",
        collector.port()
    );
    let became = |larder: &Larder, fate: &str| {
        Client::to(larder.forward).ask(&format!("GET https://localhost:{}/page", collector.port()));
        eventually(fate, || (larder.stats()["traces"][fate].as_u64()? >= 1).then_some(()));
    };
    let larder = Larder::start_in(&config, &[("SSL_CERT_FILE", &collector.certificate())]);
    became(&larder, "sent");
    assert_eq!(larder.stats()["traces"]["dropped"], 0);
    // A proxy that does not trust the collector's certificate sends no spans.
    let stranger = Larder::start(&config);
    became(&stranger, "dropped");
    assert_eq!(stranger.stats()["traces"]["sent"], 0);
}
