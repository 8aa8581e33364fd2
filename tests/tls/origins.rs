//! Origins with TLS: the authority that signs them, their name, and the client certificate that they require.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use larder_testkit::{Larder, Origin, PATIENCE, Pair, Process, eventually, free};

use super::{Authority, LISTEN, TLS};

/// `openssl s_server`, which responds with a page about the connection.
struct Server {
    address: SocketAddr,
    _child: Process,
}

impl Server {
    /// Starts a server with the certificate `pair` that requires a client certificate signed by `wants`.
    fn new(pair: &Pair, wants: &Authority) -> Self {
        Self::with(pair, &["-CAfile", &wants.file(), "-Verify", "1", "-verify_return_error"])
    }

    /// Starts a server with the certificate `pair` and the options `words`.
    fn with(pair: &Pair, words: &[&str]) -> Self {
        let address = free();
        let mut command = Command::new("openssl");
        command.args(["s_server", "-quiet", "-www", "-accept", &address.to_string()]);
        command.arg("-cert").arg(&pair.cert).arg("-key").arg(&pair.key).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Process::start(&mut command).expect("openssl");
        child.listens(&[address], PATIENCE).expect("openssl");
        Self { address, _child: child }
    }
}

/// Starts a proxy for a site whose origin listens for TLS at `address`.
fn site(address: SocketAddr, keys: &str) -> Larder {
    Larder::start(&format!("[[site]]\norigin = 'https://{address}'\nretries = 0\n{keys}"))
}

fn client(pair: &Pair) -> String {
    format!("client_cert = '{}'\nclient_key = '{}'\n", pair.cert.display(), pair.key.display())
}

#[test]
fn an_origin_is_signed_by_the_sites_authority_and_has_its_name() {
    let (authority, page) = (Authority::new(), Origin::always("200 OK\nCache-Control: no-store\n\na page"));
    let pair = authority.pair("origin", &["origin.test"]);
    let origin = larder_testkit::site(&[&page], "");
    let origin = Larder::start(&format!("{LISTEN}{}{origin}", pair.table()));
    let ca = format!("ca = '{}'\n", authority.file());
    let named = format!("{ca}tls_name = 'origin.test'");
    let stranger = Authority::new();
    let other = format!("ca = '{}'\ntls_name = 'origin.test'", stranger.file());
    let address = origin.door(TLS);
    for (keys, expected) in [
        (named.as_str(), Some("a page")),
        // The name is the URL's address, or the authorities did not sign the certificate.
        (ca.as_str(), None),
        (other.as_str(), None),
        ("tls_name = 'origin.test'", None),
    ] {
        let response = site(address, keys).get("/");
        match expected {
            Some(text) => assert_eq!((response.status, response.text()), (200, text)),
            None => assert_eq!(response.status, 502, "{keys}: {response:?}"),
        }
    }
    // Health checks trust the same authorities.
    let watched = site(address, &format!("{named}\nhealth = '/'\nhealth_interval = '100ms'\nmax_fails = 1"));
    let before = page.count();
    eventually("two checks", || (page.count() >= before + 2).then_some(()));
    assert_eq!(watched.get("/").status, 200);
}

#[test]
fn an_origin_is_shown_the_sites_certificate() {
    let (authority, ours) = (Authority::new(), Authority::new());
    let server = Server::new(&authority.pair("origin", &["127.0.0.1"]), &ours);
    let ca = format!("ca = '{}'\n", authority.file());
    let shown = site(server.address, &format!("{ca}{}", client(&ours.pair("the cache", &["cache.test"]))));
    let response = shown.get("/");
    assert_eq!(response.status, 200);
    assert!(
        response.text().contains("CN=the cache") || response.text().contains("CN = the cache"),
        "{response:?}"
    );
    let stranger = client(&authority.pair("a stranger", &["cache.test"]));
    for keys in [ca.clone(), format!("{ca}{stranger}")] {
        assert_eq!(site(server.address, &keys).get("/").status, 502, "{keys}");
    }
}

#[test]
fn sessions_with_origins_are_resumed() {
    let authority = Authority::new();
    let pair = authority.pair("origin", &["127.0.0.1"]);
    let ca = format!("ca = '{}'\n", authority.file());
    for (word, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        // It closes each connection after its response.
        let server = Server::with(&pair, &[word]);
        let larder = site(server.address, &ca);
        let first = larder.get("/1").text().to_owned();
        assert!(first.contains(&format!("New, {version}")), "{first}");
        let second = larder.get("/2").text().to_owned();
        assert!(second.contains(&format!("Reused, {version}")), "{second}");
    }
}

#[test]
fn an_error_in_the_tls_keys_of_a_site_is_reported() {
    let authority = Authority::new();
    let (one, other) = (authority.pair("one", &["a.test"]), authority.pair("other", &["a.test"]));
    let mixed = format!("client_cert = '{}'\nclient_key = '{}'", one.cert.display(), other.key.display());
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("larder.toml");
    for (origin, keys, expected) in [
        (
            "https",
            "ca = '/nonexistent.pem'".to_owned(),
            "larder.toml:3: site.ca: /nonexistent.pem: no such file",
        ),
        (
            "https",
            "client_cert = '/nonexistent.pem'\nclient_key = '/a'".to_owned(),
            "larder.toml:3: site.client_cert: /nonexistent.pem: no such file",
        ),
        (
            "https",
            format!("client_cert = '{}'\nclient_key = '/a'", one.cert.display()),
            "larder.toml:4: site.client_key: /a: no such file",
        ),
        ("https", format!("ca = '{}'", one.key.display()), "no certificate in it"),
        ("https", format!("client_cert = '{}'", one.cert.display()), "add 'client_key'"),
        ("https", format!("client_key = '{}'", one.key.display()), "add 'client_cert'"),
        ("https", mixed, "is not the key of the certificate"),
        ("https", "tls_name = 'a b'".to_owned(), "tls_name"),
        ("http", format!("ca = '{}'", authority.file()), "this site has none"),
    ] {
        std::fs::write(&config, format!("[[site]]\norigin = '{origin}://a.test'\n{keys}\n"))
            .expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let output = command.args(["check", "--config"]).arg(&config).output().expect("larder");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(expected), "{keys}: {told}");
        assert!(told.contains("larder.toml:"), "{told}");
    }
}
