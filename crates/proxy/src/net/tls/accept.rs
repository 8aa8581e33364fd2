//! The handshake of a client's connection. rustls makes it; then the record layer continues with its keys, unless the
//! configuration of rustls does not permit their extraction.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::server::{ServerConfig, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{HandshakeKind, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::challenges;
use super::halves::{Opener, Sealer, halves};
use super::kept::encode;
use crate::net::concurrency::ConcurrencyLimit;
use crate::net::input::receive;

/// Maximum of bytes from the client in a handshake that are received and not processed.
const MOST: usize = 20 << 10;
/// Bytes to receive at once: a first message rarely needs more.
const ROOM: usize = 4 << 10;
/// Time for which a client may read the reason why its certificate was refused.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);
/// Bytes of a record's header.
const HEADER: usize = 5;

/// The error of rustls when there is no certificate for the name that a client requests.
const NO_CERTIFICATE: &str = "no server certificate chain resolved";

/// The response to a client that speaks HTTP without TLS.
pub(super) const USE_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 58\r\nConnection: close\r\n\r\n400: this address speaks HTTP over TLS: use https:// here\n";

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) stream: TcpStream,
    pub(crate) opener: Opener,
    pub(crate) sealer: Sealer,
    /// Tickets that are sent with the reply to a request that has arrived, which saves a packet and a system call.
    pub(crate) tickets: Vec<u8>,
    pub(crate) session: Session,
    /// The client's certificates, the leaf first; empty if the client has presented none.
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

/// The outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Whether the version is TLS 1.3; otherwise, it is TLS 1.2.
    pub(crate) is_v13: bool,
    /// Whether an earlier session was resumed.
    pub(crate) is_resumed: bool,
    /// Whether HTTP/2 was negotiated.
    pub(crate) http2: bool,
    /// Whether the peer is an authority that has verified a name; it sends no request.
    pub(crate) is_challenge: bool,
}

/// The reason why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsecured {
    /// The handshake took too long.
    #[error("the handshake took longer than {0:?}")]
    TimedOut(Duration),
    /// The client left.
    #[error("the client left during the handshake")]
    Left,
    /// The client speaks HTTP without TLS.
    #[error("the client speaks HTTP without TLS")]
    Plain,
    /// Too many handshakes are waiting.
    #[error("too many handshakes at once")]
    Busy,
    /// An error of the kernel.
    #[error("{0}")]
    Io(io::Error),
    /// A TLS error of the client's messages, or an alert from the client.
    #[error("{0}")]
    Tls(rustls::Error),
}

impl Unsecured {
    /// Returns the reason for metrics.
    pub(crate) fn reason(&self) -> Failure {
        match self {
            Self::TimedOut(_) => Failure::Timeout,
            Self::Left | Self::Io(_) => Failure::Left,
            Self::Plain => Failure::Plain,
            Self::Busy => Failure::Busy,
            Self::Tls(rustls::Error::AlertReceived(_)) => Failure::Alert,
            Self::Tls(rustls::Error::General(why)) if why == NO_CERTIFICATE => Failure::NoCertificate,
            Self::Tls(rustls::Error::PeerIncompatible(_)) => Failure::Incompatible,
            Self::Tls(rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)) => {
                Failure::ClientCertificate
            }
            Self::Tls(_) => Failure::Malformed,
        }
    }
}

/// The kinds of failed handshakes, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Timeout,
    Left,
    Plain,
    Busy,
    Alert,
    Incompatible,
    Malformed,
    ClientCertificate,
    NoCertificate,
}

impl Failure {
    /// All kinds, in the order of their discriminants.
    pub(crate) const ALL: [Self; 9] = [
        Self::Timeout,
        Self::Left,
        Self::Plain,
        Self::Busy,
        Self::Alert,
        Self::Incompatible,
        Self::Malformed,
        Self::ClientCertificate,
        Self::NoCertificate,
    ];

    /// Returns the kind's name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Left => "left",
            Self::Plain => "plain-http",
            Self::Busy => "busy",
            Self::Alert => "alert",
            Self::Incompatible => "incompatible",
            Self::Malformed => "malformed",
            Self::ClientCertificate => "client-certificate",
            Self::NoCertificate => "no-certificate",
        }
    }
}

/// Makes the handshake with `client` at the other end of `stream`, once it has sent bytes and a permit is free.
///
/// # Errors
/// The reason for the failure. The client has been sent an alert, if TLS has one for it.
pub(super) async fn accept(
    mut stream: TcpStream,
    client: IpAddr,
    config: Arc<ServerConfig>,
    permits: &Arc<ConcurrencyLimit>,
) -> Result<Secured, Unsecured> {
    let first = first_bytes(&stream).await.map_err(Unsecured::Io)?;
    let permit = permits.enter(permits.claim((), client), None).await.map_err(|_| Unsecured::Busy)?;
    let mut handshake = Handshake::new(config).map_err(Unsecured::Tls)?;
    handshake.incoming = first;
    match handshake.run(&mut stream).await {
        Ok(()) => {
            let tickets = std::mem::take(&mut handshake.outgoing);
            let (opener, sealer, session, chain) = handshake.end()?;
            Ok(Secured { stream, opener, sealer, tickets, session, chain })
        }
        Err(error) => {
            // A client that left does not receive it.
            let _ = stream.write_all(&handshake.outgoing).await;
            drop(permit);
            if error.reason() == Failure::ClientCertificate {
                let _ = tokio::time::timeout(FAREWELL, part(&mut stream)).await;
            }
            Err(error)
        }
    }
}

/// Returns the first bytes from the client; none if it has left. A client that sends nothing holds no permit and no
/// memory.
async fn first_bytes(stream: &TcpStream) -> io::Result<Vec<u8>> {
    loop {
        // The runtime takes new connections for readable before any bytes have arrived.
        stream.readable().await?;
        let mut first = Vec::with_capacity(ROOM);
        match receive(stream, &mut first) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return received.map(|_| first),
        }
    }
}

/// Ends a connection whose client may have sent a request already. Closing with unread bytes would reset the
/// connection, and the client could lose the alert.
pub(super) async fn part(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut unread = [0; 1 << 10];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

pub(super) struct Handshake {
    connection: UnbufferedServerConnection,
    /// Whether the record layer continues with the keys.
    own_records: bool,
    /// Bytes from the client that rustls has not consumed.
    pub(super) incoming: Vec<u8>,
    /// Number of these bytes that rustls may see. It gets one record at a time, so that it sees no record behind the
    /// handshake.
    shown: usize,
    /// Bytes to the client that are not sent yet.
    pub(super) outgoing: Vec<u8>,
}

/// The next action of a handshake.
pub(super) enum HandshakeStep {
    Again,
    Send,
    Receive,
    Done,
}

impl Handshake {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let own_records = config.enable_secret_extraction;
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Self { connection, own_records, incoming: Vec::new(), shown: 0, outgoing: Vec::new() })
    }

    async fn run(&mut self, stream: &mut TcpStream) -> Result<(), Unsecured> {
        match self.incoming.first() {
            None => return Err(Unsecured::Left),
            // A TLS record begins with a byte below 32.
            Some(letter) if letter.is_ascii_uppercase() => {
                self.outgoing.extend_from_slice(USE_TLS);
                return Err(Unsecured::Plain);
            }
            Some(_) => {}
        }
        loop {
            match self.step() {
                Ok(HandshakeStep::Again) => {}
                Ok(HandshakeStep::Send) if self.may_wait() => {}
                Ok(HandshakeStep::Send) => {
                    stream.write_all(&self.outgoing).await.map_err(Unsecured::Io)?;
                    self.outgoing.clear();
                }
                Ok(HandshakeStep::Receive) => self.receive(stream).await?,
                Ok(HandshakeStep::Done) => return Ok(()),
                Err(error) => {
                    // The next step encodes the alert for this error.
                    let _ = self.step();
                    return Err(Unsecured::Tls(error));
                }
            }
        }
    }

    /// Whether the bytes to the client may wait for the reply to its first request: in TLS 1.3, only tickets follow the
    /// end of a handshake. If no request has arrived, they are sent at once, because the client's kernel may hold the
    /// request back until a packet acknowledges the end of the handshake (Nagle's algorithm).
    fn may_wait(&self) -> bool {
        let is_v13 = self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        is_v13 && !self.connection.is_handshaking() && !self.incoming.is_empty()
    }

    pub(super) fn step(&mut self) -> Result<HandshakeStep, rustls::Error> {
        let shown = &mut self.incoming[..self.shown];
        let UnbufferedStatus { discard, state, .. } = self.connection.process_tls_records(shown);
        let step = match state? {
            ConnectionState::EncodeTlsData(mut data) => {
                encode(&mut self.outgoing, |room| data.encode(room))?;
                HandshakeStep::Again
            }
            ConnectionState::TransmitTlsData(sent) => {
                sent.done();
                HandshakeStep::Send
            }
            ConnectionState::WriteTraffic(_) => HandshakeStep::Done,
            ConnectionState::BlockedHandshake => HandshakeStep::Receive,
            _ => return Err(rustls::Error::HandshakeNotComplete),
        };
        self.incoming.drain(..discard);
        self.shown -= discard;
        match step {
            HandshakeStep::Done if !self.connection.is_handshaking() => Ok(HandshakeStep::Done),
            HandshakeStep::Done | HandshakeStep::Receive if self.show_more() => Ok(HandshakeStep::Again),
            HandshakeStep::Done => Ok(HandshakeStep::Receive),
            step => Ok(step),
        }
    }

    /// Lets rustls see the next record, if all of it has arrived. Returns whether it has.
    fn show_more(&mut self) -> bool {
        let Some(&[_, _, _, high, low]) = self.incoming[self.shown..].first_chunk::<HEADER>() else {
            return false;
        };
        let end = self.shown + HEADER + usize::from(u16::from_be_bytes([high, low]));
        let is_here = end <= self.incoming.len();
        if is_here {
            self.shown = end;
        }
        is_here
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<(), Unsecured> {
        if self.incoming.len() >= MOST {
            return Err(Unsecured::Tls(rustls::Error::General(
                "the client's first messages are too long".to_owned(),
            )));
        }
        self.incoming.reserve(ROOM);
        if stream.read_buf(&mut self.incoming).await.map_err(Unsecured::Io)? == 0 {
            return Err(Unsecured::Left);
        }
        Ok(())
    }

    /// Ends the handshake and returns its result with both directions.
    pub(super) fn end(self) -> Result<Ended, Unsecured> {
        let session = Session {
            is_v13: self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            is_resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
            http2: self.connection.alpn_protocol() == Some(b"h2"),
            is_challenge: self.connection.alpn_protocol() == Some(challenges::PROTOCOL),
        };
        let chain = self.connection.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let halves = halves(self.connection, self.incoming, self.own_records);
        let (opener, sealer) = halves.map_err(Unsecured::Tls)?;
        Ok((opener, sealer, session, chain))
    }
}

/// Both directions, the session, and the client's certificates.
type Ended = (Opener, Sealer, Session, Vec<CertificateDer<'static>>);
