//! Tests of records against a client of rustls: all versions and suites, in both directions.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use larder_store::Arena;
use rcgen::generate_simple_self_signed;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, NamedGroup, RootCertStore, ServerConfig, SupportedCipherSuite};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::accept::{HandshakeError, TlsConnection, accept};
use super::fault::Fault;
use super::output::Output;
use super::provider;
use super::record::MOST;
use super::records::Records;
use crate::net::concurrency::ConcurrencyLimit;
use crate::net::content::ContentFile;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The time for a handshake.
const LIMIT: Duration = Duration::from_secs(60);

fn permits() -> Arc<ConcurrencyLimit> {
    Arc::new(ConcurrencyLimit::new(1, 0))
}

fn first() -> SupportedCipherSuite {
    suites()[0]
}

/// Returns a rustls client that supports only the suite, and the server's end of its connection.
async fn pair(suite: SupportedCipherSuite) -> (TlsStream<TcpStream>, TlsConnection) {
    let (client, server) = configs(suite);
    let (near, far) = sockets().await;
    let name = ServerName::try_from("localhost").unwrap();
    let permits = permits();
    let secured = accept(far, HERE, server, &permits, LIMIT);
    let (client, secured) = tokio::join!(TlsConnector::from(client).connect(name, near), secured);
    let mut secured = secured.unwrap();
    secured.stream.write_all(&secured.tickets).await.unwrap();
    (client.unwrap(), secured)
}

fn configs(suite: SupportedCipherSuite) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let made = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let only = Arc::new(CryptoProvider { cipher_suites: vec![suite], ..CryptoProvider::clone(&provider()) });
    let client = ClientConfig::builder_with_provider(only);
    let client = client.with_protocol_versions(&[suite.version()]).unwrap();
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    let server =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut server =
        server.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
    server.enable_secret_extraction = true;
    (client, Arc::new(server))
}

/// The suites for an ECDSA certificate.
fn suites() -> Vec<SupportedCipherSuite> {
    let all = provider().cipher_suites.clone().into_iter();
    let suites: Vec<_> = all.filter(|suite| !format!("{:?}", suite.suite()).contains("_RSA_")).collect();
    assert_eq!(suites.len(), 6);
    suites
}

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

/// Seals `content` in records with at most `most` content bytes each, and sends them.
async fn send(secured: &mut TlsConnection, content: &[u8], most: usize) {
    let mut records = Records::default();
    secured.sealer.seal(&mut records, content, most).unwrap();
    secured.stream.write_all(records.ready()).await.unwrap();
}

/// Receives until `length` content bytes have arrived, at most `step` bytes at once.
async fn receive(secured: &mut TlsConnection, length: usize, step: usize) -> Result<Vec<u8>, Fault> {
    let mut content = Vec::new();
    secured.opener.open(&mut content)?;
    while content.len() < length && !secured.opener.is_over() {
        let mut bytes = vec![0; step];
        let count = secured.stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the client goes on");
        secured.opener.make_room().extend_from_slice(&bytes[..count]);
        secured.opener.open(&mut content)?;
    }
    Ok(content)
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[tokio::test]
async fn every_suite_carries_content_of_any_length_both_ways() {
    for suite in suites() {
        let (mut client, mut secured) = pair(suite).await;
        for (length, most, step) in
            [(1, MOST, 1), (100, 7, 3), (MOST, MOST, 5_000), (MOST + 1, MOST, 1_000), (200_000, MOST, 40_000)]
        {
            let content = bytes(length);
            let told = format!("{suite:?}, {length} bytes");
            let mut received = vec![0; length];
            let (_, read) =
                tokio::join!(send(&mut secured, &content, most), client.read_exact(&mut received));
            read.unwrap();
            assert!(received == content, "to the client: {told}");
            let writing = async {
                client.write_all(&content).await.unwrap();
                client.flush().await.unwrap();
            };
            let (_, received) = tokio::join!(writing, receive(&mut secured, length, step));
            assert!(received.unwrap() == content, "from the client: {told}");
        }
    }
}

/// Sets the number of records after which this crate's record layer replaces its key.
fn wear(secured: &mut TlsConnection, most_records: u64) {
    secured.sealer.most_records = most_records;
}

#[tokio::test]
async fn keys_are_replaced_when_the_client_asks_and_when_they_are_worn() {
    for suite in suites() {
        let (mut client, mut secured) = pair(suite).await;
        if suite.tls13().is_none() {
            wear(&mut secured, 0);
            let refused = secured.sealer.seal(&mut Records::default(), b"x", MOST);
            assert_eq!(refused, Err(Fault::Internal), "TLS 1.2 has no key update");
            continue;
        }
        for round in 0..20_u8 {
            if round % 3 == 0 {
                client.get_mut().1.refresh_traffic_keys().unwrap();
            }
            if round % 5 == 0 {
                wear(&mut secured, 0);
            }
            client.write_all(&[round]).await.unwrap();
            client.flush().await.unwrap();
            assert_eq!(receive(&mut secured, 1, 100).await.unwrap(), [round]);
            send(&mut secured, &[round, round], MOST).await;
            wear(&mut secured, u64::MAX);
            let mut received = [0; 2];
            client.read_exact(&mut received).await.unwrap();
            assert_eq!(received, [round; 2]);
        }
    }
}

#[tokio::test]
async fn long_content_begins_with_short_records() {
    let (_client, secured) = pair(first()).await;
    let mut output = Output::new(secured.sealer, Vec::new());
    output.seal(&mut b"a head".to_vec(), &bytes(50_000)).unwrap();
    let (short, long) = ([1_369; 3], [16_384, 16_384, 13_131]);
    assert_eq!(lengths(&mut output), [&short[..], &long[..]].concat());
}

/// Returns the numbers of content bytes in the records of TLS 1.3 that are ready to be sent.
fn lengths(output: &mut Output) -> Vec<usize> {
    let (mut sealed, mut lengths) = (output.records().ready(), Vec::new());
    while let [_, _, _, high, low, rest @ ..] = sealed {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        // The type of the content and the tag.
        lengths.push(length - 17);
        sealed = &rest[length..];
    }
    lengths
}

/// Seals `content` in frames, at most `frames` at once, and returns the bytes that the client receives.
async fn frames(suite: SupportedCipherSuite, content: ContentFile<'_>, frames: usize) -> Vec<u8> {
    let (mut client, mut secured) = pair(suite).await;
    let (mut output, mut received) = (Output::new(secured.sealer, Vec::new()), Vec::new());
    let (mut at, mut out) = (7, b"a head".to_vec());
    while at < 200_000 {
        let header = |length: usize| (length as u32).to_be_bytes();
        let sealed = output.seal_frames(&mut out, content, at..200_000, frames, header).unwrap();
        at += sealed.read;
        let mut bytes = vec![0; sealed.content as usize];
        let sent = secured.stream.write_all(output.records().ready());
        let (sent, read) = tokio::join!(sent, client.read_exact(&mut bytes));
        sent.and(read).unwrap();
        let count = output.unsent();
        output.records().sent(count);
        received.extend_from_slice(&bytes);
    }
    assert!(out.is_empty());
    received
}

#[tokio::test]
async fn frames_from_mapped_memory_and_from_a_file_carry_the_same_content() {
    let (extent, content) = (Arena::new().unwrap().extent(None).unwrap(), bytes(200_000));
    extent.append(&content).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&content, 0).unwrap();
    for suite in suites() {
        for most in [1, 4, 100] {
            for source in [ContentFile::Complete(&extent), ContentFile::Other(&file)] {
                let received = frames(suite, source, most).await;
                let (mut rest, mut carried) = (received.strip_prefix(b"a head").unwrap(), Vec::new());
                while let Some((header, frame)) = rest.split_first_chunk::<4>() {
                    let (frame, behind) = frame.split_at(u32::from_be_bytes(*header) as usize);
                    assert!(frame.len() < MOST);
                    carried.extend_from_slice(frame);
                    rest = behind;
                }
                assert!(carried == content[7..], "{suite:?}, {most} frames at once");
            }
        }
    }
}

#[tokio::test]
async fn frames_sealed_from_mapped_memory_end_with_their_tls_records() {
    let extent = Arena::new().unwrap().extent(None).unwrap();
    extent.append(&bytes(50_000)).unwrap();
    let (_client, secured) = pair(first()).await;
    let mut output = Output::new(secured.sealer, Vec::new());
    let content = ContentFile::Complete(&extent);
    let header = |length: usize| (length as u32).to_be_bytes();
    for (range, expected) in [
        // A connection begins with short records.
        (0..1_000, &[10, 1_000][..]),
        (1_000..5_000, &[10, 1_369, 1_369, 1_270]),
        (5_000..50_000, &[10, 16_384, 16_384, 12_240]),
    ] {
        let sealed = output.seal_frames(&mut b"a head".to_vec(), content, range.clone(), 4, header).unwrap();
        assert_eq!((sealed.read, lengths(&mut output)), (range.end - range.start, expected.to_vec()));
        let count = output.unsent();
        output.records().sent(count);
    }
}

#[tokio::test]
async fn the_hybrid_key_exchange_comes_first() {
    let (client, _secured) = pair(first()).await;
    let group = client.get_ref().1.negotiated_key_exchange_group().map(|group| group.name());
    assert_eq!(group, Some(NamedGroup::X25519MLKEM768));
}

/// Returns a client that has yet to send its last message of the handshake.
async fn about_to_finish(config: Arc<ClientConfig>, stream: &mut TcpStream) -> ClientConnection {
    let mut client = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut bytes = vec![0; 64 << 10];
    while client.is_handshaking() {
        stream.write_all(&flight(&mut client)).await.unwrap();
        let count = stream.read(&mut bytes).await.unwrap();
        client.read_tls(&mut &bytes[..count]).unwrap();
        client.process_new_packets().unwrap();
    }
    client
}

/// Returns the bytes that `client` has to send.
fn flight(client: &mut ClientConnection) -> Vec<u8> {
    let mut flight = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut flight).unwrap();
    }
    flight
}

#[tokio::test]
async fn tickets_wait_only_for_the_reply_to_a_request_that_has_arrived() {
    for request in [&b""[..], b"GET / HTTP/1.1\r\n\r\n"] {
        let (client, server) = configs(first());
        let (mut near, far) = sockets().await;
        let server = tokio::spawn(async move { accept(far, HERE, server, &permits(), LIMIT).await });
        let mut client = about_to_finish(client, &mut near).await;
        client.writer().write_all(request).unwrap();
        near.write_all(&flight(&mut client)).await.unwrap();
        let secured = server.await.unwrap().unwrap();
        assert_eq!(secured.tickets.is_empty(), request.is_empty());
        let sent = near.read_u8();
        match request.is_empty() {
            true => assert!(sent.await.is_ok()),
            false => assert!(tokio::time::timeout(Duration::ZERO, sent).await.is_err()),
        }
    }
}

#[tokio::test]
async fn keys_may_be_replaced_in_the_very_message_that_ends_the_handshake() {
    for suite in suites().into_iter().filter(|suite| suite.tls13().is_some()) {
        let (client, server) = configs(suite);
        let (mut near, far) = sockets().await;
        let server = tokio::spawn(async move { accept(far, HERE, server, &permits(), LIMIT).await });
        let mut client = about_to_finish(client, &mut near).await;
        for letter in [b"a", b"b"] {
            client.refresh_traffic_keys().unwrap();
            client.writer().write_all(letter).unwrap();
        }
        near.write_all(&flight(&mut client)).await.unwrap();
        let mut secured = server.await.unwrap().unwrap();
        assert_eq!(receive(&mut secured, 2, 100).await.unwrap(), b"ab", "{suite:?}");
    }
}

#[tokio::test]
async fn a_client_that_ends_no_handshake_keeps_no_other_out() {
    let (client, server) = configs(first());
    let permits = Arc::new(ConcurrencyLimit::new(4, 4));
    let mut stalled = Vec::new();
    for _ in 0..6 {
        let (mut near, far) = sockets().await;
        near.write_all(b"\x16").await.unwrap();
        let (server, permits) = (Arc::clone(&server), Arc::clone(&permits));
        let accepted = tokio::spawn(async move { accept(far, HERE, server, &permits, LIMIT).await });
        stalled.push((near, accepted));
    }
    // Two hold a permit, two fill the client's share of the queue, the others are refused.
    while stalled.iter().filter(|(_, accepted)| accepted.is_finished()).count() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(permits.occupancy(), (2, 2));
    let (near, far) = sockets().await;
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let name = ServerName::try_from("localhost").unwrap();
    let (client, secured) = tokio::join!(
        TlsConnector::from(client).connect(name, near),
        accept(far, other, server, &permits, LIMIT)
    );
    assert!(client.is_ok() && secured.is_ok());
}

#[tokio::test]
async fn a_client_that_sends_nothing_holds_no_permit() {
    let (client, server) = configs(first());
    let permits = Arc::new(ConcurrencyLimit::new(2, 0));
    let (_silent, far) = sockets().await;
    let (config, limit) = (Arc::clone(&server), Arc::clone(&permits));
    let waiting = tokio::spawn(async move { accept(far, HERE, config, &limit, LIMIT).await });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(permits.occupancy(), (0, 0));
    let (near, far) = sockets().await;
    let name = ServerName::try_from("localhost").unwrap();
    let (client, secured) = tokio::join!(
        TlsConnector::from(client).connect(name, near),
        accept(far, HERE, server, &permits, LIMIT)
    );
    assert!(client.is_ok() && secured.is_ok() && !waiting.is_finished());
}

#[tokio::test]
async fn a_spoilt_record_gives_no_content_and_ends_the_connection() {
    for suite in suites() {
        for at in [0, 1, 2, 3, 4, 5, 12, 13, 20, 30] {
            let (mut client, mut secured) = pair(suite).await;
            client.write_all(b"GET / HTTP/1.1").await.unwrap();
            client.flush().await.unwrap();
            let mut record = vec![0; 5];
            secured.stream.read_exact(&mut record).await.unwrap();
            record.resize(5 + usize::from(record[4]), 0);
            secured.stream.read_exact(&mut record[5..]).await.unwrap();
            record[at] ^= 0x40;
            secured.opener.make_room().extend_from_slice(&record);
            let mut content = Vec::new();
            let opened = secured.opener.open(&mut content);
            assert!(content.is_empty(), "{suite:?}, byte {at}");
            // A greater length makes the opener wait for more bytes.
            assert!(opened.is_err() || (at == 3 || at == 4), "{suite:?}, byte {at}: {opened:?}");
        }
    }
}

#[tokio::test]
async fn the_end_of_a_clients_data_is_distinguished_from_a_broken_connection() {
    for suite in suites() {
        let (mut client, mut secured) = pair(suite).await;
        client.write_all(b"last").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(receive(&mut secured, 5, 100).await.unwrap(), b"last");
        assert!(secured.opener.is_over());
        let (client, mut secured) = pair(suite).await;
        drop(client.into_inner().0);
        let mut byte = [0; 1];
        // The client dropped its socket with unread session tickets: the kernel may report an error.
        let _ = secured.stream.read(&mut byte).await;
        assert!(!secured.opener.is_over());
    }
}

#[tokio::test]
async fn the_client_is_notified_that_no_data_follows() {
    for suite in suites() {
        let (mut client, mut secured) = pair(suite).await;
        let mut records = Records::default();
        secured.sealer.seal(&mut records, b"all", MOST).unwrap();
        secured.sealer.close(&mut records);
        assert_eq!(secured.sealer.seal(&mut records, b"more", MOST), Err(Fault::Internal));
        secured.stream.write_all(records.ready()).await.unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"all");
    }
}

#[tokio::test]
async fn a_client_without_tls_gets_an_explanation() {
    let config =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let config =
        config.with_no_client_auth().with_cert_resolver(Arc::<super::certificates::Certificates>::default());
    let (mut near, far) = sockets().await;
    near.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let refused = accept(far, HERE, Arc::new(config), &permits(), LIMIT).await;
    assert!(matches!(refused, Err(HandshakeError::Plain)), "{refused:?}");
    let mut told = String::new();
    // The server did not read all of the request, so the connection may end with an error.
    let _ = near.read_to_string(&mut told).await;
    assert!(told.starts_with("HTTP/1.1 400 ") && told.ends_with("use https:// here\n"), "{told}");
}
