//! The connections of one client to origins that speak HTTP/2.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use larder_semantics::status::Why;
use parking_lot::Mutex;
use tokio::sync::MutexGuard;
use tokio::time::timeout;

use super::connection::{Connection, Stream, WINDOW};
use crate::base::clock;
use crate::origin::connect::{OpenConnection, Protocols};
use crate::origin::connection;
use crate::origin::idle::Idle;
use crate::origin::quota::Quota;
use crate::origin::resolve::Resolver;
use crate::origin::tls_fault::TlsFault;
use crate::origin::{Common, ConnectError, Connector, OriginError};

/// Maximum of connections to one origin.
const MOST: usize = 32;
/// Maximum of origins that are remembered; beyond it, those without connections are forgotten.
const MOST_ORIGINS: usize = 1_024;
/// Bytes of a response that an origin may send before they are consumed, if it has negotiated HTTP/2: large enough for
/// 160 Mbit/s over 100 ms.
const LARGE_WINDOW: u32 = 2 << 20;
/// How long an origin that wants HTTP/1.1 is asked in that, in milliseconds.
const REMEMBERED: u64 = 600_000;

/// The HTTP/2 connections of one client.
#[derive(Debug)]
pub(in crate::origin) struct Places {
    /// Connections by authority: first without TLS, then with TLS.
    places: [Mutex<HashMap<Box<str>, Arc<OriginConnections>>>; 2],
    resolver: Arc<Resolver>,
    quota: Arc<Quota>,
    /// The responses that have a large window.
    windows: Arc<Quota>,
}

/// A request whose origin chooses the protocol.
pub(in crate::origin) struct Choice<'c> {
    /// The client, which gets its share of the lookups of names.
    pub(in crate::origin) client: Option<IpAddr>,
    /// Where a connection goes if the origin has chosen HTTP/1.1.
    pub(in crate::origin) idle: &'c Arc<Idle>,
    /// How long the request waits for those that open connections.
    pub(in crate::origin) patience: Duration,
}

/// The connections to one origin.
#[derive(Debug, Default)]
struct OriginConnections {
    connections: Mutex<Vec<Arc<Connection>>>,
    /// Held while a connection is opened: other requests wait for it instead of opening their own.
    opening: tokio::sync::Mutex<()>,
    failures: AtomicU64,
    failure: Mutex<Option<OriginError>>,
    /// The time until which the origin is asked in HTTP/1.1, in `clock::millis`.
    http1_until: AtomicU64,
}

impl Places {
    /// Creates an empty set.
    pub(in crate::origin) fn new(common: &Common) -> Self {
        let (quota, windows) = (Arc::clone(&common.quota), Arc::clone(&common.windows));
        Self { places: Default::default(), resolver: Arc::clone(&common.resolver), quota, windows }
    }

    /// Returns a slot for a request on a connection over TLS to the origin `authority`. `None`: the request is to be sent
    /// in HTTP/1.1.
    pub(in crate::origin) async fn negotiated(
        &self,
        connector: &Connector,
        authority: &str,
        choice: &Choice<'_>,
    ) -> Result<Option<Stream>, ConnectError> {
        let place = self.place(true, authority);
        let Some(counted) = self.windows.count().filter(|_| !place.is_http1()) else { return Ok(None) };
        if let Some(stream) = place.take(&self.resolver) {
            return Ok(Some(stream.counted(counted)));
        }
        let failures = place.failures.load(Ordering::Relaxed);
        // The first request finds out for those that come meanwhile.
        let turn = place.turn(&self.resolver, choice.patience).await;
        let Some((_opening, stream)) = turn.filter(|_| !place.is_http1()) else { return Ok(None) };
        if let Some(stream) = stream {
            return Ok(Some(stream.counted(counted)));
        }
        // A failure may have been due to its client.
        if place.failures.load(Ordering::Relaxed) != failures {
            return Ok(None);
        }
        // A connection that cannot be kept would carry one request, while the others wait to open theirs.
        if self.quota.count().is_none() {
            return Ok(None);
        }
        let opened = match connector.open_for(true, authority, choice.client, Protocols::Either).await {
            // It may refuse each protocol that is offered; HTTP/1.1 offers none.
            Err(ConnectError::Tls(_, TlsFault::Other(_))) => {
                place.want_http1();
                return Ok(None);
            }
            opened => opened.inspect_err(|_| _ = place.failures.fetch_add(1, Ordering::Relaxed))?,
        };
        let connection = self.keep(opened, authority, choice.idle).await;
        Ok(connection.map(|connection| connection.stream().counted(counted)))
    }

    /// Keeps a connection over TLS to `authority`, whose origin has chosen the protocol. Returns it if that is HTTP/2.
    pub(in crate::origin) async fn keep(
        &self,
        opened: OpenConnection,
        authority: &str,
        idle: &Arc<Idle>,
    ) -> Option<Arc<Connection>> {
        let place = self.place(true, authority);
        if !opened.is_http2() {
            place.want_http1();
            idle.put(Box::new(connection::Connection::new(opened, true, authority)));
            return None;
        }
        let counted = self.quota.count();
        let is_kept = counted.is_some();
        let begun =
            Connection::begin(opened, authority, (LARGE_WINDOW, counted), self.look(&place, authority)).await;
        let begun = begun.inspect_err(|_| place.want_http1()).ok()?;
        if is_kept {
            place.connections.lock().push(Arc::clone(&begun));
        }
        Some(begun)
    }

    /// Sends the following requests to the origin `authority` in HTTP/1.1 for a while.
    pub(in crate::origin) fn want_http1(&self, authority: &str) {
        self.place(true, authority).want_http1();
    }

    /// Returns a slot for a request on a connection to the origin `authority`, which has to speak HTTP/2. The request waits
    /// at most `patience` for those that open connections.
    pub(in crate::origin) async fn stream(
        &self,
        connector: &Connector,
        (https, authority): (bool, &str),
        patience: Duration,
    ) -> Result<Stream, OriginError> {
        let place = self.place(https, authority);
        if let Some(stream) = place.take(&self.resolver) {
            return Ok(stream);
        }
        let failures = place.failures.load(Ordering::Relaxed);
        let Some((_opening, stream)) = place.turn(&self.resolver, patience).await else {
            let detail = format!("no connection to {authority} had room within {patience:?}");
            return Err(OriginError::unsent(StatusCode::GATEWAY_TIMEOUT, Why::OriginTimeout, detail));
        };
        if let Some(stream) = stream {
            return Ok(stream);
        }
        if place.failures.load(Ordering::Relaxed) != failures
            && let Some(failure) = place.failure.lock().clone()
        {
            return Err(failure);
        }
        let opened = self.open(connector, https, authority, &place).await;
        match &opened {
            Ok(connection) => place.connections.lock().push(Arc::clone(connection)),
            Err(error) => place.fail(error.clone()),
        }
        opened.map(|connection| connection.stream())
    }

    async fn open(
        &self,
        connector: &Connector,
        https: bool,
        authority: &str,
        place: &Arc<OriginConnections>,
    ) -> Result<Arc<Connection>, OriginError> {
        let opened = connector.open_for(https, authority, None, Protocols::Http2).await?;
        let begun = Connection::begin(opened, authority, (WINDOW, None), self.look(place, authority)).await;
        begun.map_err(|error| without_http2(authority, &error.to_string()))
    }

    /// Returns a function that drops connections in `place` that are of no more use. Its argument: whether a connection
    /// has ended before the origin's `SETTINGS`.
    fn look(&self, place: &Arc<OriginConnections>, authority: &str) -> impl Fn(bool) + Send + use<> {
        let (place, resolver) = (Arc::downgrade(place), Arc::clone(&self.resolver));
        let authority: Box<str> = authority.into();
        move |is_refused| {
            let Some(place) = place.upgrade() else { return };
            if is_refused {
                place.fail(without_http2(&authority, "the connection ended before its SETTINGS"));
            }
            place.tidy(&resolver);
        }
    }

    fn place(&self, https: bool, authority: &str) -> Arc<OriginConnections> {
        let mut places = self.places[usize::from(https)].lock();
        if let Some(place) = places.get(authority) {
            return Arc::clone(place);
        }
        if places.len() >= MOST_ORIGINS {
            places.retain(|_, place| Arc::strong_count(place) > 1 || !place.connections.lock().is_empty());
        }
        Arc::clone(places.entry(authority.into()).or_default())
    }
}

impl OriginConnections {
    fn is_http1(&self) -> bool {
        self.http1_until.load(Ordering::Relaxed) > clock::millis()
    }

    fn want_http1(&self) {
        self.http1_until.store(clock::millis() + REMEMBERED, Ordering::Relaxed);
    }

    /// Records a failure, which is also that of the requests that wait.
    fn fail(&self, error: OriginError) {
        *self.failure.lock() = Some(error);
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until no other request opens a connection. Returns the permission to open one, and a slot if a connection has
    /// room. `None`: that lasts longer than `patience`.
    async fn turn(
        &self,
        resolver: &Resolver,
        patience: Duration,
    ) -> Option<(MutexGuard<'_, ()>, Option<Stream>)> {
        let turn = async {
            let opening = self.opening.lock().await;
            (opening, self.take_settled(resolver).await)
        };
        timeout(patience, turn).await.ok()
    }

    /// Returns a slot on a usable connection: on the first one with room, or on the one with the fewest requests if no
    /// further connection may be opened.
    fn take(&self, resolver: &Resolver) -> Option<Stream> {
        let mut connections = self.connections.lock();
        connections.retain(|connection| connection.is_good(resolver));
        let with_room = connections.iter().find(|connection| connection.has_room());
        let least_busy = || connections.iter().min_by_key(|connection| connection.streams());
        let chosen = with_room.or_else(|| if connections.len() < MOST { None } else { least_busy() });
        chosen.map(Connection::stream)
    }

    /// Returns a slot as [`take`](Self::take) does, once it is known how many requests each origin's connection permits.
    async fn take_settled(&self, resolver: &Resolver) -> Option<Stream> {
        loop {
            if let Some(stream) = self.take(resolver) {
                return Some(stream);
            }
            let is_new = |connection: &&Arc<Connection>| !connection.is_settled();
            let new = self.connections.lock().iter().find(is_new).cloned();
            new?.settle().await;
        }
    }

    /// Drops connections that are unusable, or had no requests for long.
    fn tidy(&self, resolver: &Resolver) {
        let is_kept = |connection: &Arc<Connection>| connection.is_good(resolver) && !connection.is_idle();
        self.connections.lock().retain(is_kept);
    }
}

/// Returns the failure of a connection whose origin does not begin HTTP/2.
fn without_http2(authority: &str, error: &str) -> OriginError {
    OriginError {
        status: StatusCode::BAD_GATEWAY,
        why: Why::OriginClosed,
        detail: format!("{authority} does not speak HTTP/2: {error}"),
        unsent: true,
        unconnected: true,
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;
    use tokio::task::JoinSet;

    use super::*;
    use crate::origin::Destinations;

    #[tokio::test]
    async fn origins_and_large_windows_are_bounded() {
        let common = Destinations::new(8).named;
        let (places, idle) = (Places::new(&common), Idle::new(&common));
        (0..3 * MOST_ORIGINS).for_each(|number| places.want_http1(&format!("{number}.test")));
        assert!(places.places[1].lock().len() <= MOST_ORIGINS);
        let held: Vec<_> = std::iter::from_fn(|| common.windows.count()).collect();
        assert_eq!(held.len(), 128);
        // A connection would fail: there is no listener.
        let connector = Connector::new(Duration::from_secs(20), false, &common);
        let choice = Choice { client: None, idle: &idle, patience: Duration::from_secs(20) };
        let found = places.negotiated(&connector, "127.0.0.1:1", &choice).await;
        assert!(matches!(found, Ok(None)), "it goes in HTTP/1.1");
        drop(held);
        assert!(places.negotiated(&connector, "127.0.0.1:1", &choice).await.is_err());
    }
    #[tokio::test]
    async fn requests_share_the_failure_of_a_connection_without_settings() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let (close, closing) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let first = listener.accept().await;
            closing.await.unwrap();
            drop(first);
            // Each further connection would be held open.
            let _second = listener.accept().await;
            std::future::pending::<()>().await;
        });
        let common = Destinations::new(8).named;
        let places = Arc::new(Places::new(&common));
        let connector = Arc::new(Connector::new(Duration::from_secs(20), false, &common));
        let mut requests: JoinSet<_> = std::iter::repeat_n((places, connector, authority), 20)
            .map(|(places, connector, authority)| async move {
                places.stream(&connector, (false, &authority), Duration::from_secs(20)).await
            })
            .collect();
        let _first = requests.join_next().await.unwrap().unwrap().expect("a slot");
        close.send(()).unwrap();
        for answered in requests.join_all().await {
            assert!(answered.unwrap_err().detail.contains("before its SETTINGS"));
        }
    }

    #[tokio::test]
    async fn requests_wait_for_a_limited_time_while_others_open_connections() {
        let common = Destinations::new(8).named;
        let places = Places::new(&common);
        let connector = Connector::new(Duration::from_secs(20), false, &common);
        let place = places.place(false, "127.0.0.1:1");
        let _opening = place.opening.lock().await;
        let waited = places.stream(&connector, (false, "127.0.0.1:1"), Duration::from_millis(1)).await;
        assert_eq!(waited.unwrap_err().why, Why::OriginTimeout);
    }
}
