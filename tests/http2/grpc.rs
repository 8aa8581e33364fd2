//! A gRPC service behind a site, with the usual client and server of Python.

use std::path::Path;
use std::process::{Command, Stdio};

use larder_testkit::{Larder, Pair, Process};

/// The output of the client if each kind of method works.
const EXPECTED: &str = r"say: b'olleh' [('x-first', '1')] [('x-data-bin', b'\x00\xff'), ('x-last', '2')]
large: True
fail: NOT_FOUND no such thing: 100% ü [('x-last', '3')]
count: b'0 1 2 3 4'
spoil: b'one'
spoil: b'two'
spoil: DATA_LOSS the third is lost [('x-last', '4')]
add: b'499500'
chat: b'welcome' b'you said a' b'you said b' []
cancel: b'ended'
deadline: DEADLINE_EXCEEDED
unknown: UNIMPLEMENTED
";

fn python(words: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http2/grpc_peers.py")).args(words);
    command
}

/// The server, which ends with the test.
struct Server {
    _child: Process,
    port: u16,
}

impl Server {
    fn start(files: &[&str]) -> Self {
        let mut command = python(&[&["server"], files].concat());
        let started = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut child = started.expect("python3");
        let port = child.said_until("").first().and_then(|line| line.parse().ok());
        Self { _child: child, port: port.expect("a server of gRPC; `cargo x test` installs the library") }
    }
}

fn call(words: &[&str]) -> String {
    let output = python(&[&["client"], words].concat()).output().expect("python3");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn every_kind_of_method_works_in_clear() {
    let server = Server::start(&[]);
    let larder = Larder::start(&format!("[[site]]\norigin = 'h2c://127.0.0.1:{}'", server.port));
    assert_eq!(call(&[&larder.address().to_string()]), EXPECTED);
}

#[test]
fn every_kind_of_method_works_over_tls_on_both_sides() {
    let folder = tempfile::tempdir().expect("a directory");
    let pair = Pair::self_signed(folder.path(), "localhost");
    let [cert, key] = ["cert", "key"].map(|name| folder.path().join(name).display().to_string());
    let server = Server::start(&[&cert, &key]);
    let config = format!(
        "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n{}\
         [[site]]\norigin = 'h2://localhost:{}'\nca = '{cert}'\n",
        pair.table(),
        server.port
    );
    let larder = Larder::start(&config);
    let address = format!("localhost:{}", larder.door("reverse, TLS").port());
    assert_eq!(call(&[&address, &cert]), EXPECTED);
}
