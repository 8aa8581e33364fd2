//! The addresses of clients behind proxies in `trust`.

use std::net::TcpListener;

use larder_testkit::{Larder, Origin, eventually, file_with, site};

/// Starts a proxy before `origin` that serves clients in 192.0.2.0/24 only.
fn closed(origin: &Origin, top: &str) -> Larder {
    Larder::start(&format!("{top}\n{}", site(&[origin], "[[site.rule]]\nallow = '192.0.2.0/24'\n")))
}

#[test]
fn a_field_of_a_trusted_proxy_names_the_client() {
    let origin = Origin::always("200 OK\n\nx");
    let fields = "CF-Connecting-IP: 192.0.2.1\nX-Forwarded-For: 198.51.100.9";
    for (top, status) in [
        ("trust = '127.0.0.1'\nreal_ip = 'CF-Connecting-IP'", 200),
        ("trust = '127.0.0.1'\nreal_ip = 'True-Client-IP'", 403),
        ("trust = '10.0.0.0/8'\nreal_ip = 'CF-Connecting-IP'", 403),
    ] {
        let larder = closed(&origin, top);
        assert_eq!(larder.ask(&format!("GET /\n{fields}")).status, status, "{top}");
    }
    let seen = origin.last();
    assert_eq!(
        ["x-forwarded-for", "cf-connecting-ip"].map(|name| seen.field(name)),
        [Some("192.0.2.1"), None]
    );
}

#[test]
fn trusted_networks_are_read_from_a_file_again_when_it_changes() {
    let origin = Origin::always("200 OK\n\nx");
    let (_folder, file) = file_with("proxies", "10.0.0.0/8 # none of ours\n");
    let larder = closed(&origin, &format!("trust = '@{}'", file.display()));
    let status = || larder.ask("GET /\nX-Forwarded-For: 192.0.2.1").status;
    assert_eq!(status(), 403);
    std::fs::write(&file, "10.0.0.0/8\n127.0.0.0/8\n").expect("written");
    eventually("the file to be read", || (status() == 200).then_some(()));
}

#[test]
fn clients_of_ipv4_keep_their_address_on_a_socket_of_ipv6() {
    // The system may be without IPv6, or keep IPv4 off its sockets.
    if TcpListener::bind("[::ffff:127.0.0.1]:0").is_err() {
        return;
    }
    let origin = Origin::always("200 OK\n\nx");
    let larder =
        Larder::start(&format!("[reverse]\nlisten = '[::ffff:127.0.0.1]:0'\n{}", site(&[&origin], "")));
    assert_eq!(larder.get("/").status, 200);
    assert_eq!(origin.last().field("x-forwarded-for"), Some("127.0.0.1"));
}
