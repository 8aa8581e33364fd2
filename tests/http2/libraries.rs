//! The HTTP clients in the standard libraries of Go and Java, over TLS, with a certificate from a test authority.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_testkit::{Answer, Authority, Gate, Larder, Origin, output, site};
use serde_json::json;

/// The number of concurrent requests of a client.
const TOGETHER: usize = 100;

/// Starts an origin that answers the requests below `/together/` once all of them have arrived.
fn origin() -> Origin {
    let (arrived, gate) = (AtomicUsize::new(0), Gate::default());
    Origin::answering(move |seen| match seen.target.as_str() {
        "/posted" => {
            let trailers = seen.trailers.iter().map(|(name, value)| format!(" {name}={value}"));
            let text = format!("{} bytes{}", seen.body.len(), trailers.collect::<String>());
            Answer::with_body("200 OK", text.to_ascii_lowercase().as_bytes())
        }
        "/trailers" => Answer::raw(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Last: 6\r\n\r\n",
        ),
        target if target.starts_with("/together/") => {
            if arrived.fetch_add(1, Ordering::Relaxed) + 1 == TOGETHER {
                gate.open();
            }
            gate.pass();
            Answer::with_body("200 OK", target.as_bytes())
        }
        target => Answer::with_body("200 OK\nCache-Control: max-age=60", target.as_bytes()),
    })
}

/// Runs `client`, which requests `/stored` first, and returns its output.
fn said(client: &mut Command) -> String {
    let (authority, origin) = (Authority::new(), origin());
    let pair = authority.pair("site", &["localhost"]);
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let larder = Larder::start(&format!("{listen}{}{}", pair.table(), site(&[&origin], "")));
    let url = format!("https://localhost:{}", larder.door("reverse, TLS").port());
    let curl = ["-sS", "--http2", "--noproxy", "*", "--cacert", &authority.file()];
    assert_eq!(output(Command::new("curl").args(curl).arg(format!("{url}/stored"))), "/stored");
    larder.settle();
    let said = output(client.arg(url).arg(authority.file()));
    larder.wait_for("requests", TOGETHER as u64 + 5);
    assert_eq!(larder.stats()["http_versions"], json!({"1.0": 0, "1.1": 0, "2": TOGETHER + 5}));
    assert_eq!(origin.count_of("/stored"), 1);
    said
}

#[test]
fn go() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http2/client.go");
    assert_eq!(
        said(Command::new("go").args(["run", file])),
        "/stored HTTP/2.0 200 /stored true
/new HTTP/2.0 200 /new false
posted: 1000003 bytes content-digest=a=:5:
trailers: abc map[X-Last:[6]]
together: 100
connections: 1
"
    );
}

#[test]
fn java() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http2/Client.java");
    assert_eq!(
        said(Command::new("java").arg(file)),
        "/stored HTTP_2 200 /stored true
/new HTTP_2 200 /new false
posted: 1000000 bytes
trailers: abc
together: true
"
    );
}
