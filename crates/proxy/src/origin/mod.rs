//! The origin side: which origin, over which connection, how long to wait, whether to try again.
//!
//! Each worker has a [`Client`] of its own, with its own idle connections; what is known of an
//! origin's health ([`Pool`]) and the places for requests under way ([`ConcurrencyLimit`](crate::net::concurrency::ConcurrencyLimit)) are shared.

mod balance;
mod careless;
mod common;
pub mod connect;
mod download;
mod exchange;
mod http2;
mod idle;
mod pool;
pub mod proof;
mod resolve;
mod sending;
mod source;
#[cfg(test)]
mod tests;
mod tls_fault;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use larder_semantics::status::Why;

pub use self::common::{Common, Destinations, most_idle};
pub use self::connect::{ConnectError, Connector};
pub use self::download::{Chunk, Download, Upgraded};
use self::exchange::{Connection, Exchange, Failure};
use self::http2::Places;
use self::idle::Idle;
pub use self::pool::{InProgress, Pool, Turn};
pub use self::proof::{Challenge, Prove};
use self::source::Source;
pub use self::tls_fault::TlsFault;
use crate::base::settings::Timeouts;
use crate::http::body::Upload;
use crate::http::response::Head;

/// Why an origin gave no answer: what the client is told, and what the log says besides.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {detail}", why.token())]
pub struct OriginError {
    /// 502, 503 or 504.
    pub status: StatusCode,
    /// The word for `Cache-Status`, metrics and the client.
    pub why: Why,
    /// What happened, for the log.
    pub detail: String,
    /// The request never reached the origin, so that even an unsafe one may be tried elsewhere.
    pub unsent: bool,
    /// There was no connection, whatever the request says: others would fare no better.
    pub unconnected: bool,
}

/// A request on its way to an origin.
pub struct Outgoing<'r> {
    /// Over TLS.
    pub https: bool,
    /// In HTTP/2.
    pub http2: bool,
    /// The origin: host, and port if it is not the scheme's own.
    pub authority: &'r str,
    /// The method, which says what the answer may be.
    pub method: &'r Method,
    /// The head as it goes over the wire in HTTP/1.1, blank line included.
    pub head: &'r [u8],
    /// The content, which is taken when it begins to leave.
    pub content: &'r mut Upload,
    /// Called with each interim answer.
    pub on_interim: &'r mut (dyn FnMut(Head) + Send),
    /// Set when a try has got no answer though the origin may have all of it, and another one follows.
    pub lost_try: Option<&'r AtomicBool>,
    /// How long to wait for the answer.
    pub waits: Waits,
}

/// How long to wait for an answer, where it is not as long as the client does otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    /// For its first byte.
    pub first_byte: Option<Duration>,
    /// Between two reads of it.
    pub between: Option<Duration>,
}

/// Sends requests to origins; one per worker.
#[derive(Clone, Debug)]
pub struct Client(Arc<Ways>);

#[derive(Debug)]
struct Ways {
    connector: Connector,
    idle: Arc<Idle>,
    places: Places,
    first_byte: Duration,
    between: Duration,
    /// Has the other ends of new connections prove who they are.
    prover: Option<Arc<dyn Prove>>,
}

impl Client {
    /// A client that connects through `connector`.
    pub fn new(connector: Connector, timeouts: &Timeouts, common: &Common) -> Self {
        Self::by(connector, timeouts, common, None)
    }

    /// A client of those only that prove to `prover` who they are.
    pub fn of_proven(
        connector: Connector,
        timeouts: &Timeouts,
        common: &Common,
        prover: Arc<dyn Prove>,
    ) -> Self {
        Self::by(connector, timeouts, common, Some(prover))
    }

    fn by(
        connector: Connector,
        timeouts: &Timeouts,
        common: &Common,
        prover: Option<Arc<dyn Prove>>,
    ) -> Self {
        let (first_byte, between) = (timeouts.first_byte, timeouts.origin_idle);
        let (idle, places) = (Idle::new(common), Places::new(common));
        Self(Arc::new(Ways { connector, idle, places, first_byte, between, prover }))
    }

    /// Sends a request and waits for the head of the final answer.
    ///
    /// A connection that waited may have been closed by the origin just now. A request that failed on
    /// one goes over a new one if the origin has not seen it, or if to see it twice does no harm
    /// (RFC 9112 section 9.3.1).
    ///
    /// # Errors
    /// Why there is no answer: 504 for time, 502 for the rest.
    pub async fn send(&self, mut request: Outgoing<'_>) -> Result<(Head, Box<Download>), OriginError> {
        if request.http2 {
            return Box::pin(self.send_on_stream(request)).await;
        }
        let Ways { connector, idle, .. } = &*self.0;
        let first_byte = request.waits.first_byte.unwrap_or(self.0.first_byte);
        let between = request.waits.between.unwrap_or(self.0.between);
        let repeatable = request.content.is_empty() && is_idempotent(request.method);
        let (mut waited, mut unsent) = (idle.take(request.https, request.authority), true);
        loop {
            let is_new = waited.is_none();
            let connection = match waited.take() {
                Some(connection) => connection,
                // Rare, and much larger than all the rest.
                None => {
                    let opened = Box::pin(connector.open(request.https, request.authority)).await;
                    let stream = opened.map_err(|error| OriginError { unsent, ..error.into() })?;
                    Box::new(Connection::new(stream, request.https, request.authority))
                }
            };
            let (mut exchange, mut sent) = (Exchange::new(connection, Arc::clone(idle)), 0);
            if is_new && self.0.prover.is_some() {
                Box::pin(self.prove(&mut exchange, request.https, request.authority)).await?;
            }
            match exchange.ask(&mut request, first_byte, &mut sent).await {
                Ok(head) => {
                    let source = Source::http1(exchange, head.framing);
                    let mut download = Download::new(source, head.framing, between);
                    if head.status != StatusCode::SWITCHING_PROTOCOLS {
                        // There is no content to read.
                        download.end_if_empty();
                    }
                    return Ok((head, download));
                }
                Err(Failure::Io(_) | Failure::Closed) if !is_new && (sent == 0 || repeatable) => {
                    unsent = sent == 0;
                    if sent == request.head.len() {
                        request.lose_try();
                        // What that means is in force before the next try leaves.
                        tokio::task::yield_now().await;
                    }
                }
                Err(failure) => return Err(error(&failure, first_byte)),
            }
        }
    }
}

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
    OriginError { status, why, detail, unsent: false, unconnected: false }
}

impl Outgoing<'_> {
    fn lose_try(&self) {
        if let Some(lost_try) = self.lost_try {
            lost_try.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether sending a request twice means what sending it once does (RFC 9110 section 9.2.2).
pub fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE
    )
}

impl From<ConnectError> for OriginError {
    fn from(error: ConnectError) -> Self {
        let (status, why) = match error {
            ConnectError::Timeout(..) => (StatusCode::GATEWAY_TIMEOUT, Why::OriginTimeout),
            ConnectError::Forbidden(..) => (StatusCode::FORBIDDEN, Why::OriginForbidden),
            ConnectError::Busy(..) => (StatusCode::SERVICE_UNAVAILABLE, Why::Overloaded),
            ConnectError::Own(..) => (StatusCode::LOOP_DETECTED, Why::Loop),
            ConnectError::Resolve(..) => (StatusCode::BAD_GATEWAY, Why::OriginUnresolved),
            ConnectError::Connect(..) => (StatusCode::BAD_GATEWAY, Why::OriginUnreachable),
            ConnectError::Tls(_, ref fault) => (StatusCode::BAD_GATEWAY, fault.why()),
        };
        Self { status, why, detail: error.to_string(), unsent: true, unconnected: true }
    }
}
