//! A client that keeps no rules: after the handshake, which rustls makes, it seals whatever records a test wants.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use larder_proxy::net::tls::provider;
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{
    InboundOpaqueMessage, MessageDecrypter, MessageEncrypter, OutboundPlainMessage,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, ProtocolVersion, RootCertStore,
    SupportedCipherSuite,
};

use super::Authority;
use super::support::PATIENCE;

/// Bytes of a record's header.
const HEADER: usize = 5;

/// A connection whose handshake is done.
pub(crate) struct Wild {
    stream: TcpStream,
    seals: (Box<dyn MessageEncrypter>, u64),
    opens: (Box<dyn MessageDecrypter>, u64),
}

/// How the server ended a connection, and what it answered before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The level and the description of its alert.
    pub(crate) alert: Option<(u8, u8)>,
    pub(crate) answer: String,
}

/// The suites of both versions.
pub(crate) fn suites() -> Vec<SupportedCipherSuite> {
    let all = provider().cipher_suites.clone().into_iter();
    all.filter(|suite| !format!("{:?}", suite.suite()).contains("_RSA_")).collect()
}

/// The first message of a client, in a record.
pub(crate) fn hello(authority: &Authority) -> Vec<u8> {
    let mut bytes = Vec::new();
    client(authority, suites()[0]).write_tls(&mut bytes).expect("memory");
    bytes
}

fn client(authority: &Authority, suite: SupportedCipherSuite) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    let file = fs::read(authority.file()).expect("a file");
    roots.add(CertificateDer::from_pem_slice(&file).expect("a certificate")).expect("an authority");
    let only = CryptoProvider { cipher_suites: vec![suite], ..CryptoProvider::clone(&provider()) };
    let config = ClientConfig::builder_with_provider(Arc::new(only));
    let config = config.with_protocol_versions(&[suite.version()]).expect("a version");
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.enable_secret_extraction = true;
    let name = ServerName::try_from("site.test").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a client")
}

impl Wild {
    /// Connects to `address` with `suite` alone.
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
                // One record at a time: none behind the handshake is read.
                let record = read_record(&mut stream).expect("a record");
                client.read_tls(&mut &record[..]).expect("memory");
                client.process_new_packets().expect("a handshake");
            }
        }
        let secrets = client.dangerous_extract_secrets().expect("secrets");
        let (sends, receives) = (secrets.tx, secrets.rx);
        Self {
            stream,
            seals: (encrypter(suite, sends.1), sends.0),
            opens: (decrypter(suite, receives.1), receives.0),
        }
    }

    /// A record of this type and content.
    pub(crate) fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let (encrypter, number) = &mut self.seals;
        let version = ProtocolVersion::TLSv1_2;
        let plain = OutboundPlainMessage { typ: ContentType::from(kind), version, payload: content.into() };
        let sealed = encrypter.encrypt(plain, *number).expect("a record");
        *number += 1;
        sealed.encode()
    }

    /// Sends a record of this type and content.
    pub(crate) fn send(&mut self, kind: u8, content: &[u8]) {
        let record = self.record(kind, content);
        self.raw(&record);
    }

    /// Sends bytes as they are. A server that has ended the connection reads no more.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Ends the connection without a word.
    pub(crate) fn leave(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads up to the end of an answer whose content is `content`, or of the connection.
    pub(crate) fn answer(&mut self, content: &str) -> String {
        let mut answer = String::new();
        while !answer.ends_with(content) {
            let Some((ContentType::ApplicationData, bytes)) = self.receive() else { break };
            answer.push_str(&String::from_utf8_lossy(&bytes));
        }
        answer
    }

    /// Reads to the end of the connection.
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

    /// The next record that is not a message of a handshake; `None` at the end.
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

/// A whole record; `None` at the end of the connection.
fn read_record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut record = vec![0; HEADER];
    stream.read_exact(&mut record).ok()?;
    record.resize(HEADER + usize::from(u16::from_be_bytes([record[3], record[4]])), 0);
    stream.read_exact(&mut record[HEADER..]).ok()?;
    Some(record)
}

fn encrypter(suite: SupportedCipherSuite, secrets: ConnectionTrafficSecrets) -> Box<dyn MessageEncrypter> {
    let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
    | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
    | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets
    else {
        panic!("an unknown suite")
    };
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let (fixed, explicit) = iv.as_ref().split_at(suite.aead_alg.key_block_shape().fixed_iv_len);
            suite.aead_alg.encrypter(key, fixed, explicit)
        }
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
