//! The connections of one client to origins that speak HTTP/2.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use larder_semantics::status::Why;
use parking_lot::Mutex;

use super::connection::{Connection, Stream};
use crate::origin::resolve::Resolver;
use crate::origin::{Common, Connector, OriginError};

/// Maximum of connections to one origin.
const MOST: usize = 32;

/// The HTTP/2 connections of one client. Only the config contains such origins, so they are few.
#[derive(Debug)]
pub(in crate::origin) struct Places {
    /// Connections by authority: first without TLS, then with TLS.
    places: [Mutex<HashMap<Box<str>, Arc<OriginConnections>>>; 2],
    resolver: Arc<Resolver>,
}

/// The connections to one origin.
#[derive(Debug, Default)]
struct OriginConnections {
    connections: Mutex<Vec<Arc<Connection>>>,
    /// Held while a connection is opened: other requests wait for it instead of opening their own.
    opening: tokio::sync::Mutex<()>,
    failures: AtomicU64,
    failure: Mutex<Option<OriginError>>,
}

impl Places {
    /// Creates an empty set.
    pub(in crate::origin) fn new(common: &Common) -> Self {
        Self { places: Default::default(), resolver: Arc::clone(&common.resolver) }
    }

    /// Returns a slot for a request on a connection to the origin `authority`.
    pub(in crate::origin) async fn stream(
        &self,
        connector: &Connector,
        https: bool,
        authority: &str,
    ) -> Result<Stream, OriginError> {
        let place = self.place(https, authority);
        if let Some(stream) = place.take(&self.resolver) {
            return Ok(stream);
        }
        let failures = place.failures.load(Ordering::Relaxed);
        let _opening = place.opening.lock().await;
        if let Some(stream) = place.take(&self.resolver) {
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
            Err(error) => {
                *place.failure.lock() = Some(error.clone());
                place.failures.fetch_add(1, Ordering::Relaxed);
            }
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
        let opened = connector.open_for_http2(https, authority).await?;
        let (place, resolver) = (Arc::downgrade(place), Arc::clone(&self.resolver));
        let look = move || place.upgrade().iter().for_each(|place| place.tidy(&resolver));
        let begun = Connection::begin(opened, authority, look).await;
        begun.map_err(|error| OriginError {
            status: StatusCode::BAD_GATEWAY,
            why: Why::OriginClosed,
            detail: format!("{authority} does not speak HTTP/2: {error}"),
            unsent: true,
            unconnected: true,
        })
    }

    fn place(&self, https: bool, authority: &str) -> Arc<OriginConnections> {
        let mut places = self.places[usize::from(https)].lock();
        match places.get(authority) {
            Some(place) => Arc::clone(place),
            None => Arc::clone(places.entry(authority.into()).or_default()),
        }
    }
}

impl OriginConnections {
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

    /// Drops connections that are unusable, or had no requests for long.
    fn tidy(&self, resolver: &Resolver) {
        let is_kept = |connection: &Arc<Connection>| connection.is_good(resolver) && !connection.is_idle();
        self.connections.lock().retain(is_kept);
    }
}
