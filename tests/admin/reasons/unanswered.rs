//! The reasons why origins behind parents, TLS, signatures and tunnels give no answer.

use std::path::Path;
use std::process::Command;

use larder_semantics::status::Why;
use larder_testkit::{Authority, Client, Larder, Origin, Pair, program, programs};
use serde_json::Value;

use super::{FRESH, seen};
use crate::Events;

pub(super) fn unreachable() -> Value {
    let origin = Origin::always(FRESH);
    let larder = Larder::before(&origin);
    origin.die();
    seen(&larder)
}

pub(super) fn parent_unreachable() -> Value {
    let parent = Origin::always(FRESH);
    parent.die();
    by_parent(&parent)
}

pub(super) fn parent_refused() -> Value {
    by_parent(&Origin::always("407 Proxy Authentication Required"))
}

fn by_parent(parent: &Origin) -> Value {
    seen(&Larder::start(&format!("[parent]\nhttp = '{}'\n[[site]]\norigin = 'http://o.test'", parent.url())))
}

/// Sends a request to a bucket of a storage that denies each of them.
pub(super) fn by_bucket(credentials: &str, request: &str) -> Value {
    let storage = Origin::always("403 Forbidden\n\n<Error><Code>AccessDenied</Code></Error>");
    let keys = "retries = 0\nmax_fails = 10";
    let url = format!("s3://bucket?endpoint={}&{credentials}", storage.url());
    let larder = Larder::start(&format!("[[site]]\norigin = '{url}'\n{keys}"));
    let mut log = Events::of(&larder, "/log");
    larder.ask(request);
    log.next().expect("a request")
}

/// No name server is asked for an invalid name: this one has a label of 64 letters.
pub(super) fn unresolved() -> Value {
    seen(&Larder::start(&format!("[[site]]\norigin = 'http://{}.test'", "a".repeat(64))))
}

pub(super) fn without_tls() -> Value {
    let origin = Origin::speaking(|peer| peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    seen(&Larder::start(&format!("[[site]]\norigin = 'https://{}'", origin.address)))
}

pub(super) fn ends_in_the_handshake() -> Value {
    let origin = Origin::speaking(|_| ());
    seen(&Larder::start(&format!("[[site]]\norigin = 'https://{}'", origin.address)))
}

pub(super) fn untrusted() -> Value {
    by_tls(|folder| Pair::self_signed(folder, "127.0.0.1"), false)
}

pub(super) fn expired() -> Value {
    by_tls(|folder| Pair::self_signed_until(folder, "127.0.0.1", 2020), true)
}

pub(super) fn by_another_name() -> Value {
    by_tls(|folder| Pair::self_signed(folder, "site.test"), true)
}

pub(super) fn not_for_servers() -> Value {
    let terms = ["subjectAltName=IP:127.0.0.1", "basicConstraints=CA:FALSE", "extendedKeyUsage=clientAuth"];
    by_tls(|folder| Pair::by_openssl(folder, &terms), true)
}

/// Returns the event of a request to an origin with this certificate, which may be trusted.
fn by_tls(certificate: impl Fn(&Path) -> Pair, is_trusted: bool) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = certificate(folder.path());
    let listen = "[reverse]\nlisten_tls = '127.0.0.1:0'\n[[site]]\norigin = 'http://127.0.0.1:1'\n";
    let origin = Larder::start(&format!("{listen}{}", certificate.table()));
    let config = format!("[[site]]\norigin = 'https://{}'", origin.door("reverse, TLS"));
    let trusted = [("SSL_CERT_FILE", certificate.cert.as_path())];
    let larder = Larder::start_in(&config, if is_trusted { &trusted } else { &[] });
    let seen = seen(&larder);
    let reason = Why::ALL.iter().find(|why| why.token() == seen["reason"]).expect("a reason");
    // The message is the same for clients, in the log and in the explanation.
    assert!(larder.get("/").text().contains(reason.explanation()), "{seen}");
    let why = larder.ask_admin("GET /why?url=http://site.test/");
    assert!(why.text().contains(reason.explanation()), "{}", why.text());
    larder.wait_for_log(&format!("{}: no TLS with", reason.token()));
    seen
}

/// Starts a forward proxy that intercepts all tunnels to `port` of this machine.
fn intercepting(port: u16, config: &str) -> Larder {
    let state = tempfile::tempdir().expect("a directory");
    let mut init = Command::new(programs::larder());
    programs::output(init.args(["ca", "init"]).env("STATE_DIRECTORY", state.path()));
    let forward = format!("[forward]\nallow_private = true\nconnect_ports = [{port}]\n{config}");
    let config = format!("{forward}\n[intercept]\nhosts = ['*']");
    Larder::start_in(&config, &[("STATE_DIRECTORY", state.path())])
}

/// Returns the event of a tunnel to `port` of this machine through a proxy that intercepts.
pub(super) fn tunnelled(port: u16, config: &str) -> Value {
    let larder = intercepting(port, config);
    let log = Events::of(&larder, "/log");
    let mut client = Client::to(larder.forward);
    let credentials = "Proxy-Authorization: Bearer 0123456789abcdef";
    client.send(&format!("CONNECT 127.0.0.1:{port}\nHost: 127.0.0.1:{port}\n{credentials}"));
    client.head();
    drop(client);
    log.take(1).next().expect("a request")
}

pub(super) fn asks_for_a_certificate() -> Value {
    let authority = Authority::new();
    let pair = authority.pair("site", &["127.0.0.1"]);
    let listen = format!("[reverse]\nlisten_tls = '127.0.0.1:0'\nclient_ca = '{}'\n", authority.file());
    let origin = Larder::start(&format!("{listen}{}[[site]]\norigin = 'http://127.0.0.1:1'", pair.table()));
    tunnelled(origin.door("reverse, TLS").port(), "")
}

/// Returns the event of the second tunnel of a client that does not trust the authority.
pub(super) fn distrusted() -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = Pair::self_signed(folder.path(), "site.test").table();
    let listen = "[reverse]\nlisten_tls = '127.0.0.1:0'\n[[site]]\norigin = 'http://127.0.0.1:1'\n";
    let origin = Larder::start(&format!("{listen}{tls}"));
    let port = origin.door("reverse, TLS").port();
    let larder = intercepting(port, "");
    let log = Events::of(&larder, "/log");
    for _ in 0..2 {
        let mut curl = program("curl", "curl");
        curl.args(["-s", "-x", &format!("http://{}", larder.forward), &format!("https://127.0.0.1:{port}/")]);
        assert!(!curl.output().expect("it runs").status.success());
    }
    log.take(2).last().expect("two requests")
}
