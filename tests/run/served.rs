//! `larder serve --intercept`, for the clients of a team.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use larder_proxy::net::tls::authority::{AuthorityTerms, CertificateAuthority};
use larder_testkit::{Client, Larder, output, programs, stdout};
use tempfile::TempDir;

use crate::{Registry, origin};

/// A proxy that intercepts the registry, and the authority that its clients trust.
pub(crate) struct Team {
    pub(crate) proxy: Larder,
    pub(super) state: TempDir,
}

impl Team {
    pub(super) fn new(registry: &Registry, config: &str) -> Self {
        Self::with(registry, &[], config)
    }

    /// Makes the authority with these options of `larder ca init`.
    fn with(registry: &Registry, options: &[&str], config: &str) -> Self {
        Self::before(&[registry.port()], &registry.authority.file(), options, config)
    }

    /// Intercepts origins at these ports, with certificates of the authority in the file `roots`.
    pub(crate) fn before(ports: &[u16], roots: &str, options: &[&str], config: &str) -> Self {
        let state = tempfile::tempdir().expect("a directory");
        let mut init = Command::new(programs::larder());
        output(init.args(["ca", "init"]).args(options).env("STATE_DIRECTORY", state.path()));
        let forward = format!("[forward]\nallow_private = true\nconnect_ports = {ports:?}");
        let config = format!("{forward}\n{config}\n[intercept]\nhosts = ['localhost', '127.0.0.1']\n");
        let environment = [("STATE_DIRECTORY", state.path()), ("SSL_CERT_FILE", Path::new(roots))];
        Self { proxy: Larder::start_in(&config, &environment), state }
    }

    /// Asks through the proxy with curl, which trusts the authority.
    pub(crate) fn curl(&self, words: &[&str]) -> Output {
        let (ca, proxy) = (self.state.path().join("ca.pem"), format!("http://{}", self.proxy.forward));
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-x", &proxy, "--cacert"]).arg(ca).args(words).output().expect("curl runs")
    }
}

#[test]
fn clients_of_a_team_share_what_one_has_downloaded() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "");
    let url = format!("{}/a", registry.url());
    for protocol in ["--http1.1", "--http2"] {
        let version = if protocol == "--http2" { "/a2" } else { "/a1.1" };
        assert_eq!(stdout(&team.curl(&[protocol, "-w", "%{http_version}", &url])), version);
        team.proxy.settle();
    }
    assert_eq!(registry.count(), 1);
}

#[test]
fn rules_and_the_guard_of_private_addresses_hold_in_a_tunnel() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "[[forward.rule]]\nmatch = { path = '/secret/*' }\nrespond = 403");
    let status = |path: &str| {
        let url = format!("{}{path}", registry.url());
        stdout(&team.curl(&["-o", "/dev/null", "-w", "%{http_code}", &url]))
    };
    assert_eq!((status("/secret/a"), status("/a")), ("403".to_owned(), "200".to_owned()));
    let port = registry.port();
    let guarded = format!("[forward]\nconnect_ports = [{port}]\n[intercept]\nhosts = ['*']");
    let guarded = Larder::start_in(&guarded, &[("STATE_DIRECTORY", team.state.path())]);
    let team = Team { proxy: guarded, state: team.state };
    let url = format!("{}/a", registry.url());
    assert_eq!(stdout(&team.curl(&["-o", "/dev/null", "-w", "%{http_code}", &url])), "403");
}

#[test]
fn the_host_of_a_tunnel_without_tls_counts_as_a_connection() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "");
    let mut client = TcpStream::connect(team.proxy.forward).expect("a connection");
    let address = format!("localhost:{}", registry.port());
    write!(client, "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
    let mut head = [0; b"HTTP/1.1 200".len()];
    client.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    client.write_all(b"G").expect("sent");
    // The client, both ends of the tunnel within the process, and the host.
    team.proxy.wait_for("connections", 4);
}

#[test]
fn an_authority_for_one_domain_is_not_accepted_for_others() {
    let registry = Registry::before(origin());
    let team = Team::with(&registry, &["--only", "localhost"], "");
    assert_eq!(stdout(&team.curl(&[&format!("{}/a", registry.url())])), "/a");
    let elsewhere = team.curl(&[&format!("https://127.0.0.1:{}/a", registry.port())]);
    assert_eq!(elsewhere.status.code(), Some(60), "{}", larder_testkit::stderr(&elsewhere));
}

#[test]
fn a_request_for_another_host_than_its_tunnel_is_misdirected() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "");
    let url = format!("{}/a", registry.url());
    let answer = stdout(&team.curl(&["-H", "Host: other.test", "-w", "%{http_code}", &url]));
    assert!(answer.ends_with("421"), "{answer}");
    assert_eq!(registry.count(), 0);
}

/// RFC 9112 section 3.2.4.
#[test]
fn options_for_a_whole_host_reach_it_from_its_tunnel() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "");
    for protocol in ["--http1.1", "--http2"] {
        let (url, shown) = (registry.url(), ["-i", "--suppress-connect-headers"]);
        let asked = [protocol, "-X", "OPTIONS", "--request-target", "*", &url];
        let answer = stdout(&team.curl(&[&shown[..], &asked].concat())).to_lowercase();
        // The registry is another proxy, which answers it.
        assert_eq!(answer.matches("via: 1.1 larder").count(), 2, "{protocol}: {answer}");
    }
}

#[test]
fn a_stop_does_not_wait_for_clients_that_keep_their_tunnels() {
    let registry = Registry::before(origin());
    let mut team = Team::new(&registry, "[timeouts]\ndrain = '10m'");
    let mut client = Client::to(team.proxy.forward);
    client.raw(
        format!("CONNECT localhost:{0} HTTP/1.1\r\nHost: localhost:{0}\r\n\r\n", registry.port()).as_bytes(),
    );
    assert_eq!(client.head().status, 200);
    team.proxy.stop();
    assert!(client.is_closed());
}

#[test]
fn check_and_why_tell_which_tunnels_are_read() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "");
    let why = |host: &str| team.proxy.ask_admin(&format!("GET /why?url=https://{host}/")).text().to_owned();
    let unread = "tunnels to this host are not read";
    assert!(why("other.test").contains(unread) && !why("localhost").contains(unread));
    let config = team.state.path().join("larder.toml");
    std::fs::write(&config, "[forward]\n[intercept]\nhosts = ['localhost', 'a.test']\nnever = ['b.test']")
        .expect("written");
    let mut check = Command::new(programs::larder());
    check.arg("check").arg("--config").arg(&config).env("STATE_DIRECTORY", team.state.path());
    let told = output(&mut check);
    assert!(told.contains("tunnels  to localhost, a.test are intercepted, but for b.test, "), "{told}");
}

#[test]
fn without_an_authority_or_with_an_expired_one_nothing_is_served() {
    let state = tempfile::tempdir().expect("a directory");
    let start = || {
        let mut serve = Command::new(programs::larder());
        serve.args(["serve", "--forward", "127.0.0.1:0", "--admin", "off", "--stats", "none", "--intercept"]);
        let output = serve.env("STATE_DIRECTORY", state.path()).output().expect("it runs");
        larder_testkit::stderr(&output)
    };
    let missing = start();
    assert!(missing.contains("ca.pem: no such file; larder ca init makes an authority"), "{missing}");
    let files = CertificateAuthority::files(state.path(), "test");
    let terms = AuthorityTerms { days: 1, only: Vec::new() };
    CertificateAuthority::make(&files, &terms, 1_700_000_000).expect("written");
    let expired = start();
    assert!(
        expired.contains("the authority has expired; larder ca init --renew makes a new one"),
        "{expired}"
    );
}

#[test]
fn hosts_that_are_never_intercepted_keep_their_certificates() {
    let registry = Registry::before(origin());
    let Team { state, .. } = Team::new(&registry, "");
    let forward = format!("[forward]\nallow_private = true\nconnect_ports = [{}]", registry.port());
    let config = format!("{forward}\n[intercept]\nhosts = ['localhost']\nnever = ['localhost']");
    let team = Team { proxy: Larder::start_in(&config, &[("STATE_DIRECTORY", state.path())]), state };
    let url = registry.at("/a");
    assert_eq!(team.curl(&[&url]).status.code(), Some(60));
    assert_eq!(stdout(&team.curl(&["--cacert", &registry.authority.file(), &url])), "/a");
}
