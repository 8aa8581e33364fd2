//! TLS records that common clients do not send: valid ones are served, and all others end the connection with the alert
//! for their error and cause no request to the origin.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::wild::{Ended, Wild, client, suites};
use super::{Authority, TLS, config};
use larder_testkit::{Larder, Origin};

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const CONTENT: u8 = 23;
const HEARTBEAT: u8 = 24;

const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;
const NO_RENEGOTIATION: u8 = 100;

const GET: &[u8] = b"GET /page HTTP/1.1\r\nHost: site.test\r\n\r\n";
const PAGE: &str = "200 OK\nCache-Control: max-age=60\n\na page";

/// The longest content of a record.
const MOST: usize = 1 << 14;

struct World {
    authority: Authority,
    origin: Origin,
    larder: Larder,
}

impl World {
    fn new() -> Self {
        let (authority, origin) = (Authority::new(), Origin::always(PAGE));
        let config = config(&authority, &origin, "");
        let larder = Larder::start(&config);
        Self { authority, origin, larder }
    }

    /// Calls `act` with a connection for each suite, and whether its version is 1.3.
    fn each(&self, mut act: impl FnMut(&mut Wild, bool, &str)) {
        for suite in suites() {
            let mut wild = Wild::to(self.larder.door(TLS), &self.authority, suite);
            act(&mut wild, suite.tls13().is_some(), &format!("{:?}", suite.suite()));
        }
    }
}

/// Returns the end of a connection with a fatal alert.
fn fatal(alert: u8) -> Ended {
    Ended { alert: Some((2, alert)), answer: String::new() }
}

#[test]
fn records_without_content_and_alerts_that_mean_nothing_are_passed_over() {
    let world = World::new();
    world.each(|wild, _, suite| {
        for piece in GET.chunks(7) {
            wild.send(CONTENT, b"");
            // The warning `user_canceled`.
            wild.send(ALERT, &[1, 90]);
            wild.send(CONTENT, piece);
        }
        assert!(wild.answer("a page").starts_with("HTTP/1.1 200"), "{suite}");
    });
}

#[test]
fn too_many_tls_records_without_content_end_the_connection() {
    let world = World::new();
    world.each(|wild, _, suite| {
        (0..40).for_each(|_| wild.send(CONTENT, b""));
        assert_eq!(wild.ended(), fatal(UNEXPECTED_MESSAGE), "{suite}");
    });
}

#[test]
fn records_are_as_long_as_the_rules_permit() {
    let world = World::new();
    world.each(|wild, is_v13, suite| {
        let mut head = b"GET /page HTTP/1.1\r\nHost: site.test\r\nA: ".to_vec();
        head.resize(MOST - 4, b'a');
        head.extend_from_slice(b"\r\n\r\n");
        wild.send(CONTENT, &head);
        assert!(wild.answer("a page").starts_with("HTTP/1.1 200"), "{suite}");
        // One byte more than the limit, correctly sealed.
        wild.send(CONTENT, &[b'a'; MOST + 1]);
        assert_eq!(wild.ended(), fatal(RECORD_OVERFLOW), "{suite}");
        assert!(is_v13 || suite.starts_with("TLS_ECDHE"), "{suite}");
    });
    // A header with a length above the limit for any record.
    world.each(|wild, is_v13, suite| {
        let [high, low] = (MOST as u16 + if is_v13 { 257 } else { 2049 }).to_be_bytes();
        wild.raw(&[CONTENT, 3, 3, high, low]);
        assert_eq!(wild.ended(), fatal(RECORD_OVERFLOW), "{suite}");
    });
}

#[test]
fn records_that_may_not_follow_a_handshake_end_the_connection() {
    let world = World::new();
    let hello = [1, 0, 0, 1, 0];
    for (kind, content, in_13, in_12) in [
        // A handshake message, or a part of one.
        (HANDSHAKE, &hello[..], UNEXPECTED_MESSAGE, NO_RENEGOTIATION),
        (HANDSHAKE, &[0, 0, 0, 0], UNEXPECTED_MESSAGE, NO_RENEGOTIATION),
        (HANDSHAKE, &[], UNEXPECTED_MESSAGE, UNEXPECTED_MESSAGE),
        // A key update with an invalid request, one that is empty or too long, one with another message behind it, and
        // one that content interrupts.
        (HANDSHAKE, &[24, 0, 0, 1, 2], ILLEGAL_PARAMETER, NO_RENEGOTIATION),
        (HANDSHAKE, &[24, 0, 0, 0], DECODE_ERROR, NO_RENEGOTIATION),
        (HANDSHAKE, &[24, 0, 0, 2, 0, 0], DECODE_ERROR, NO_RENEGOTIATION),
        (HANDSHAKE, &[24, 0, 0, 1], UNEXPECTED_MESSAGE, NO_RENEGOTIATION),
        (HANDSHAKE, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0], UNEXPECTED_MESSAGE, NO_RENEGOTIATION),
        (CHANGE_CIPHER_SPEC, &[1], UNEXPECTED_MESSAGE, UNEXPECTED_MESSAGE),
        // Alerts without content, of one byte, and of three.
        (ALERT, &[], UNEXPECTED_MESSAGE, UNEXPECTED_MESSAGE),
        (ALERT, &[1], DECODE_ERROR, DECODE_ERROR),
        (ALERT, &[1, 0, 0], DECODE_ERROR, DECODE_ERROR),
    ] {
        world.each(|wild, is_v13, suite| {
            wild.send(kind, content);
            wild.send(CONTENT, GET);
            let expected = fatal(if is_v13 { in_13 } else { in_12 });
            assert_eq!(wild.ended(), expected, "{kind} {content:?}, {suite}");
        });
    }
    world.each(|wild, is_v13, suite| {
        // In TLS 1.2, the content of a record of this type is not examined.
        wild.send(HEARTBEAT, &[1, 0, 1, 0]);
        assert_eq!(wild.ended(), fatal(UNEXPECTED_MESSAGE), "{suite} {is_v13}");
    });
    assert_eq!(world.origin.count(), 0);
}

#[test]
fn the_version_of_a_record_counts_only_before_tls_13() {
    let world = World::new();
    world.each(|wild, is_v13, suite| {
        // The version is authenticated, so the record with it cannot be opened.
        let record = [&[CONTENT, 3, 1], &wild.record(CONTENT, GET)[3..]].concat();
        wild.raw(&record);
        let expected = if is_v13 { BAD_RECORD_MAC } else { PROTOCOL_VERSION };
        assert_eq!(wild.ended(), fatal(expected), "{suite}");
    });
    assert_eq!(world.origin.count(), 0);
}

#[test]
fn keys_are_replaced_whenever_a_client_asks() {
    let world = World::new();
    for suite in suites().into_iter().filter(|suite| suite.tls13().is_some()) {
        let mut client = client(&world.authority, suite);
        let mut stream = TcpStream::connect(world.larder.door(TLS)).expect("it listens");
        let mut tls = rustls::Stream::new(&mut client, &mut stream);
        for _ in 0..4 {
            tls.write_all(GET).expect("it reads");
            let mut answer = Vec::new();
            while !answer.ends_with(b"a page") {
                let mut part = [0; 1_000];
                let length = tls.read(&mut part).expect("it writes");
                assert!(length > 0, "{}", String::from_utf8_lossy(&answer));
                answer.extend_from_slice(&part[..length]);
            }
            // It asks for new keys of the server, too.
            tls.conn.refresh_traffic_keys().expect("TLS 1.3");
        }
    }
}

#[test]
fn a_record_that_is_spoilt_or_comes_twice_ends_the_connection() {
    let world = World::new();
    world.each(|wild, _, suite| {
        let mut record = wild.record(CONTENT, GET);
        let last = record.len() - 1;
        record[last] ^= 1;
        wild.raw(&record);
        assert_eq!(wild.ended(), fatal(BAD_RECORD_MAC), "{suite}");
    });
    assert_eq!(world.origin.count(), 0);
    world.each(|wild, _, suite| {
        let record = wild.record(CONTENT, GET);
        wild.raw(&record);
        assert!(wild.answer("a page").starts_with("HTTP/1.1 200"), "{suite}");
        wild.raw(&record);
        assert_eq!(wild.ended(), fatal(BAD_RECORD_MAC), "{suite}");
    });
}

#[test]
fn fatal_alerts_end_the_connection_without_an_answer() {
    let world = World::new();
    // A failed handshake, an unknown alert, and close_notify.
    for (alert, expected) in [([2, 40], None), ([2, 200], None), ([1, 0], Some((1, 0)))] {
        world.each(|wild, _, suite| {
            wild.send(CONTENT, &GET[..20]);
            wild.send(ALERT, &alert);
            wild.send(CONTENT, &GET[20..]);
            let ended = wild.ended();
            assert!(!ended.answer.contains("a page"), "{alert:?}, {suite}: {ended:?}");
            assert_eq!(ended.alert.filter(|(level, _)| *level == 2), None, "{alert:?}, {suite}: {ended:?}");
            assert!(expected.is_none() || ended.alert.is_none_or(|told| Some(told) == expected), "{ended:?}");
        });
    }
    assert_eq!(world.origin.count(), 0);
}

#[test]
fn content_that_breaks_off_is_not_taken_for_whole() {
    let world = World::new();
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        // Without close_notify, and with a close_notify that is early.
        for is_told in [false, true] {
            world.each(|wild, _, suite| {
                let content = if head.starts_with('C') { "12345" } else { "5\r\n12345\r\n" };
                let request = format!("POST /form HTTP/1.1\r\nHost: site.test\r\n{head}\r\n\r\n{content}");
                wild.send(CONTENT, request.as_bytes());
                if is_told {
                    wild.send(ALERT, &[1, 0]);
                }
                wild.leave();
                let ended = wild.ended();
                assert!(!ended.answer.contains(" 200 "), "{head}, {is_told}, {suite}: {ended:?}");
            });
        }
    }
    world.larder.wait_for("in_flight", 0);
    assert_eq!(world.origin.count(), 0, "no request was whole");
}

#[test]
fn a_message_in_parts_ends_the_connection_and_no_other() {
    let world = World::new();
    world.each(|wild, _, suite| {
        // The beginning of a key update.
        wild.send(HANDSHAKE, &[24, 0, 0]);
        wild.send(CONTENT, GET);
        assert_eq!(wild.ended().answer, "", "{suite}");
        world.larder.wait_for("connections", 0);
    });
    world.each(|wild, _, suite| {
        wild.send(CONTENT, GET);
        assert!(wild.answer("a page").starts_with("HTTP/1.1 200"), "{suite}");
    });
}
