//! A TLS connection with a client of rustls, and any order of steps: content arrives unchanged, in pieces of any length
//! and after any change of keys; invalid records have no content and end the connection.

#![no_main]

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use larder_proxy::net::tls::provider;
use larder_proxy::net::tls::trial::Trial;
use libfuzzer_sys::fuzz_target;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A step.
#[derive(Arbitrary, Debug)]
enum Event {
    /// The client sends `length` bytes, which arrive in pieces of length `piece`.
    Receive { length: u16, piece: u8 },
    /// The client replaces its key.
    Replace,
    /// The server sends `length` bytes, in records of at most `most` bytes.
    Send { length: u16, most: u16 },
    /// The connection frees the memory that it recreates with the next record.
    Shrink,
    /// One bit of the client's bytes changes in transit.
    Spoil { length: u8, at: u16, bit: u8 },
    /// Bytes arrive that the client has not sealed.
    Forge(Vec<u8>),
    /// The client sends close_notify.
    End,
}

fuzz_target!(|input: (u8, Vec<Event>)| {
    let (suite, events) = input;
    let (client, server) = &configs()[usize::from(suite) % configs().len()];
    let mut trial = Trial::new(Arc::clone(client), Arc::clone(server)).expect("a connection");
    let mut empty = 0;
    for (number, event) in events.into_iter().enumerate() {
        let bytes = |length: usize| (0..length).map(|at| (at * 7 + number) as u8).collect::<Vec<_>>();
        match event {
            Event::Receive { length, piece } => {
                let content = bytes(length.into());
                let sent = trial.client_sends(&content);
                let pieces = sent.chunks(usize::from(piece).max(1) * 64);
                let received: Vec<u8> =
                    pieces.flat_map(|piece| trial.receive(piece).expect("records of a client")).collect();
                assert!(received == content);
                empty = if content.is_empty() { empty } else { 0 };
            }
            Event::Replace => {
                empty += 1;
                let update = trial.client_replaces_keys();
                // The server limits the number of consecutive records without content.
                if empty > 16 {
                    return;
                }
                assert_eq!(trial.receive(&update), Ok(Vec::new()));
            }
            Event::Send { length, most } => {
                let content = bytes(length.into());
                let sent = trial.send(&content, usize::from(most).max(64)).expect("records");
                assert!(trial.client_receives(&sent).expect("records that a client opens") == content);
            }
            Event::Shrink => trial.shrink(),
            Event::Spoil { length, at, bit } => {
                let mut sent = trial.client_sends(&bytes(usize::from(length) + 1));
                let at = usize::from(at) % sent.len();
                sent[at] ^= 1 << (bit % 8);
                return assert_gives_nothing(&mut trial, &sent);
            }
            Event::Forge(bytes) => return assert_gives_nothing(&mut trial, &bytes),
            Event::End => {
                let end = trial.client_ends();
                assert_eq!(trial.receive(&end), Ok(Vec::new()));
                assert!(trial.is_over());
                return;
            }
        }
    }
});

/// Asserts that bytes that the client has not sealed have no content, with any bytes after them, and are not an orderly
/// end.
fn assert_gives_nothing(trial: &mut Trial, arrived: &[u8]) {
    let mut is_wrong = false;
    for piece in [arrived, &[0; 20_000]] {
        match trial.receive(piece) {
            Ok(content) => assert!(content.is_empty() && !is_wrong),
            Err(_) => is_wrong = true,
        }
    }
    assert!(is_wrong && !trial.is_over());
}

/// Returns a client for each suite with an ECDSA certificate, and its server.
fn configs() -> &'static [(Arc<ClientConfig>, Arc<ServerConfig>)] {
    static CONFIGS: OnceLock<Vec<(Arc<ClientConfig>, Arc<ServerConfig>)>> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
        let server = ServerConfig::builder_with_provider(provider());
        let server = server.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut server =
            server.with_single_cert(vec![made.cert.der().clone()], key.into()).expect("a certificate");
        server.enable_secret_extraction = true;
        let server = Arc::new(server);
        let suites = provider().cipher_suites.clone().into_iter();
        let suites = suites.filter(|suite| !format!("{:?}", suite.suite()).contains("_RSA_"));
        let config = |suite: rustls::SupportedCipherSuite| {
            let only = CryptoProvider { cipher_suites: vec![suite], ..CryptoProvider::clone(&provider()) };
            let client = ClientConfig::builder_with_provider(Arc::new(only));
            let client = client.with_protocol_versions(&[suite.version()]).expect("a version");
            let client = client.with_root_certificates(roots.clone()).with_no_client_auth();
            (Arc::new(client), Arc::clone(&server))
        };
        suites.map(config).collect()
    })
}
