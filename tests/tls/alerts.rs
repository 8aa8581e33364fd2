//! Handshakes that fail: each client gets the alert of the standards for its error, whichever of the listener's messages
//! the alert follows, and on each listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use larder_proxy::net::tls::provider;
use larder_testkit::nodes::{OVER_TLS, node, peer_address};
use larder_testkit::{Authority, Engine, Larder, Origin, PATIENCE, eventually, site};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Error, SignatureScheme, SupportedCipherSuite,
};

use super::wild::{client_that_verifies, client_with, hello_of, suites};
use super::{LISTEN, TLS, larder};

const FATAL: u8 = 2;
const KEY_SHARE: u16 = 51;
const GROUPS: u16 = 10;
const SCHEMES: u16 = 13;

fn origin() -> Origin {
    Origin::always("200 OK\n\na page")
}

/// Returns a suite of TLS 1.3, and one of TLS 1.2.
fn versions() -> [SupportedCipherSuite; 2] {
    let of = |is_v13| suites().into_iter().find(|suite| suite.tls13().is_some() == is_v13).expect("a suite");
    [of(true), of(false)]
}

/// Connects `client` to `address`, and returns the alert that it receives.
fn alert_to(address: SocketAddr, mut client: ClientConnection) -> AlertDescription {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    loop {
        while client.wants_write() {
            client.write_tls(&mut stream).expect("it reads");
        }
        assert!(client.read_tls(&mut stream).expect("an end without a reset") > 0, "no alert");
        match client.process_new_packets() {
            Err(Error::AlertReceived(alert)) => return alert,
            processed => drop(processed.expect("messages of TLS")),
        }
    }
}

/// Sends `bytes` to `address`, and returns all that comes back.
fn response_to(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.write_all(bytes).expect("it reads");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("an end without a reset");
    response
}

/// Returns the record of an alert that is not encrypted.
fn plain(level: u8, alert: AlertDescription) -> [u8; 7] {
    [21, 3, 3, 0, 2, level, alert.into()]
}

/// Returns the hello of a client without the extension `left_out`.
fn without(record: &[u8], left_out: u16) -> Vec<u8> {
    let number = |at: usize| usize::from(u16::from_be_bytes([record[at], record[at + 1]]));
    // The record's header, that of the message, version, random bytes, session, suites, and compression.
    let session = 44 + usize::from(record[43]);
    let suites = session + 2 + number(session);
    let start = suites + 1 + usize::from(record[suites]);
    let (mut kept, mut at) = (Vec::new(), start + 2);
    while at < record.len() {
        let end = at + 4 + number(at + 2);
        if number(at) != usize::from(left_out) {
            kept.extend_from_slice(&record[at..end]);
        }
        at = end;
    }
    let two = |length: usize| u16::try_from(length).expect("short").to_be_bytes();
    let content = [&record[9..start], &two(kept.len()), &kept].concat();
    [&record[..3], &two(content.len() + 4), &[1, 0], &two(content.len()), &content].concat()
}

#[test]
fn without_a_common_protocol_a_handshake_ends_with_no_application_protocol() {
    let (authority, origin) = (Authority::new(), origin());
    let larder = larder(&authority, &origin, "");
    let other = |config: &mut ClientConfig| config.alpn_protocols = vec![b"spdy/3".to_vec()];
    for suite in versions() {
        let alert = alert_to(larder.door(TLS), client_with(&authority, suite, &other));
        assert_eq!(alert, AlertDescription::NoApplicationProtocol, "{suite:?}");
    }
}

#[test]
fn without_a_common_signature_scheme_a_handshake_ends_with_handshake_failure() {
    let (authority, origin) = (Authority::new(), origin());
    let larder = larder(&authority, &origin, "");
    let all = provider().signature_verification_algorithms;
    let ed25519 = all.mapping.iter().filter(|(scheme, _)| *scheme == SignatureScheme::ED25519);
    let only = WebPkiSupportedAlgorithms { mapping: Vec::leak(ed25519.copied().collect()), ..all };
    for suite in versions() {
        let alert = alert_to(larder.door(TLS), client_that_verifies(&authority, suite, only));
        assert_eq!(alert, AlertDescription::HandshakeFailure, "{suite:?}");
    }
    let counted = || (larder.stats()["tls"]["handshakes"]["incompatible"] == 2).then_some(());
    eventually("both to be counted", counted);
}

#[test]
fn clients_without_a_required_certificate_get_the_alert_of_their_version() {
    let (authority, origin) = (Authority::new(), origin());
    let table = authority.pair("site", &["site.test"]).table();
    let required = format!("client_ca = '{}'\nclient_auth = 'require'\n", authority.file());
    let larder = Larder::start(&format!("{LISTEN}{required}{table}{}", site(&[&origin], "")));
    let expected = [AlertDescription::CertificateRequired, AlertDescription::HandshakeFailure];
    for (suite, expected) in versions().into_iter().zip(expected) {
        let alert = alert_to(larder.door(TLS), client_with(&authority, suite, &|_| {}));
        assert_eq!(alert, expected, "{suite:?}");
    }
}

#[test]
fn hellos_without_a_required_extension_get_missing_extension() {
    let (authority, origin, engine) = (Authority::new(), origin(), Engine::start());
    let (larder, node) = (larder(&authority, &origin, ""), node(&engine, &origin, "a", OVER_TLS));
    let [hello_13, hello_12] = versions().map(|suite| hello_of(&authority, suite));
    for (hello, extension, expected) in [
        (&hello_13, KEY_SHARE, AlertDescription::MissingExtension),
        (&hello_13, GROUPS, AlertDescription::MissingExtension),
        (&hello_13, SCHEMES, AlertDescription::MissingExtension),
        // TLS 1.2 has no such rule.
        (&hello_12, SCHEMES, AlertDescription::HandshakeFailure),
    ] {
        for address in [larder.door(TLS), peer_address(&node)] {
            let of_node = address != larder.door(TLS) && std::ptr::eq(hello, &hello_12);
            let expected = if of_node { AlertDescription::HandshakeFailure } else { expected };
            let response = response_to(address, &without(hello, extension));
            assert_eq!(response, plain(FATAL, expected), "{extension} {address}");
        }
    }
}

#[test]
fn malformed_first_records_get_the_alert_for_their_error() {
    let (authority, origin) = (Authority::new(), origin());
    let larder = larder(&authority, &origin, "");
    let hello = hello_of(&authority, versions()[0]);
    let half = [&[22, 3, 1, 0, 20][..], &hello[5..25]].concat();
    // The first parts of a message of 61,440 bytes.
    let long =
        [&[22, 3, 1, 0x40, 0, 1, 0, 0xf0, 0], &[0; 0x3ffc][..], &[22, 3, 1, 0x20, 0], &[0; 0x2000]].concat();
    let mut short = hello.clone();
    short[8] -= 1;
    for (bytes, expected) in [
        (&[22, 3, 1, 0, 0][..], AlertDescription::UnexpectedMessage),
        (&[21, 3, 1, 0, 0], AlertDescription::UnexpectedMessage),
        (&[99, 3, 1, 0, 1, 0], AlertDescription::UnexpectedMessage),
        (&[23, 3, 1, 0, 1, 0], AlertDescription::UnexpectedMessage),
        (&[22, 2, 0, 0, 1, 0], AlertDescription::ProtocolVersion),
        (&[22, 3, 1, 0xff, 0xff], AlertDescription::RecordOverflow),
        // Another record within a message, and a message with another length than its content.
        (&[&half, &[21, 3, 1, 0, 2, 1, 90][..]].concat(), AlertDescription::UnexpectedMessage),
        (&short, AlertDescription::DecodeError),
        (&long, AlertDescription::DecodeError),
    ] {
        let response = response_to(larder.door(TLS), bytes);
        assert_eq!(response, plain(FATAL, expected), "{:?}", &bytes[..bytes.len().min(40)]);
    }
}

#[test]
fn a_hello_that_does_not_end_in_time_gets_close_notify() {
    let (authority, origin) = (Authority::new(), origin());
    let table = authority.pair("site", &["site.test"]).table();
    let sites = site(&[&origin], "");
    let larder = Larder::start(&format!("{LISTEN}[timeouts]\nhead = '1s'\n{table}{sites}"));
    let hello = hello_of(&authority, versions()[0]);
    let response = response_to(larder.door(TLS), &hello[..hello.len() / 2]);
    assert_eq!(response, plain(1, AlertDescription::CloseNotify));
}

#[test]
fn a_name_without_a_certificate_gets_unrecognized_name() {
    let (authority, origin) = (Authority::new(), origin());
    let larder = larder(&authority, &origin, "");
    let only_challenges =
        |config: &mut rustls::ClientConfig| config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    for suite in versions() {
        let client = client_with(&authority, suite, &only_challenges);
        let alert = alert_to(larder.door(TLS), client);
        assert_eq!(alert, AlertDescription::UnrecognisedName, "{suite:?}");
    }
}
