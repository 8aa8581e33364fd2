//! The handshake of a client's connection. rustls makes it; then both directions go on with its keys.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::server::{ServerConfig, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{HandshakeKind, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::challenges;
use super::record::{self, Opener, Sealer};
use crate::net::concurrency::ConcurrencyLimit;

/// Bytes that a client may send in a handshake before any of them could be used.
const MOST: usize = 20 << 10;
/// Room for what is received at once: a first message rarely needs more.
const ROOM: usize = 4 << 10;
/// How long a client has to read why its certificate was refused.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);
/// Bytes of a record's header.
const HEADER: usize = 5;

/// What rustls says where no certificate is for the name that a client asks for.
const NO_CERTIFICATE: &str = "no server certificate chain resolved";

/// What a client gets that speaks HTTP without TLS.
pub(super) const USE_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 58\r\nConnection: close\r\n\r\n400: this address speaks HTTP over TLS: use https:// here\n";

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) stream: TcpStream,
    pub(crate) opener: Opener,
    pub(crate) sealer: Sealer,
    pub(crate) session: Session,
    /// The certificates of the client, its own first; none if it has shown none.
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

/// What was agreed in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// TLS 1.3, or else 1.2.
    pub(crate) is_v13: bool,
    /// An earlier session was resumed.
    pub(crate) is_resumed: bool,
    /// The client speaks HTTP/2.
    pub(crate) http2: bool,
    /// It is no client, but an authority that has verified a name, and is done.
    pub(crate) is_challenge: bool,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsecured {
    /// It took too long.
    #[error("the handshake took longer than {0:?}")]
    TimedOut(Duration),
    /// The client left.
    #[error("the client left during the handshake")]
    Left,
    /// It speaks HTTP without TLS.
    #[error("the client speaks HTTP without TLS")]
    Plain,
    /// Too many handshakes wait already.
    #[error("too many handshakes at once")]
    Busy,
    /// The kernel's.
    #[error("{0}")]
    Io(io::Error),
    /// What the client sent, or did not accept.
    #[error("{0}")]
    Tls(rustls::Error),
}

impl Unsecured {
    /// The reason in metrics.
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

/// The kinds of failed handshakes.
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
    /// All of them, in the order of their numbers.
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

    /// Its name in metrics.
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

/// Makes the handshake with `client` at the other end of `stream`, when it has said something and there is a permit.
///
/// # Errors
/// Why there is no connection. The client has been told as far as TLS has words for it.
pub(super) async fn accept(
    mut stream: TcpStream,
    client: IpAddr,
    config: Arc<ServerConfig>,
    permits: &Arc<ConcurrencyLimit>,
) -> Result<Secured, Unsecured> {
    // Nothing is held for a client that says nothing.
    stream.readable().await.map_err(Unsecured::Io)?;
    let permit = permits.enter(permits.claim((), client), None).await.map_err(|_| Unsecured::Busy)?;
    let mut handshake = Handshake::new(config).map_err(Unsecured::Tls)?;
    match handshake.run(&mut stream).await {
        Ok(()) => {
            let (opener, sealer, session, chain) = handshake.end()?;
            Ok(Secured { stream, opener, sealer, session, chain })
        }
        Err(error) => {
            // A client that left does not get it.
            let _ = stream.write_all(&handshake.outgoing).await;
            drop(permit);
            if error.reason() == Failure::ClientCertificate {
                let _ = tokio::time::timeout(FAREWELL, part(&mut stream)).await;
            }
            Err(error)
        }
    }
}

/// Ends a connection whose client may have sent a request already: closed with unread bytes, it would be reset, and the
/// client could lose the alert.
pub(super) async fn part(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut unread = [0; 1 << 10];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

pub(super) struct Handshake {
    connection: UnbufferedServerConnection,
    /// Bytes from the client that were not used yet.
    pub(super) incoming: Vec<u8>,
    /// How many of them rustls has seen. It gets one record at a time, so that it sees none behind the handshake.
    shown: usize,
    /// Bytes to the client that were not sent yet.
    pub(super) outgoing: Vec<u8>,
}

/// What is to be done next.
pub(super) enum HandshakeStep {
    Again,
    Send,
    Receive,
    Done,
}

impl Handshake {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Self { connection, incoming: Vec::new(), shown: 0, outgoing: Vec::new() })
    }

    async fn run(&mut self, stream: &mut TcpStream) -> Result<(), Unsecured> {
        loop {
            match self.step() {
                Ok(HandshakeStep::Again) => {}
                Ok(HandshakeStep::Send) => {
                    stream.write_all(&self.outgoing).await.map_err(Unsecured::Io)?;
                    self.outgoing.clear();
                }
                Ok(HandshakeStep::Receive) => self.receive(stream).await?,
                Ok(HandshakeStep::Done) => return Ok(()),
                Err(error) => {
                    // The alert that says so comes with the next step.
                    let _ = self.step();
                    return Err(Unsecured::Tls(error));
                }
            }
        }
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

    /// Shows the next record, if it is here.
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
        // A record of TLS begins with a number below 32.
        if self.incoming.first().is_some_and(u8::is_ascii_uppercase) && self.connection.is_handshaking() {
            self.outgoing.extend_from_slice(USE_TLS);
            return Err(Unsecured::Plain);
        }
        Ok(())
    }

    /// Goes on with the keys alone.
    pub(super) fn end(self) -> Result<Ended, Unsecured> {
        let session = Session {
            is_v13: self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            is_resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
            http2: self.connection.alpn_protocol() == Some(b"h2"),
            is_challenge: self.connection.alpn_protocol() == Some(challenges::PROTOCOL),
        };
        let chain = self.connection.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let (secrets, kernel) = self.connection.dangerous_into_kernel_connection().map_err(Unsecured::Tls)?;
        let halves = record::halves(secrets, kernel);
        let (mut opener, sealer) = halves.map_err(|fault| Unsecured::Io(fault.into()))?;
        opener.begin_with(self.incoming);
        Ok((opener, sealer, session, chain))
    }
}

/// Both directions, what was agreed, and the certificates of the client.
type Ended = (Opener, Sealer, Session, Vec<CertificateDer<'static>>);

/// Appends to `out` what `encode` writes into the room that it is given.
fn encode(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), rustls::Error> {
    let (start, mut room) = (out.len(), HEADER + record::MOST);
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
