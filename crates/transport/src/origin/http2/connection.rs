//! A connection to an origin, and the task that reads and writes its frames.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::base::clock;
use crate::base::networks::{bare, host_of};
use crate::http::response::LONGEST;
use crate::net::stream;
use crate::origin::connect::OpenConnection;
use crate::origin::quota::QuotaPermit;
use crate::origin::resolve::Resolver;

/// Bytes of a response that an origin of the config may send before they are consumed.
pub(super) const WINDOW: u32 = 256 << 10;
/// Maximum of concurrent requests on a connection, if the origin permits that many.
const MOST_STREAMS: usize = 100;
/// The number of streams that the library permits before the origin's first `SETTINGS`: no setting can be this large.
const UNTOLD: usize = usize::MAX - 1;
/// How long further requests wait for these. An origin that does not send them at once violates RFC 9113 section 3.4.
const SETTLING: Duration = Duration::from_secs(1);
/// The longest list of fields of a response, in which each counts 32 bytes more (RFC 9113 section 6.5.2). The bytes of a
/// head decide: see [`LONGEST`].
const LONGEST_LIST: u32 = 8 * LONGEST as u32;
/// Maximum time for which a connection without requests is kept, in milliseconds.
const PATIENCE: u64 = 30_000;
/// Interval between checks of that time.
const SWEEP: Duration = Duration::from_secs(2);
/// Time without acknowledgements from the other machine after which the connection is closed.
const SILENCE: Duration = Duration::from_secs(30);

/// A connection to an origin.
#[derive(Debug)]
pub(in crate::origin) struct Connection {
    sender: SendRequest<Bytes>,
    streams: AtomicUsize,
    /// The end of its last stream, in `clock::millis`.
    idle_since: AtomicU64,
    /// Whether a response did not arrive in time. The connection may be broken, so it gets no further requests.
    is_distrusted: AtomicBool,
    was_used: AtomicBool,
    /// Whether its origin has told how many streams it permits, or is not waited for any longer.
    settled: watch::Receiver<bool>,
    host: Box<str>,
    /// The address of the other end, if the host is a name and not an address.
    found: Option<SocketAddr>,
    /// Its place among the connections that are kept, if the config does not name its origin.
    _counted: Option<QuotaPermit>,
}

/// A slot for one request on a connection.
#[derive(Debug)]
pub(in crate::origin) struct Stream {
    connection: Arc<Connection>,
    /// Whether the connection had earlier requests.
    pub(in crate::origin) was_used: bool,
    /// Its share of the large windows, if the config does not name its origin.
    counted: Option<QuotaPermit>,
}

impl Connection {
    /// Starts HTTP/2 with the origin `authority` at the other end of a connection, with this window for each response. The
    /// connection's task calls `look` periodically, and when the connection has ended; with `true` if it has ended before
    /// the origin's `SETTINGS`.
    pub(super) async fn begin(
        opened: OpenConnection,
        authority: &str,
        (window, counted): (u32, Option<QuotaPermit>),
        look: impl Fn(bool) + Send + 'static,
    ) -> Result<Arc<Self>, h2::Error> {
        let host = bare(host_of(authority)).into();
        let found = opened.found(authority);
        match opened.stream {
            stream::Stream::Plain(stream) => {
                watch(&stream);
                Self::speak(stream, (host, found), (window, counted), look).await
            }
            stream::Stream::Tls(stream) => {
                watch(stream.get_ref().0);
                Self::speak(*stream, (host, found), (window, counted), look).await
            }
        }
    }

    async fn speak<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        stream: S,
        (host, found): (Box<str>, Option<SocketAddr>),
        (window, counted): (u32, Option<QuotaPermit>),
        look: impl Fn(bool) + Send + 'static,
    ) -> Result<Arc<Self>, h2::Error> {
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(window)
            // With this size, an unread response takes no window from others.
            .initial_connection_window_size(window * MOST_STREAMS as u32)
            .max_header_list_size(LONGEST_LIST)
            .initial_max_send_streams(UNTOLD);
        let (sender, connection) = builder.handshake(stream).await?;
        let (settles, settled) = watch::channel(false);
        tokio::spawn(run(connection, (sender.clone(), settles), host.clone(), look));
        Ok(Arc::new(Self {
            sender,
            streams: AtomicUsize::new(0),
            idle_since: AtomicU64::new(clock::millis()),
            is_distrusted: AtomicBool::new(false),
            was_used: AtomicBool::new(false),
            settled,
            host,
            found,
            _counted: counted,
        }))
    }

    /// Returns a slot for one more request, which may have to wait for others.
    pub(super) fn stream(self: &Arc<Self>) -> Stream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        let was_used = self.was_used.swap(true, Ordering::Relaxed);
        Stream { connection: Arc::clone(self), was_used, counted: None }
    }

    /// Returns the number of requests in progress.
    pub(super) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Whether a further request can start without waiting for another one. The first one can at once.
    pub(super) fn has_room(&self) -> bool {
        let most = if self.is_settled() { self.sender.current_max_send_streams() } else { 1 };
        self.streams() < most.min(MOST_STREAMS)
    }

    /// Whether it is known how many requests the origin permits.
    pub(super) fn is_settled(&self) -> bool {
        *self.settled.borrow()
    }

    /// Waits until that is known.
    pub(super) async fn settle(&self) {
        // An error means that the connection has ended.
        let _ = self.settled.clone().wait_for(|settled| *settled).await;
    }

    /// Whether further requests may be sent on the connection.
    pub(super) fn is_good(&self, resolver: &Resolver) -> bool {
        let has_left = || self.found.is_some_and(|address| resolver.has_left(&self.host, address));
        let is_open = || {
            let ready = self.sender.clone().poll_ready(&mut Context::from_waker(Waker::noop()));
            !matches!(ready, Poll::Ready(Err(_)))
        };
        !self.is_distrusted.load(Ordering::Relaxed) && is_open() && !has_left()
    }

    /// Whether the connection had no requests for [`PATIENCE`].
    pub(super) fn is_idle(&self) -> bool {
        self.streams() == 0 && clock::millis() >= self.idle_since.load(Ordering::Relaxed) + PATIENCE
    }
}

impl Stream {
    /// Holds `counted` until the stream is dropped.
    pub(super) fn counted(mut self, counted: QuotaPermit) -> Self {
        self.counted = Some(counted);
        self
    }

    /// Sends a request's head. `end`: whether neither content nor trailers follow. Errors: the connection has ended, or
    /// accepts no further requests.
    pub(super) fn send(
        &mut self,
        message: Request<()>,
        end: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        self.connection.sender.clone().send_request(message, end)
    }

    /// Excludes the connection from further requests.
    pub(super) fn distrust(&self) {
        self.connection.is_distrusted.store(true, Ordering::Relaxed);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.idle_since.store(clock::millis(), Ordering::Relaxed);
        self.connection.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes the kernel detect that the other machine is gone.
fn watch(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(SILENCE / 3).with_retries(3);
    // If this fails, it is detected only once a response does not arrive in time.
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(SILENCE));
}

/// Reads and writes frames until the connection ends. A connection that was removed ends once it has no streams.
async fn run<S: AsyncRead + AsyncWrite + Send + Unpin>(
    mut connection: h2::client::Connection<S>,
    (sender, settles): (SendRequest<Bytes>, watch::Sender<bool>),
    host: Box<str>,
    look: impl Fn(bool) + Send,
) {
    let settled = poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if sender.current_max_send_streams() != UNTOLD => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    let mut ended = timeout(SETTLING, settled).await.ok().flatten();
    // Those that wait are to see it as soon as they are woken.
    look(ended.is_some() && sender.current_max_send_streams() == UNTOLD);
    // The connection would not end while there is a sender.
    drop(sender);
    settles.send_replace(true);
    loop {
        look(false);
        match ended {
            None => ended = timeout(SWEEP, &mut connection).await.ok(),
            Some(Ok(())) => return,
            Some(Err(error)) => return tracing::debug!("connection to {host} ended: {error}"),
        }
    }
}
