//! A client with the TLS library tlslite-ng, which sends records that common clients do not send.

use std::path::Path;
use std::process::Command;

use larder_testkit::{Answer, Authority, Larder, Origin, not_tested, output};

use super::{TLS, config};

/// The cases of the client, and their outcomes for each version, or one for both. Most outcomes are alerts: the requests
/// after them had no answer.
const OUTCOMES: &str = "short end of a handshake: | decrypt_error
long end: | decrypt_error
empty end: | decrypt_error
wrong end: | decrypt_error
new keys: | none | yes no yes
key in parts: | none | 200 /keys
empty records: | 200 /empty
many of them: | unexpected_message
long record: | record_overflow
longer header: | record_overflow
hello: | no_renegotiation | unexpected_message
part of it: | no_renegotiation | unexpected_message
failure: | close_notify
warning: | close_notify
short alert: | decode_error
long alert: | decode_error
half by length: | 400 400: request content ended early, close_notify
half in chunks: | 400 400: request content ended early, close_notify
whole by length: | 200 1234567890, close_notify
whole in chunks: | 200 12345, close_notify
half by length: | 400 400: request content ended early, close_notify
half in chunks: | 400 400: request content ended early, close_notify
whole by length: | 200 1234567890, close_notify
whole in chunks: | 200 12345, close_notify
without length: | 200 abc, close_notify
broken off: | 200 abc, no alert";

fn expected(version: usize) -> String {
    let line = |line: &str| {
        let parts: Vec<_> = line.split(" | ").collect();
        format!("{} {}\n", parts[0], parts.get(version + 1).unwrap_or(&parts[1]))
    };
    OUTCOMES.lines().map(line).collect()
}

fn origin() -> Origin {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    Origin::answering(move |seen| match seen.target.as_str() {
        "/chunked" => Answer::raw(head).then("0\r\n\r\n"),
        "/broken" => Answer::raw(head).then_close(),
        "/whole" => Answer::with_body("200 OK", &seen.body),
        target => Answer::with_body("200 OK\nCache-Control: max-age=60", target.as_bytes()),
    })
}

#[test]
fn tlslite() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = folder.join("target/tools/tlslite-ng");
    if !library.is_dir() {
        return not_tested("tlslite-ng, which cargo x test installs,");
    }
    for (at, version) in ["1.2", "1.3"].into_iter().enumerate() {
        let (authority, origin) = (Authority::new(), origin());
        let larder = Larder::start(&config(&authority, &origin, ""));
        let mut client = Command::new("/usr/bin/python3");
        client.env("PYTHONPATH", &library).arg(folder.join("tests/tls/tlslite_client.py"));
        let said = output(client.arg(larder.door(TLS).port().to_string()).arg(version));
        assert_eq!(said, expected(at), "{version}");
        assert_eq!(
            larder.stats()["tls"]["handshakes"]["malformed"],
            4,
            "{}",
            larder.stats()["tls"]["handshakes"]
        );
        larder.wait_for("in_flight", 0);
        let wanted = [("/half", 0), ("/whole", 4), ("/refused", 0)];
        assert_eq!(wanted.map(|(target, _)| (target, origin.count_of(target))), wanted);
    }
}
