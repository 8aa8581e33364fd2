//! Unix sockets, as origins and as listeners.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use larder_testkit::{Answer, Client, Larder, Origin, eventually, site};
use rustix::process::Signal;
use tempfile::TempDir;

use super::relay::pass_on;

const PAGE: &str = "200 OK\nCache-Control: max-age=60\n\na page";

/// Starts a server at a Unix socket, which forwards the bytes of each connection to `origin`.
fn at_socket(origin: &Origin, path: &Path) {
    let (listener, address) = (UnixListener::bind(path).expect("a new path"), origin.address);
    // The calls that read and write are those of TCP.
    let as_tcp = |stream| TcpStream::from(OwnedFd::from(stream));
    let pass_on = move |near: UnixStream| pass_on(as_tcp(near), address, b"");
    thread::spawn(move || listener.incoming().flatten().for_each(pass_on));
}

/// Starts a proxy for a site with `origin`, as written in the config, and `keys`.
fn before(origin: &str, keys: &str) -> Larder {
    Larder::start(&format!("[[site]]\norigin = '{origin}'\n{keys}\n"))
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    (folder, path)
}

/// Starts a proxy that listens at `path`, before `origin`, with `keys` of `[reverse]`.
fn listening(path: &Path, origin: &Origin, keys: &str) -> Larder {
    Larder::start(&config(path, origin, keys))
}

fn config(path: &Path, origin: &Origin, keys: &str) -> String {
    let listen = format!("[reverse]\nlisten = 'unix:{}'\n{keys}\n", path.display());
    format!("{listen}{}", site(&[origin], "purge_from = '127.0.0.1'"))
}

#[test]
fn an_origin_at_a_socket_is_asked_over_connections_that_are_kept() {
    let (_folder, path) = folder();
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let sent = large.clone();
    let origin = Origin::answering(move |seen| match seen.target.as_str() {
        "/large" => Answer::with_body("200 OK\nCache-Control: max-age=60", &sent),
        _ => Answer::with_body("200 OK\nCache-Control: max-age=60", &seen.body),
    });
    at_socket(&origin, &path);
    let larder = before(&format!("unix:{}", path.display()), "");
    // One connection, so that one worker serves it and has the connection to the origin.
    let mut client = larder.client();
    for hit in [false, true] {
        let response = client.ask("GET /large");
        larder.settle();
        assert!(response.body == large && response.is_hit() == hit, "{}", response.cache());
    }
    assert_eq!(origin.last().field("host"), Some("site.test"));
    let echoed = client.ask("POST /\nContent-Type: text/plain\n\nsome content");
    assert_eq!(echoed.text(), "some content");
    assert_eq!((origin.count(), origin.connections()), (2, 1));
}

#[test]
fn a_socket_origins_path_replaces_the_sites_and_its_host_is_localhost() {
    let (_folder, path) = folder();
    let origin = Origin::by(|seen| {
        let host = seen.field("host").unwrap_or_default();
        format!("302 Found\nLocation: http://localhost/app/next\n\n{host}{}", seen.target)
    });
    at_socket(&origin, &path);
    let keys = "path = '/api'\nhost = 'origin'\nrewrite_urls = true";
    let larder = before(&format!("unix:{}:/app/", path.display()), keys);
    let response = larder.get("/api/x?y");
    assert_eq!(response.text(), "localhost/app/x?y");
    assert_eq!(response.field("location"), Some("http://site.test/api/next"));
}

#[test]
fn an_origin_socket_without_a_server_is_logged_and_shown_unhealthy() {
    let (_folder, path) = folder();
    let name = format!("unix:{}", path.display());
    let origin = Origin::by(|seen| format!("200 OK\n\n{}", seen.field("host").unwrap_or_default()));
    let larder = before(&name, "health = '/health'\nhealth_interval = '100ms'\nretries = 0");
    let origin_in = |larder: &Larder| larder.stats()["sites"][0]["origins"][0].clone();
    eventually("the check", || (origin_in(&larder)["healthy"] == false).then_some(()));
    let told = origin_in(&larder);
    assert_eq!(told["address"], name.as_str());
    assert!(
        told["trouble"].as_str().is_some_and(|why| why.contains(&format!("cannot connect to {name}"))),
        "{told}"
    );
    larder.wait_for_log(&format!("origin {name} of"));
    assert_eq!(larder.get("/a").status, 502);
    at_socket(&origin, &path);
    eventually("the server", || (origin_in(&larder)["healthy"] == true).then_some(()));
    assert_eq!(larder.get("/b").status, 200);
    assert_eq!(["/a", "/b"].map(|path| origin.count_of(path)), [0, 1]);
}

#[test]
fn clients_at_a_socket_count_as_clients_on_this_machine() {
    let (folder, path) = folder();
    let origin = Origin::always(PAGE);
    let log = folder.path().join("log");
    let logging = format!("access_log = 'json'\naccess_log_file = '{}'\n", log.display());
    let larder = Larder::start(&format!("{logging}{}", config(&path, &origin, "")));
    let mut client = Client::at(&path);
    assert_eq!(client.ask("GET /").text(), "a page");
    assert_eq!(origin.last().field("x-forwarded-for"), Some("127.0.0.1"));
    larder.settle();
    assert!(client.ask("GET /").is_hit());
    assert_eq!(client.ask("PURGE /").status, 200);
    eventually("three lines", || {
        let lines = fs::read_to_string(&log).unwrap();
        (lines.matches("\"client\":\"127.0.0.1\"").count() == 3).then_some(())
    });
    let said = Command::new("curl")
        .args(["--silent", "--max-time", "60", "--unix-socket"])
        .arg(&path)
        .arg("http://site.test/")
        .output()
        .expect("curl");
    assert_eq!(said.stdout, b"a page");
}

#[test]
fn file_responses_and_tunnels_pass_through_sockets_at_both_ends() {
    let (folder, path) = folder();
    let behind = folder.path().join("b.sock");
    let large = vec![7; 2_000_000];
    let sent = large.clone();
    let origin = Origin::speaking(move |peer| {
        while let Some(seen) = peer.head() {
            match seen.field("upgrade") {
                None => {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n",
                        sent.len()
                    );
                    peer.send(&[head.as_bytes(), &sent].concat());
                }
                Some(_) => {
                    peer.send(
                        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
                    );
                    while let Some(byte) = peer.exactly(1) {
                        peer.send(&byte);
                    }
                    return;
                }
            }
        }
    });
    at_socket(&origin, &behind);
    let listen = format!("[reverse]\nlisten = 'unix:{}'\n", path.display());
    let larder = Larder::start(&format!("{listen}[[site]]\norigin = 'unix:{}'\n", behind.display()));
    for _ in 0..2 {
        assert_eq!(Client::at(&path).ask("GET /large").body, large);
        larder.settle();
    }
    let mut tunnel = Client::at(&path);
    tunnel.raw(
        b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(tunnel.head().status, 101);
    for text in [b"one", b"two"] {
        tunnel.raw(text);
        assert_eq!(tunnel.exactly(3), text);
    }
}

#[test]
fn a_socket_file_has_its_mode_survives_reloads_and_goes_at_exit() {
    let (_folder, path) = folder();
    let origin = Origin::always(PAGE);
    for (keys, mode) in [("", 0o660), ("socket_mode = '0600'", 0o600)] {
        let mut larder = listening(&path, &origin, keys);
        let file = fs::metadata(&path).unwrap();
        assert!(file.file_type().is_socket());
        assert_eq!(file.permissions().mode() & 0o777, mode);
        let mut client = Client::at(&path);
        assert_eq!(client.ask("GET /").status, 200);
        larder.reload(&format!("name = 'other'\n{}", config(&path, &origin, keys)));
        larder.wait_for_log("config reloaded");
        eventually("the new config", || {
            let status = Client::at(&path).ask("GET /").field("cache-status").map(str::to_owned);
            status.is_some_and(|status| status.starts_with("other")).then_some(())
        });
        assert_eq!(client.ask("GET /").status, 200);
        larder.signal(Signal::TERM);
        drop(client);
        assert!(larder.ended().success());
        assert!(!path.exists(), "the socket goes with the process");
    }
}

/// Starts `larder serve` at `path`, which must fail, and returns its errors.
fn refused(path: &Path) -> String {
    let listen = format!("unix:{}", path.display());
    let words = ["serve", "--origin", "http://127.0.0.1:9", "--admin", "off", "--stats", "none", "--listen"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output: Output = command.args(words).arg(&listen).stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_socket_is_taken_over_only_if_no_process_listens_there() {
    let (folder, path) = folder();
    let origin = Origin::always(PAGE);
    let mut first = listening(&path, &origin, "");
    let busy = refused(&path);
    assert!(busy.contains(&format!("unix:{}", path.display())), "{busy}");
    assert!(busy.contains("another program listens there already"), "{busy}");
    assert_eq!(Client::at(&path).ask("GET /").status, 200);
    first.signal(Signal::KILL);
    first.ended();
    assert!(path.exists(), "a killed process leaves its socket");
    let second = listening(&path, &origin, "");
    assert_eq!(Client::at(&path).ask("GET /").status, 200);
    drop(second);
    let file = folder.path().join("file");
    fs::write(&file, "content").unwrap();
    assert!(refused(&file).contains("the file there is not a socket"));
    assert_eq!(fs::read(&file).unwrap(), b"content");
    assert!(refused(&folder.path().join("missing/a.sock")).contains("its directory does not exist"));
}

#[test]
fn the_end_of_a_process_leaves_the_socket_of_the_next_one() {
    let (_folder, path) = folder();
    let origin = Origin::always(PAGE);
    let mut first = listening(&path, &origin, "");
    fs::remove_file(&path).unwrap();
    let _next = listening(&path, &origin, "");
    first.stop();
    assert_eq!(Client::at(&path).ask("GET /").status, 200);
}

#[test]
fn a_site_whose_origin_is_its_own_socket_is_a_loop() {
    let (_folder, path) = folder();
    let table = format!("[reverse]\nlisten = 'unix:{0}'\n[[site]]\norigin = 'unix:{0}'\n", path.display());
    let _larder = Larder::start(&table);
    assert_eq!(Client::at(&path).ask("GET /").status, 508);
}

#[test]
fn a_proxy_at_a_socket_may_name_its_clients() {
    let (_folder, path) = folder();
    let origin = Origin::always(PAGE);
    let _larder = listening(&path, &origin, "proxy_protocol = '127.0.0.1'");
    let mut client = Client::at(&path);
    client.raw(b"PROXY TCP4 192.0.2.1 198.51.100.1 1234 80\r\n");
    assert_eq!(client.ask("GET /").status, 200);
    assert_eq!(origin.last().field("x-forwarded-for"), Some("192.0.2.1"));
}

#[test]
fn clients_of_the_forward_proxy_reach_no_sockets() {
    let (_folder, path) = folder();
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let larder = Larder::start("[forward]\nallow_private = true");
    for target in [format!("http://unix:{}", path.display()), format!("http://unix:{}:/a", path.display())] {
        let mut client = Client::to(larder.forward);
        client.raw(format!("GET {target} HTTP/1.1\r\nHost: unix:\r\n\r\n").as_bytes());
        assert!(client.receive("GET").status >= 400);
    }
    assert!(listener.accept().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
    let mut own = UnixStream::connect(&path).unwrap();
    own.write_all(b"x").unwrap();
    listener.accept().unwrap().0.read_exact(&mut [0]).unwrap();
}
