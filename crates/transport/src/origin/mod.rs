//! The origin side: choice of the origin, connections, timeouts and retries.
//!
//! Each worker has its own [`Client`] with its own idle connections. The health of origins ([`Pool`]) and the permits
//! for requests in flight ([`ConcurrencyLimit`](crate::net::concurrency::ConcurrencyLimit)) are shared.

mod answer_times;
mod balance;
mod budget;
mod careless;
mod common;
pub mod connect;
mod connect_error;
mod connection;
mod dns;
mod download;
mod exchange;
mod failure;
mod http2;
mod idle;
mod inspection;
mod load;
mod name_addresses;
mod name_sources;
mod parent;
mod pool;
pub mod proof;
mod quota;
mod race;
pub mod records;
mod resolve;
pub mod s3;
mod sending;
mod service;
mod session;
mod socks;
mod source;
mod stream_request;
#[cfg(test)]
mod tests;
pub mod tls_config;
mod tls_fault;
mod whole;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use larder_semantics::coding;
use larder_semantics::fields::Fields;
use larder_semantics::methods::is_idempotent;
use larder_semantics::reuse;
use larder_semantics::status::Why;

pub use self::common::{Common, Destinations};
pub use self::connect::Connector;
use self::connect::Protocols;
pub use self::connect_error::ConnectError;
use self::connection::Connection;
pub use self::download::{Chunk, Download, UpgradedConnection};
use self::exchange::Exchange;
use self::failure::Failure;
use self::http2::Places;
use self::idle::Idle;
pub use self::inspection::{ContentReader, Inspection};
pub use self::load::OriginLoad;
pub use self::parent::Parents;
pub use self::pool::{OriginHealth, OriginState, Pool, Turn};
pub use self::proof::{Challenge, NodeProof};
pub use self::session::Session;
use self::source::Source;
pub use self::tls_fault::TlsFault;
use crate::base::settings::Timeouts;
use crate::http::body::Upload;
use crate::http::response::Head;

/// The reason why an origin sent no response: the status and reason for the client, and details for the log.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {detail}", why.token())]
pub struct OriginError {
    /// 502, 503 or 504; 403 if the origin has answered, and denies the response to the client.
    pub status: StatusCode,
    /// The reason, for `Cache-Status`, metrics and the client.
    pub why: Why,
    /// Details, for the log.
    pub detail: String,
    /// Whether the request never reached the origin, so that even an unsafe request may be retried at another origin.
    pub unsent: bool,
    /// Whether there was no connection, independently of the request: other requests would fail, too.
    pub unconnected: bool,
}

impl OriginError {
    /// Creates the reason of a request that the origin may have received.
    pub fn new(status: StatusCode, why: Why, detail: impl Into<String>) -> Self {
        Self { status, why, detail: detail.into(), unsent: false, unconnected: false }
    }

    /// Creates the reason of a request that was not sent.
    pub fn unsent(status: StatusCode, why: Why, detail: impl Into<String>) -> Self {
        Self { unsent: true, ..Self::new(status, why, detail) }
    }

    /// Returns the failure by which it is decided whether a stale response may answer instead.
    pub fn outage(&self) -> reuse::Failure {
        match (self.status, self.why) {
            (StatusCode::FORBIDDEN, Why::BucketRefused) => reuse::Failure::Status(self.status),
            _ => reuse::Failure::Unreachable,
        }
    }
}

/// A request to an origin.
pub struct OriginRequest<'r> {
    /// Whether over TLS.
    pub https: bool,
    /// The origin: its host, and its port if that is not the scheme's default.
    pub authority: &'r str,
    /// The method, which determines whether the response may have content.
    pub method: &'r Method,
    /// The content, which is taken when sending it begins.
    pub content: &'r mut Upload,
    /// Called with each interim response.
    pub on_interim: Option<&'r mut (dyn FnMut(Head) + Send)>,
    /// The cache key under which the response may be stored; `None` for a request of this process.
    pub key: Option<&'r [u8]>,
    /// Set when an attempt failed after the origin may have received the whole request, and another attempt follows.
    pub lost_try: Option<&'r AtomicBool>,
    /// The client, which gets its share of the lookups of names; `None` for a request of this process.
    pub client: Option<IpAddr>,
    /// Whether its connection gets no further request, as the origin may take that for one of the same client.
    pub is_alone: bool,
    /// Time limits for the response.
    pub waits: Waits,
}

/// The head of a request, in the form of the origin's protocol.
pub enum OutgoingHead<'r> {
    /// In HTTP/1.1: all bytes, blank line included.
    Http1(&'r [u8]),
    /// In HTTP/2.
    Http2 {
        /// The value of `:authority`.
        host: &'r str,
        /// The value of `:path`.
        path: &'r str,
        /// The fields, perhaps with some that only HTTP/1.1 has. In a box: otherwise heads of HTTP/1.1 would be as large.
        fields: Box<HeaderMap>,
    },
}

/// Time limits for a response that replace those of the client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    /// Time until there is a connection.
    pub connect: Option<Duration>,
    /// Time until the first byte.
    pub first_byte: Option<Duration>,
    /// Time between two reads.
    pub between: Option<Duration>,
}

/// Sends requests to origins. Each worker has one.
#[derive(Clone, Debug)]
pub struct Client(Arc<Ways>);

#[derive(Debug)]
struct Ways {
    connector: Connector,
    idle: Arc<Idle>,
    places: Places,
    first_byte: Duration,
    between: Duration,
    /// Verifies the peers of new connections.
    prover: Option<Arc<dyn NodeProof>>,
}

/// The least time between two reads of a stream of events, unless a rule sets another one: events may be rare.
const BETWEEN_EVENTS: Duration = Duration::from_secs(300);

impl Ways {
    /// Returns the time between two reads of the content behind `head`.
    fn between(&self, waits: &Waits, head: &Head) -> Duration {
        let is_events = || head.fields.first("content-type").is_some_and(coding::is_event_stream);
        waits
            .between
            .unwrap_or_else(|| if is_events() { self.between.max(BETWEEN_EVENTS) } else { self.between })
    }
}

impl Client {
    /// Creates a client that connects through `connector`.
    pub fn new(connector: Connector, timeouts: &Timeouts, common: &Common) -> Self {
        Self::by(connector, timeouts, common, None)
    }

    /// Creates a client that sends requests only to peers that `prover` accepts.
    pub fn of_proven(
        connector: Connector,
        timeouts: &Timeouts,
        common: &Common,
        prover: Arc<dyn NodeProof>,
    ) -> Self {
        Self::by(connector, timeouts, common, Some(prover))
    }

    fn by(
        connector: Connector,
        timeouts: &Timeouts,
        common: &Common,
        prover: Option<Arc<dyn NodeProof>>,
    ) -> Self {
        let (first_byte, between) = (timeouts.first_byte, timeouts.origin_idle);
        let (idle, places) = (Idle::new(common), Places::new(common));
        Self(Arc::new(Ways { connector, idle, places, first_byte, between, prover }))
    }

    /// Opens a connection over TLS to `authority` in advance, for the next request, which may be one of HTTP/2 if
    /// `has_choice`. Also returns whether the origin has asked for a certificate; then the connection is not kept.
    pub async fn warm(
        &self,
        authority: &str,
        client: Option<IpAddr>,
        has_choice: bool,
    ) -> (Result<(), ConnectError>, bool) {
        let protocols = if has_choice { Protocols::Either } else { Protocols::Http1 };
        match self.0.connector.open_watching(authority, client, protocols).await {
            (Ok(opened), false) => {
                self.0.places.keep(opened, authority, &self.0.idle).await;
                (Ok(()), false)
            }
            (opened, asks) => (opened.map(drop), asks),
        }
    }

    /// Sends a request and waits for the head of the final response.
    ///
    /// The origin may have closed an idle connection at the same moment. A request that failed on such a connection is
    /// retried on a new one if the origin has not received it, or if it is idempotent (RFC 9112 section 9.3.1).
    ///
    /// # Errors
    /// The reason why there is no response: status 504 for a timeout, 502 for the rest.
    pub async fn send(
        &self,
        head: OutgoingHead<'_>,
        request: &mut OriginRequest<'_>,
    ) -> Result<(Head, Box<Download>), OriginError> {
        let head = match head {
            OutgoingHead::Http1(head) => head,
            OutgoingHead::Http2 { host, path, fields } => {
                let message = http2::message(request.https, request.method, host, path, *fields)?;
                return Box::pin(self.send_on_stream(message, request)).await;
            }
        };
        let idle = &self.0.idle;
        let first_byte = request.waits.first_byte.unwrap_or(self.0.first_byte);
        let repeatable = request.content.is_empty() && is_idempotent(request.method);
        let is_safe = repeatable && matches!(*request.method, Method::GET | Method::HEAD);
        let (mut waited, mut unsent) = (idle.take(request.https, request.authority), true);
        loop {
            let is_new = waited.is_none();
            let connection = match waited.take() {
                Some(mut connection) => {
                    request.key.into_iter().for_each(|key| connection.suspects.add(key));
                    connection
                }
                // Boxed, since it is rare and much larger than the rest of this future.
                None => {
                    let (to, connect) = ((request.https, request.authority), request.waits.connect);
                    Box::pin(self.connect(to, (request.client, connect), unsent)).await?
                }
            };
            let parent = connection.proxy().cloned();
            let absolute = parent.as_ref().map(|parent| parent.absolute(request.authority, head));
            let head = absolute.as_deref().unwrap_or(head);
            let (mut exchange, mut sent) = (Exchange::new(connection, Arc::clone(idle)), 0);
            if is_new && self.0.prover.is_some() {
                Box::pin(self.prove(&mut exchange, request.https, request.authority)).await?;
            }
            match exchange.ask(head, request, first_byte, &mut sent).await {
                // It may belong to no request: meanwhile, the origin has sent bytes without a request.
                Ok(_) if !is_new && is_safe && idle.distrusts(request.https, request.authority) => {
                    exchange.withdraw();
                }
                // The origin has given up the idle connection meanwhile (RFC 9110 section 15.5.9).
                Ok(head) if !is_new && repeatable && has_timed_out(&head) => unsent = false,
                Ok(head) => {
                    if let Some(error) = parent.and_then(|parent| parent.own_answer(head.status)) {
                        return Err(error);
                    }
                    let between = self.0.between(&request.waits, &head);
                    let source = Source::http1(exchange, head.framing);
                    let mut download = Download::new(source, head.framing, between);
                    if head.status != StatusCode::SWITCHING_PROTOCOLS {
                        // Ends a download without content at once.
                        download.end_if_empty();
                    }
                    return Ok((head, download));
                }
                Err(Failure::Io(_) | Failure::Closed) if !is_new && (sent == 0 || repeatable) => {
                    unsent = sent == 0;
                    if sent == head.len() {
                        request.lose_try();
                        // Lets the effects of the lost attempt complete before the next one is sent.
                        tokio::task::yield_now().await;
                    }
                }
                Err(failure) => return Err(error(&failure, first_byte)),
            }
        }
    }

    /// Opens a connection for a request of `client`, of which an origin has received nothing if `unsent`. `limit`
    /// replaces the time limit of this client.
    async fn connect(
        &self,
        (https, authority): (bool, &str),
        (client, limit): (Option<IpAddr>, Option<Duration>),
        unsent: bool,
    ) -> Result<Box<Connection>, OriginError> {
        let opened = self.0.connector.within(limit).open(https, authority, client).await;
        let opened = opened.map_err(|error| OriginError { unsent, ..error.into() })?;
        Ok(Box::new(Connection::new(opened, https, authority)))
    }
}

/// Whether the origin ends its connection since no request came for too long.
fn has_timed_out(head: &Head) -> bool {
    head.status == StatusCode::REQUEST_TIMEOUT && !head.keep_alive
}

#[cold]
fn error(failure: &Failure, first_byte: Duration) -> OriginError {
    let (status, why, detail) = match failure {
        Failure::TimedOut => {
            let detail = format!("no answer within {first_byte:?}");
            (StatusCode::GATEWAY_TIMEOUT, Why::OriginTimeout, detail)
        }
        Failure::Malformed(_) => (StatusCode::BAD_GATEWAY, Why::OriginMalformed, failure.to_string()),
        Failure::Stream(error) if error.is_library() => {
            (StatusCode::BAD_GATEWAY, Why::OriginMalformed, failure.to_string())
        }
        Failure::Io(_)
        | Failure::Closed
        | Failure::ClientGone
        | Failure::Stream(_)
        | Failure::Unprocessed(_) => (StatusCode::BAD_GATEWAY, Why::OriginClosed, failure.to_string()),
    };
    OriginError::new(status, why, detail)
}

impl<'r> OriginRequest<'r> {
    /// Returns a request of this process.
    pub fn new(https: bool, authority: &'r str, method: &'r Method, content: &'r mut Upload) -> Self {
        Self {
            https,
            authority,
            method,
            content,
            on_interim: None,
            key: None,
            lost_try: None,
            client: None,
            is_alone: false,
            waits: Waits::default(),
        }
    }

    fn lose_try(&self) {
        if let Some(lost_try) = self.lost_try {
            lost_try.store(true, Ordering::Relaxed);
        }
    }

    fn interim(&mut self, head: Head) {
        if let Some(on_interim) = &mut self.on_interim {
            on_interim(head);
        }
    }
}

impl From<ConnectError> for OriginError {
    fn from(error: ConnectError) -> Self {
        let (status, why) = error.effect();
        Self { status, why, detail: error.to_string(), unsent: true, unconnected: true }
    }
}

impl ConnectError {
    /// Returns the status and reason for the client.
    fn effect(&self) -> (StatusCode, Why) {
        match self {
            Self::Timeout(..) => (StatusCode::GATEWAY_TIMEOUT, Why::OriginTimeout),
            Self::Forbidden(..) => (StatusCode::FORBIDDEN, Why::OriginForbidden),
            Self::Busy(..) => (StatusCode::SERVICE_UNAVAILABLE, Why::Overloaded),
            Self::Own(..) => (StatusCode::LOOP_DETECTED, Why::Loop),
            Self::Resolve(..) => (StatusCode::BAD_GATEWAY, Why::OriginUnresolved),
            Self::Connect(..) => (StatusCode::BAD_GATEWAY, Why::OriginUnreachable),
            Self::Tls(_, fault) => (StatusCode::BAD_GATEWAY, fault.why()),
            Self::Parent(_, why) => (why.effect().0, Why::ParentUnreachable),
            Self::ParentRefused(..) => (StatusCode::BAD_GATEWAY, Why::ParentRefused),
        }
    }
}
