//! The handshake of a client's connection. rustls makes it; then the record layer continues with its keys.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use larder_words::named;
use rustls::pki_types::CertificateDer;
use rustls::server::{ServerConfig, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{HandshakeKind, InvalidMessage, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::alerts::{NO_CERTIFICATE, NO_SCHEME, alert_for};
use super::challenges;
use super::halves::{Opener, Sealer, halves};
use super::record::MOST_SEALED;
use crate::net::concurrency::ConcurrencyLimit;
use crate::net::farewell::close;
use crate::net::input::receive;

/// Maximum of bytes from the client in a handshake that are received and not processed.
const MOST: usize = 20 << 10;
/// Bytes to receive at once: a first message rarely needs more.
const ROOM: usize = 4 << 10;
/// Bytes of a record's header.
const HEADER: usize = 5;

/// Alerts that are not encrypted: a fatal `internal_error`, and `close_notify`.
const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];
const CLOSE_NOTIFY: [u8; 7] = [21, 3, 3, 0, 2, 1, 0];
/// A record of an unknown type. rustls has an alert for it.
const UNKNOWN: [u8; HEADER] = [255, 3, 3, 0, 1];

/// The response to a client that speaks HTTP without TLS.
pub(super) const USE_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 58\r\nConnection: close\r\n\r\n400: this address speaks HTTP over TLS: use https:// here\n";

/// A connection whose handshake is done.
#[derive(Debug)]
pub struct TlsConnection {
    /// The connection.
    pub stream: TcpStream,
    pub(crate) opener: Opener,
    pub(crate) sealer: Sealer,
    /// Tickets that are sent with the reply to a request that has arrived, which saves a packet and a system call.
    pub tickets: Vec<u8>,
    /// The session.
    pub session: Session,
    /// The client's certificates, the leaf first; empty if the client has presented none.
    pub chain: Vec<CertificateDer<'static>>,
}

/// The outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Whether the version is TLS 1.3; otherwise, it is TLS 1.2.
    pub is_v13: bool,
    /// Whether an earlier session was resumed.
    pub(crate) is_resumed: bool,
    /// Whether HTTP/2 was negotiated.
    pub http2: bool,
    /// Whether the peer is an authority that has verified a name; it sends no request.
    pub is_challenge: bool,
}

/// The reason why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
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

impl HandshakeError {
    /// Returns the reason for metrics.
    pub fn reason(&self) -> Failure {
        match self {
            Self::TimedOut(_) => Failure::Timeout,
            Self::Left | Self::Io(_) => Failure::Left,
            Self::Plain => Failure::Plain,
            Self::Busy => Failure::Busy,
            Self::Tls(rustls::Error::AlertReceived(_)) => Failure::Alert,
            Self::Tls(rustls::Error::General(why)) if why == NO_CERTIFICATE => Failure::NoCertificate,
            Self::Tls(rustls::Error::PeerIncompatible(_)) => Failure::Incompatible,
            Self::Tls(rustls::Error::General(why)) if why == NO_SCHEME => Failure::Incompatible,
            Self::Tls(rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)) => {
                Failure::ClientCertificate
            }
            Self::Tls(_) => Failure::Malformed,
        }
    }
}

named! {
    /// The kinds of failed handshakes, for metrics.
    pub enum Failure, name {
        /// It took too long.
        Timeout = "timeout",
        /// The client left, or its connection failed.
        Left = "left",
        /// HTTP without TLS.
        Plain = "plain-http",
        /// Too many were in progress.
        Busy = "busy",
        /// The client ended it by an alert.
        Alert = "alert",
        /// Nothing that both sides support.
        Incompatible = "incompatible",
        /// Messages that are not TLS.
        Malformed = "malformed",
        /// A certificate of the client that is not accepted.
        ClientCertificate = "client-certificate",
        /// No certificate for the name.
        NoCertificate = "no-certificate",
    }
}

/// Makes the handshake with `client` at the other end of `stream` within `limit`, once it has sent bytes and a permit is
/// free. Errors: the reason for the failure. A client that has sent bytes has been sent an alert, except if it sent one
/// itself, or if it took too long after it was sent encrypted messages.
pub(super) async fn accept(
    stream: TcpStream,
    client: IpAddr,
    config: Arc<ServerConfig>,
    permits: &Arc<ConcurrencyLimit>,
    limit: Duration,
) -> Result<TlsConnection, HandshakeError> {
    let end = Instant::now() + limit;
    let Ok(first) = timeout_at(end, first_bytes(&stream)).await else {
        return Err(HandshakeError::TimedOut(limit));
    };
    let first = first.map_err(HandshakeError::Io)?;
    accept_after(first, stream, client, config, permits, (limit, end)).await
}

/// The same after the `first` bytes from the client have been read; `limit` ends at `end`.
pub async fn accept_after(
    first: Vec<u8>,
    mut stream: TcpStream,
    client: IpAddr,
    config: Arc<ServerConfig>,
    permits: &Arc<ConcurrencyLimit>,
    (limit, end): (Duration, Instant),
) -> Result<TlsConnection, HandshakeError> {
    let late = HandshakeError::TimedOut(limit);
    let Ok(Ok(permit)) = timeout_at(end, permits.enter(permits.claim((), client), None)).await else {
        close(&mut stream, &INTERNAL_ERROR).await;
        return Err(HandshakeError::Busy);
    };
    let mut handshake = Handshake::new(config).map_err(HandshakeError::Tls)?;
    handshake.incoming = first;
    let error = match timeout_at(end, handshake.run(&mut stream)).await.unwrap_or(Err(late)) {
        Ok(()) => {
            let tickets = std::mem::take(&mut handshake.outgoing);
            let (opener, sealer, session, chain) = handshake.end()?;
            return Ok(TlsConnection { stream, opener, sealer, tickets, session, chain });
        }
        Err(error) => error,
    };
    handshake.refuse(&error);
    let last = std::mem::take(&mut handshake.outgoing);
    drop((handshake, permit));
    close(&mut stream, &last).await;
    Err(error)
}

/// Returns the first bytes from the client; none if it has left. A client that sends nothing holds no permit and no
/// memory.
pub async fn first_bytes(stream: &TcpStream) -> io::Result<Vec<u8>> {
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

pub(super) struct Handshake {
    connection: UnbufferedServerConnection,
    /// Bytes from the client that rustls has not consumed.
    pub(super) incoming: Vec<u8>,
    /// Number of these bytes that rustls may see. It gets one record at a time, so that it sees no record behind the
    /// handshake.
    shown: usize,
    /// The start of the last record among them.
    latest: usize,
    /// Bytes to the client that are not sent yet.
    pub(super) outgoing: Vec<u8>,
    has_sent: bool,
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
        let connection = UnbufferedServerConnection::new(config)?;
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        Ok(Self { connection, incoming, shown: 0, latest: 0, outgoing, has_sent: false })
    }

    async fn run(&mut self, stream: &mut TcpStream) -> Result<(), HandshakeError> {
        match self.incoming.first() {
            None => return Err(HandshakeError::Left),
            // A TLS record begins with a byte below 32.
            Some(letter) if letter.is_ascii_uppercase() => {
                self.outgoing.extend_from_slice(USE_TLS);
                return Err(HandshakeError::Plain);
            }
            Some(_) => {}
        }
        loop {
            match self.step() {
                Ok(HandshakeStep::Again) => {}
                Ok(HandshakeStep::Send) if self.may_wait() => {}
                Ok(HandshakeStep::Send) => {
                    self.has_sent = true;
                    stream.write_all(&self.outgoing).await.map_err(HandshakeError::Io)?;
                    self.outgoing.clear();
                }
                Ok(HandshakeStep::Receive) => self.receive(stream).await?,
                Ok(HandshakeStep::Done) => return Ok(()),
                Err(error) => return Err(HandshakeError::Tls(error)),
            }
        }
    }

    /// Makes the bytes to the client end with the alert for `error`, if it has one.
    fn refuse(&mut self, error: &HandshakeError) {
        match error {
            HandshakeError::Tls(error) => self.alert(error),
            HandshakeError::TimedOut(_) if !self.has_sent => self.outgoing = CLOSE_NOTIFY.to_vec(),
            HandshakeError::Plain => {}
            // The client may have received a part of them.
            _ => self.outgoing.clear(),
        }
    }

    fn alert(&mut self, error: &rustls::Error) {
        let alert = alert_for(error, &self.incoming);
        if !self.connection.wants_write() && !matches!(error, rustls::Error::AlertReceived(_)) {
            // rustls has no alert. It makes one if a bad record replaces the last one or follows it: which of them it
            // reads next depends on the error.
            self.incoming.truncate(self.shown);
            self.incoming[self.latest..].iter_mut().zip(UNKNOWN).for_each(|(byte, bad)| *byte = bad);
            self.incoming.extend_from_slice(&UNKNOWN);
            self.shown = self.incoming.len();
            let _ = self.step();
        }
        while self.connection.wants_write() && self.step().is_ok() {}
        if let (Some(alert), [.., 21, 3, 3, 0, 2, 2, code]) = (alert, &mut self.outgoing[..]) {
            *code = alert.into();
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
        self.latest = self.latest.saturating_sub(discard);
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
        let length = usize::from(u16::from_be_bytes([high, low]));
        // A record that is too long is refused by its header.
        let end = self.shown + HEADER + if length > MOST_SEALED { 0 } else { length };
        let is_here = end <= self.incoming.len();
        if is_here {
            (self.latest, self.shown) = (self.shown, end);
        }
        is_here
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<(), HandshakeError> {
        if self.incoming.len() >= MOST {
            return Err(HandshakeError::Tls(InvalidMessage::HandshakePayloadTooLarge.into()));
        }
        self.incoming.reserve(ROOM);
        if stream.read_buf(&mut self.incoming).await.map_err(HandshakeError::Io)? == 0 {
            return Err(HandshakeError::Left);
        }
        Ok(())
    }

    /// Ends the handshake and returns its result with both directions.
    pub(super) fn end(self) -> Result<HandshakeParts, HandshakeError> {
        let session = Session {
            is_v13: self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            is_resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
            http2: self.connection.alpn_protocol() == Some(b"h2"),
            is_challenge: self.connection.alpn_protocol() == Some(challenges::PROTOCOL),
        };
        let chain = self.connection.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let halves = halves(self.connection, self.incoming);
        let (opener, sealer) = halves.map_err(HandshakeError::Tls)?;
        Ok((opener, sealer, session, chain))
    }
}

/// Both directions, the session, and the client's certificates.
type HandshakeParts = (Opener, Sealer, Session, Vec<CertificateDer<'static>>);

/// Appends the bytes to `out` that `encode` writes. It names their number before it writes them.
fn encode(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), rustls::Error> {
    let (start, mut room) = (out.len(), 0);
    loop {
        out.resize(start + room, 0);
        match encode(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(needed)) if needed.required_size > room => {
                room = needed.required_size;
            }
            Err(error) => return Err(rustls::Error::General(error.to_string())),
        }
    }
}
