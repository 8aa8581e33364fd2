//! The line protocol over TLS, with Python's client.

use std::net::SocketAddr;
use std::process::Command;

use larder_testkit::{Client, Larder, Origin};

use super::Authority;

/// Requests `url` twice over one connection, closes it, and prints the answers.
const ASK: &str = "import socket, ssl, sys
port, authority, version, url = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
with socket.create_connection(('127.0.0.1', int(port)), timeout=60) as stream:
    with context.wrap_socket(stream, server_hostname='site.test') as client:
        lines = client.makefile('rwb')
        for _ in range(2):
            lines.write(url.encode() + b'\\n')
            lines.flush()
            print(lines.read(len('+6\\na page.\\n')).decode(), end='')
        print(client.version())";

/// The answer to a line: the length of the content, the content and a full stop.
const ANSWER: &str = "+6\na page.\n";

fn ask(authority: &Authority, address: SocketAddr, version: &str, url: &str) -> String {
    let mut python = Command::new("python3");
    python.args(["-c", ASK, &address.port().to_string(), &authority.file(), version, url]);
    let output = python.output().expect("python3");
    assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn lines_are_answered_over_tls_and_not_in_clear() {
    let (authority, origin) =
        (Authority::new(), Origin::always("200 OK\nCache-Control: max-age=60\n\na page"));
    let pair = authority.pair("site", &["site.test"]);
    let larder = Larder::start(&format!(
        "[line]\nlisten = '127.0.0.1:0'\ntls = true\n[forward]\nallow_private = true\n{}",
        pair.table()
    ));
    let (address, url) = (larder.door("line, TLS"), format!("{}/page", origin.url()));
    for (version, name) in [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")] {
        assert_eq!(ask(&authority, address, version, &url), format!("{ANSWER}{ANSWER}{name}\n"));
    }
    assert_eq!(origin.count(), 1);
    let mut clear = Client::to(address);
    clear.raw(format!("{url}\n").as_bytes());
    clear.finish();
    assert!(!clear.rest_of(64).windows(6).any(|bytes| bytes == b"a page"));
    assert_eq!(origin.count(), 1);
}
