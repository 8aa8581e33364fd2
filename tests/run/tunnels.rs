//! What is not intercepted, and what an origin's bad certificate leads to.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;

use larder_testkit::{Authority, Larder, Pair, not_tested, output, programs, site, stderr, stdout};

use crate::{Registry, User, origin};

/// Returns the reason of the tunnels to `localhost` in a report.
fn reason(run: &crate::Run) -> &str {
    run.report["unseen"]["localhost"]["reason"].as_str().unwrap_or_default()
}

#[test]
fn other_hosts_have_tunnels_that_are_told() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let run = user.run(&[], &["curl", "-sS", &format!("{}/a", registry.url())]).succeeded();
    assert_eq!((run.said().as_str(), reason(&run)), ("/a", "method"));
    assert!(
        run.told().contains("larder: passed unseen: localhost (1 tunnel); --host adds a host"),
        "{}",
        run.told()
    );
}

#[test]
fn stored_responses_of_a_known_host_need_no_connection_to_it() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let (url, port) = (registry.at("/a"), registry.port());
    let fetch = || user.run(&["--host", "localhost"], &["curl", "-sS", "--max-time", "9", &url]).succeeded();
    assert_eq!(fetch().said(), "/a");
    let Registry { authority: _trusted, front, .. } = registry;
    drop(front);
    // It never answers.
    let silent = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    silent.set_nonblocking(true).expect("a socket");
    assert_eq!(fetch().said(), "/a");
    assert_eq!(silent.accept().expect_err("no connection").kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_host_with_a_final_dot_is_the_same_host() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let absolute = registry.at("/a").replace("localhost", "localhost.");
    for (url, hits) in [(absolute, 0), (registry.at("/a"), 1)] {
        let run = user.run(&["--host", "localhost"], &["curl", "-sS", &url]).succeeded();
        assert_eq!((run.said().as_str(), run.number("hits")), ("/a", hits), "{}", run.told());
    }
}

#[test]
fn a_client_without_trust_gets_a_tunnel_the_next_time() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let pinned = format!("curl -sS --cacert {} {}/a", registry.authority.file(), registry.url());
    let script = format!("{pinned} || {pinned}");
    let run = user.run(&["--host", "localhost"], &["sh", "-c", &script]).succeeded();
    assert_eq!((run.said().as_str(), reason(&run)), ("/a", "tunnel-distrusted"), "{}", run.told());
}

#[test]
fn a_client_that_leaves_after_the_handshake_gets_a_tunnel_next() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let (url, roots) = (registry.at("/a"), registry.authority.file());
    let address = format!("localhost:{}", registry.port());
    user.directly(&format!(
        "openssl s_client -connect {address} </dev/null 2>&1 | openssl x509 -pubkey -noout > pin"
    ));
    let pinned = format!("curl -sS --pinnedpubkey pin {url}");
    // With GnuTLS, it looks at the certificate after the handshake.
    let other = format!("wget -q -O - --ca-certificate {roots} {url}");
    let is_gnutls = programs::find("wget").is_some()
        && output(Command::new("wget").arg("--version")).contains("ssl/gnutls");
    if !is_gnutls {
        not_tested("wget with GnuTLS");
    }
    for client in [Some(&pinned), Some(&other).filter(|_| is_gnutls)].into_iter().flatten() {
        // The proxy sees a moment later that the first has left.
        let told = "127.0.0.1 does not trust the authority for localhost:";
        let script = format!("{client} || {{ until grep -q '{told}' told; do sleep 0.01; done; {client}; }}");
        let mut run = user.command(&["--host", "localhost"], &["timeout", "60", "sh", "-c", &script]);
        let run = run.stderr(File::create(user.home().join("told")).expect("a file")).output();
        let told = fs::read_to_string(user.home().join("told")).expect("a file");
        assert_eq!(stdout(&run.expect("it runs")), "/a", "{told}");
        assert!(told.contains("passed unseen: localhost"), "{told}");
    }
    // One that has sent requests may leave without.
    let script = format!("curl -sS {url}; {pinned} || curl -sS {url}");
    let run = user.run(&["--host", "localhost"], &["sh", "-c", &script]).succeeded();
    assert_eq!((run.said().as_str(), run.number("requests")), ("/a/a", 2), "{}", run.told());
}

#[test]
fn an_origin_that_asks_for_client_certificates_gets_a_tunnel() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let keys = format!("client_ca = '{}'", clients.file());
    let pair = clients.pair("client", &["me"]);
    let registry = Registry::with(origin(), authority, &["localhost"], &keys);
    let user = User::of(&registry);
    let (cert, key) = (pair.cert.display().to_string(), pair.key.display().to_string());
    let url = format!("{}/a", registry.url());
    let run = user.run(&["--host", "localhost"], &["curl", "-sS", "--cert", &cert, "--key", &key, &url]);
    let run = run.succeeded();
    assert_eq!((run.said().as_str(), reason(&run)), ("/a", "tunnel-client-certificate"), "{}", run.told());
}

#[test]
fn a_server_without_tls_gets_a_tunnel() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = format!("http://localhost:{}/a", registry.origin.address.port());
    // An option of curl: a tunnel for plain HTTP, too.
    let run = user.run(&["--host", "localhost"], &["curl", "-sS", "--proxytunnel", &url]).succeeded();
    assert_eq!((run.said().as_str(), reason(&run)), ("/a", "tunnel-not-tls"), "{}", run.told());
}

#[test]
fn a_client_without_tls_passes_unseen_and_is_told() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = format!("http://localhost:{}/a", registry.port());
    let run = user.run(&["--host", "localhost"], &["curl", "-sS", "--proxytunnel", &url]);
    assert_eq!(reason(&run), "tunnel-not-tls", "{}", run.told());
}

#[test]
fn a_bad_certificate_of_an_origin_is_an_error_with_its_reason() {
    for (names, trusted, expected) in [
        (&["localhost"][..], false, "no trusted authority has signed the origin's certificate"),
        (&["other.test"], true, "the origin's certificate is for another name"),
    ] {
        let registry = Registry::with(origin(), Authority::new(), names, "");
        let roots = if trusted { registry.authority.file() } else { Authority::new().file() };
        let user = User { roots, ..User::of(&registry) };
        let url = format!("{}/a", registry.url());
        if !trusted {
            std::fs::copy(registry.authority.file(), user.home().join("unrelated.pem")).expect("copied");
        }
        let run = user.run(&["--host", "localhost"], &["curl", "-sS", "-w", "%{http_code}", &url]);
        assert!(
            run.said().contains(expected) && run.said().ends_with("502"),
            "{} {}",
            run.said(),
            run.told()
        );
        assert_eq!(registry.count(), 0);
    }
}

#[test]
fn a_registry_is_trusted_as_the_settings_of_its_tool_say() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let settings =
        format!("[global]\nindex-url = {}\ncert = {}\n", registry.url(), registry.authority.file());
    std::fs::create_dir_all(user.home().join(".pip")).expect("a directory");
    std::fs::write(user.home().join(".pip/pip.conf"), settings).expect("written");
    let mut run = user.command(&[], &["sh", "-c", "curl -sSf $0/a && cat $PIP_CERT", &registry.url()]);
    let run = run
        .env_remove("SSL_CERT_FILE")
        .env_remove("NODE_EXTRA_CA_CERTS")
        .env_remove("npm_config_cafile")
        .output()
        .expect("it runs");
    let own = std::fs::read_to_string(registry.authority.file()).expect("a file");
    let said = stdout(&run);
    assert!(said.starts_with("/a") && said.contains(own.trim()), "{said}{}", stderr(&run));
}

#[test]
fn a_certificate_that_is_its_own_authority_counts_if_it_is_trusted() {
    let (origin, unrelated) = (origin(), Registry::before(origin()));
    let folder = tempfile::tempdir().expect("a directory");
    let own = Pair::by_openssl(folder.path(), &["subjectAltName=DNS:localhost"]);
    let listen = "[reverse]\nlisten_tls = '127.0.0.1:0'\n";
    let front = Larder::start(&format!("{listen}{}{}", own.table(), site(&[&origin], "cache = false")));
    let port = front.door("reverse, TLS").port();
    let untrusted = "502: no trusted authority has signed the origin's certificate";
    for (roots, host, expected) in [
        (own.cert.display().to_string(), "localhost", "/a"),
        (own.cert.display().to_string(), "127.0.0.1", "502: the origin's certificate is for another name"),
        (unrelated.authority.file(), "localhost", untrusted),
    ] {
        let user = User { roots, ..User::of(&unrelated) };
        let run = user.run(&["--all"], &["curl", "-sS", &format!("https://{host}:{port}/a")]).succeeded();
        assert_eq!(run.said().trim(), expected, "{}", run.told());
    }
}
