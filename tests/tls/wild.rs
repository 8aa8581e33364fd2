//! A client that can violate TLS: after the handshake by rustls, it seals arbitrary records.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use larder_proxy::net::tls::provider;
use larder_testkit::PATIENCE;
use rustls::crypto::cipher::{InboundOpaqueMessage, MessageDecrypter};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, ProtocolVersion, RootCertStore,
    SupportedCipherSuite,
};

use super::Authority;

/// Bytes of a record's header.
const HEADER: usize = 5;

/// A connection whose handshake is complete.
pub(crate) struct Wild {
    stream: TcpStream,
    seals: Seals,
    opens: (Box<dyn MessageDecrypter>, u64),
}

/// The end of a connection by the server, and the response before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The level and the description of the server's alert.
    pub(crate) alert: Option<(u8, u8)>,
    pub(crate) answer: String,
}

/// Returns the suites of both versions for the keys of these tests.
pub(crate) fn suites() -> Vec<SupportedCipherSuite> {
    let all = provider().cipher_suites.clone().into_iter();
    all.filter(|suite| !format!("{:?}", suite.suite()).contains("_RSA_")).collect()
}

/// Returns the first message of a client, in a record.
pub(crate) fn hello(authority: &Authority) -> Vec<u8> {
    hello_of(authority, suites()[0])
}

/// Returns the first message of a client with only `suite`, in a record.
pub(crate) fn hello_of(authority: &Authority, suite: SupportedCipherSuite) -> Vec<u8> {
    let mut bytes = Vec::new();
    client(authority, suite).write_tls(&mut bytes).expect("memory");
    bytes
}

/// Returns a client that obeys the rules, with only `suite`.
pub(crate) fn client(authority: &Authority, suite: SupportedCipherSuite) -> ClientConnection {
    client_with(authority, suite, &|_| {})
}

/// Returns a client with only `suite`, whose configuration `change` changes.
pub(crate) fn client_with(
    authority: &Authority,
    suite: SupportedCipherSuite,
    change: &dyn Fn(&mut ClientConfig),
) -> ClientConnection {
    let only = CryptoProvider { cipher_suites: vec![suite], ..CryptoProvider::clone(&provider()) };
    client_by(authority, only, suite, change)
}

/// Returns a client with only `suite` that verifies signatures by `schemes`.
pub(crate) fn client_that_verifies(
    authority: &Authority,
    suite: SupportedCipherSuite,
    schemes: WebPkiSupportedAlgorithms,
) -> ClientConnection {
    let only = CryptoProvider {
        cipher_suites: vec![suite],
        signature_verification_algorithms: schemes,
        ..CryptoProvider::clone(&provider())
    };
    client_by(authority, only, suite, &|_| {})
}

fn client_by(
    authority: &Authority,
    only: CryptoProvider,
    suite: SupportedCipherSuite,
    change: &dyn Fn(&mut ClientConfig),
) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    let file = fs::read(authority.file()).expect("a file");
    roots.add(CertificateDer::from_pem_slice(&file).expect("a certificate")).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(only));
    let config = config.with_protocol_versions(&[suite.version()]).expect("a version");
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.enable_secret_extraction = true;
    change(&mut config);
    let name = ServerName::try_from("site.test").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a client")
}

impl Wild {
    /// Connects to `address` with only `suite`.
    pub(crate) fn to(address: SocketAddr, authority: &Authority, suite: SupportedCipherSuite) -> Self {
        let mut client = client(authority, suite);
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.set_nodelay(true).expect("no delay");
        while client.is_handshaking() || client.wants_write() {
            while client.wants_write() {
                client.write_tls(&mut stream).expect("it reads");
            }
            if client.is_handshaking() {
                // One record at a time, so that no record after the handshake is read.
                let record = read_record(&mut stream).expect("a record");
                client.read_tls(&mut &record[..]).expect("memory");
                client.process_new_packets().expect("a handshake");
            }
        }
        let secrets = client.dangerous_extract_secrets().expect("secrets");
        let (sends, receives) = (secrets.tx, secrets.rx);
        Self { stream, seals: Seals::new(suite, sends), opens: (decrypter(suite, receives.1), receives.0) }
    }

    /// Seals a record of this type and content.
    pub(crate) fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        self.seals.record(kind, content)
    }

    /// Sends a record of this type and content.
    pub(crate) fn send(&mut self, kind: u8, content: &[u8]) {
        let record = self.record(kind, content);
        self.raw(&record);
    }

    /// Sends raw bytes. Errors are ignored: a server that has ended the connection stops reading.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Closes the sending direction without close_notify.
    pub(crate) fn leave(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads up to the end of a response whose content is `content`, or to the end of the connection.
    pub(crate) fn answer(&mut self, content: &str) -> String {
        let mut answer = String::new();
        while !answer.ends_with(content) {
            let Some((ContentType::ApplicationData, bytes)) = self.receive() else { break };
            answer.push_str(&String::from_utf8_lossy(&bytes));
        }
        answer
    }

    /// Reads to the end of the connection, and returns the alert and the response.
    pub(crate) fn ended(&mut self) -> Ended {
        let (mut alert, mut answer) = (None, String::new());
        while let Some((kind, bytes)) = self.receive() {
            match kind {
                ContentType::Alert => alert = Some((bytes[0], bytes[1])),
                _ => answer.push_str(&String::from_utf8_lossy(&bytes)),
            }
        }
        Ended { alert, answer }
    }

    /// Returns the next record that is not a handshake message; `None` at the end of the connection.
    fn receive(&mut self) -> Option<(ContentType, Vec<u8>)> {
        loop {
            let mut record = read_record(&mut self.stream)?;
            let kind = ContentType::from(record[0]);
            let sealed = InboundOpaqueMessage::new(kind, ProtocolVersion::TLSv1_2, &mut record[HEADER..]);
            let (decrypter, number) = &mut self.opens;
            let plain = decrypter.decrypt(sealed, *number).expect("a record of the server");
            *number += 1;
            if plain.typ != ContentType::Handshake {
                return Some((plain.typ, plain.payload.to_vec()));
            }
        }
    }
}

/// Reads a whole record; returns `None` at the end of the connection.
fn read_record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut record = vec![0; HEADER];
    stream.read_exact(&mut record).ok()?;
    record.resize(HEADER + usize::from(u16::from_be_bytes([record[3], record[4]])), 0);
    stream.read_exact(&mut record[HEADER..]).ok()?;
    Some(record)
}

/// Seals arbitrary records; rustls refuses invalid ones (RFC 8446 section 5.2, RFC 5246 section 6.2.3.3).
struct Seals {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    is_v13: bool,
    /// The number of the nonce's bytes that are sent.
    explicit: usize,
}

impl Seals {
    fn new(suite: SupportedCipherSuite, (sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Self {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => panic!("an unknown suite"),
        };
        let is_v13 = suite.tls13().is_some();
        let explicit = if is_v13 || algorithm == &CHACHA20_POLY1305 { 0 } else { 8 };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).expect("a key"));
        let iv = iv.as_ref().try_into().expect("twelve bytes");
        Self { key, iv, sequence, is_v13, explicit }
    }

    /// Seals the next record, with this type and content.
    fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let number = self.sequence.to_be_bytes();
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(number).for_each(|(byte, of)| *byte ^= of);
        let mut sealed = content.to_vec();
        let mut outer = kind;
        if self.is_v13 {
            sealed.push(kind);
            outer = u8::from(ContentType::ApplicationData);
        }
        let header = |length: usize| [&[outer, 3, 3][..], &(length as u16).to_be_bytes()].concat();
        let head = header(self.explicit + sealed.len() + self.key.algorithm().tag_len());
        let additional =
            if self.is_v13 { head.clone() } else { [&number[..], &header(content.len())].concat() };
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(unique, Aad::from(additional), &mut sealed).expect("sealed");
        self.sequence += 1;
        [&head[..], &nonce[4..4 + self.explicit], &sealed].concat()
    }
}

fn decrypter(suite: SupportedCipherSuite, secrets: ConnectionTrafficSecrets) -> Box<dyn MessageDecrypter> {
    let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
    | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
    | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets
    else {
        panic!("an unknown suite")
    };
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.decrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let fixed = suite.aead_alg.key_block_shape().fixed_iv_len;
            suite.aead_alg.decrypter(key, &iv.as_ref()[..fixed])
        }
    }
}
