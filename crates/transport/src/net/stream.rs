//! The byte stream of a connection, plain or under TLS.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memmem;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use tokio_util::io::poll_read_buf;

use crate::net::input::{Input, receive};
use crate::net::relay::relay;

/// A connection to an origin.
#[derive(Debug)]
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// Under TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Wraps the connection of a Unix socket as a TCP stream: the system calls that read, write and close are the same for
/// both.
#[inline]
pub fn of_socket(stream: UnixStream) -> io::Result<TcpStream> {
    TcpStream::from_std(OwnedFd::from(stream.into_std()?).into())
}

impl Stream {
    /// Returns a stream without TLS that has the same bytes: a task relays those of one under TLS. It does not tell whether
    /// the other end has ended it or lost it, so its protocol has to. Fails if there is no room for two more sockets.
    pub fn relayed(self) -> io::Result<TcpStream> {
        let secured = match self {
            Self::Plain(stream) => return Ok(stream),
            Self::Tls(stream) => stream,
        };
        let (near, far) = UnixStream::pair()?;
        // Whatever ends it, the reader of the other socket notices.
        tokio::spawn(relay(secured, far));
        of_socket(near)
    }

    /// Returns the address of the other end; `None` for a Unix socket.
    pub fn peer(&self) -> Option<SocketAddr> {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        stream.peer_addr().ok()
    }

    /// Reads into `input`, which gets room for `room` bytes once some have arrived. Returns the number of bytes, 0 at the
    /// end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        (input, room): (&mut Input, usize),
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                match receive(stream, input.make_room_for(room)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    received => return Poll::Ready(received),
                }
            },
            Self::Tls(stream) => poll_read_buf(Pin::new(stream), cx, input.make_room_for(room)),
        }
    }

    /// Writes some of `bytes`. Returns their number.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_write_ready(cx))?;
                let send = || Ok(rustix::net::send(&*stream, bytes, SendFlags::NOSIGNAL)?);
                match stream.try_io(Interest::WRITABLE, send) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    sent => return Poll::Ready(sent),
                }
            },
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Flushes written bytes.
    #[inline]
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Is ready when bytes may have arrived, or the connection may have ended.
    pub(crate) fn poll_arrival(&self, cx: &mut Context<'_>) -> Poll<()> {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        stream.poll_read_ready(cx).map(|_| ())
    }

    /// Returns the state of an idle connection, as the kernel reports it: the readiness that the runtime has stored may
    /// be outdated.
    pub fn state(&mut self) -> State {
        let mut first = [0; SURPLUS];
        match self {
            Self::Plain(stream) => {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                match rustix::net::recv(&*stream, &mut first[..], flags) {
                    Err(Errno::WOULDBLOCK) => State::Quiet,
                    Ok((0, _)) | Err(_) => State::Closed,
                    Ok((count, _)) => State::of(&first[..count]),
                }
            }
            Self::Tls(stream) => {
                let (stream, session) = stream.get_mut();
                let mut received = SocketReader(stream);
                // Servers may send session tickets between requests; these are few and harmless.
                for _ in 0..MOST_RECORDS {
                    match session.process_new_packets() {
                        Ok(found) if found.plaintext_bytes_to_read() > 0 => {
                            let count = session.reader().read(&mut first).unwrap_or_default();
                            return State::of(&first[..count]);
                        }
                        Ok(found) if !found.peer_has_closed() => {}
                        _ => return State::Closed,
                    }
                    match session.read_tls(&mut received) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return State::Quiet,
                        Ok(1..) => {}
                        Ok(0) | Err(_) => return State::Closed,
                    }
                }
                State::Closed
            }
        }
    }
}

/// The state of an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The connection is open, and no bytes have arrived.
    Quiet,
    /// The connection was closed.
    Closed,
    /// Bytes arrived without a request.
    Talks(Surplus),
}

/// Bytes behind a response that belong to no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surplus {
    /// No response begins in these bytes: nothing was taken for a response in place of another one.
    Bytes,
    /// A response begins in these bytes. It may be the true response to a request that got another one.
    Response,
}

/// Maximum of reads from an idle TLS connection before it counts as closed.
const MOST_RECORDS: usize = 16;
/// Unsolicited bytes that are examined.
const SURPLUS: usize = 512;

impl State {
    /// Classifies the first unsolicited bytes: some origins send 408 before they close an idle connection (RFC 9110
    /// section 15.5.9).
    fn of(first: &[u8]) -> Self {
        match [&b"HTTP/1.1 408"[..], b"HTTP/1.0 408"].iter().any(|timeout| first.starts_with(timeout)) {
            true => Self::Closed,
            false => Self::Talks(Surplus::of(first)),
        }
    }
}

impl Surplus {
    /// Classifies the bytes behind a response.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        match memmem::find(bytes, b"HTTP/1.") {
            Some(_) => Self::Response,
            None => Self::Bytes,
        }
    }
}

/// Reads from a socket without waiting, independently of the runtime's readiness state.
struct SocketReader<'s>(&'s TcpStream);

impl io::Read for SocketReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.0, buffer, RecvFlags::DONTWAIT)?.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::{TlsAcceptor, TlsConnector, server};

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (connected, listener.accept().await.unwrap().0)
    }

    /// Returns a connection under TLS and its other end; the certificates are for this test alone.
    async fn secured() -> (Stream, server::TlsStream<TcpStream>) {
        let provider = crate::net::tls::provider();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(include_bytes!("testdata/ca.pem")).unwrap()).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(include_bytes!("testdata/leaf.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("testdata/leaf.key")).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let client = client.with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let server =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth().with_single_cert(chain, key).unwrap();
        let (near, far) = pair().await;
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::new(client)).connect(name, near);
        let accepting = TlsAcceptor::from(Arc::new(server)).accept(far);
        let (near, far) = tokio::join!(connecting, accepting);
        (Stream::Tls(Box::new(near.unwrap())), far.unwrap())
    }

    /// Returns the state of a connection once it is not [`State::Quiet`].
    async fn found(stream: &mut Stream) -> State {
        loop {
            match stream.state() {
                State::Quiet => tokio::task::yield_now().await,
                state => return state,
            }
        }
    }

    const UNSOLICITED: [(&[u8], State); 4] = [
        (b"x", State::Talks(Surplus::Bytes)),
        (b"more\r\nHTTP/1.1 200 OK\r\n\r\n", State::Talks(Surplus::Response)),
        (b"HTTP/1.1 408 Request Timeout\r\n\r\n", State::Closed),
        (b"", State::Closed),
    ];

    #[tokio::test]
    async fn unsolicited_bytes_of_an_origin_are_found_without_polling_the_runtime() {
        for (sent, expected) in UNSOLICITED {
            let (near, mut far) = pair().await;
            let mut near = Stream::Plain(near);
            assert_eq!(near.state(), State::Quiet);
            far.write_all(sent).await.unwrap();
            far.shutdown().await.unwrap();
            assert_eq!(found(&mut near).await, expected, "{sent:?}");
        }
    }

    #[tokio::test]
    async fn under_tls_session_tickets_are_quiet_and_content_is_not() {
        for (sent, expected) in UNSOLICITED {
            let (mut near, mut far) = secured().await;
            // The tickets were sent, but the client has not read them yet.
            assert_eq!(near.state(), State::Quiet);
            let Stream::Tls(stream) = &mut near else { panic!("it is under TLS") };
            stream.write_all(b"ask").await.unwrap();
            far.read_exact(&mut [0; 3]).await.unwrap();
            far.write_all(b"answer").await.unwrap();
            far.flush().await.unwrap();
            stream.read_exact(&mut [0; 6]).await.unwrap();
            assert_eq!(near.state(), State::Quiet);
            far.write_all(sent).await.unwrap();
            far.shutdown().await.unwrap();
            assert_eq!(found(&mut near).await, expected, "{sent:?}");
        }
    }
}
