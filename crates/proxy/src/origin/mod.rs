//! The origin side: which origin, over which connection, how long to wait, whether to try again.
//!
//! Each worker has a [`Client`] of its own, with its own idle connections; what is known of an
//! origin's health ([`Pool`]) and the places for requests under way ([`Gate`]) are shared.

pub mod body;
pub mod connect;
pub mod gate;
pub mod guard;
mod pool;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use larder_semantics::status::Why;

pub use self::body::Upload;
pub use self::connect::{ConnectError, Connector};
pub use self::gate::{Gate, Place};
pub use self::pool::{Pool, Turn};
use crate::clock;
use crate::settings::Timeouts;

/// Why an origin gave no answer: what the client is told, and what the log says besides.
#[derive(Debug, thiserror::Error)]
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
}

/// Sends requests to origins; one per worker.
#[derive(Clone)]
pub struct Client {
    client: legacy::Client<HttpsConnector<Connector>, Upload>,
    first_byte: Duration,
}

impl Client {
    /// A client that connects through `connector`.
    pub fn new(connector: HttpsConnector<Connector>, timeouts: &Timeouts) -> Self {
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(256)
            .http1_title_case_headers(true)
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_max_headers(256)
            .set_host(false)
            .build(connector);
        Self { client, first_byte: timeouts.first_byte }
    }

    /// Sends a request to its absolute URI and waits for the head of the final answer.
    ///
    /// # Errors
    /// Why there is none: 504 for time, 502 for the rest.
    pub async fn send(&self, request: Request<Upload>) -> Result<Response<Incoming>, OriginError> {
        let moved = request.body().moved();
        let mut answer = std::pin::pin!(self.client.request(request));
        let mut left = self.first_byte;
        loop {
            match tokio::time::timeout(left, &mut answer).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => return Err(OriginError::from_client(&error)),
                Err(_) => left = self.left_since(moved.as_deref()).ok_or_else(|| self.timed_out())?,
            }
        }
    }

    /// What is left of the time for the first byte: it counts from the last piece of the request.
    fn left_since(&self, moved: Option<&AtomicU64>) -> Option<Duration> {
        let since = clock::millis().saturating_sub(moved?.load(Ordering::Relaxed));
        self.first_byte.checked_sub(Duration::from_millis(since)).filter(|left| !left.is_zero())
    }

    fn timed_out(&self) -> OriginError {
        OriginError {
            status: StatusCode::GATEWAY_TIMEOUT,
            why: Why::OriginTimeout,
            detail: format!("no answer within {:?}", self.first_byte),
            unsent: false,
        }
    }
}

impl OriginError {
    fn from_client(error: &legacy::Error) -> Self {
        match causes(error).find_map(|error| error.downcast_ref::<ConnectError>()) {
            Some(error) => Self::from(error),
            None => {
                let why = if is_malformed(error) { Why::OriginMalformed } else { Why::OriginUnreachable };
                let (status, unsent) = (StatusCode::BAD_GATEWAY, error.is_connect());
                Self { status, why, detail: chain(error), unsent }
            }
        }
    }
}

impl From<&ConnectError> for OriginError {
    fn from(error: &ConnectError) -> Self {
        let (status, why) = match error {
            ConnectError::Timeout(..) => (StatusCode::GATEWAY_TIMEOUT, Why::OriginTimeout),
            ConnectError::Forbidden(..) => (StatusCode::FORBIDDEN, Why::OriginForbidden),
            ConnectError::Resolve(..) | ConnectError::Connect(..) => {
                (StatusCode::BAD_GATEWAY, Why::OriginUnreachable)
            }
        };
        Self { status, why, detail: error.to_string(), unsent: true }
    }
}

fn is_malformed(error: &legacy::Error) -> bool {
    causes(error).any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse))
}

type Cause<'e> = &'e (dyn std::error::Error + 'static);

/// An error and what caused it, outermost first.
fn causes<'e>(error: Cause<'e>) -> impl Iterator<Item = Cause<'e>> {
    std::iter::successors(Some(error), |error: &Cause<'e>| error.source())
}

/// The same on one line.
fn chain(error: Cause<'_>) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// An origin's content as it arrives.
#[derive(Debug)]
pub struct Download {
    body: Incoming,
    idle: Duration,
    _place: Option<Place>,
}

/// A piece of an origin's content.
#[derive(Debug)]
pub enum Chunk {
    /// Bytes.
    Data(Bytes),
    /// Fields after the content.
    Trailers(http::HeaderMap),
}

impl Download {
    /// Content whose next piece may take `idle`, holding `place` until it ends.
    pub fn new(body: Incoming, idle: Duration, place: Option<Place>) -> Self {
        Self { body, idle, _place: place }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// What went wrong, for the log: the content is truncated.
    pub async fn next(&mut self) -> Result<Option<Chunk>, String> {
        loop {
            match tokio::time::timeout(self.idle, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(chain(&error)),
                Err(_) => return Err(format!("nothing more within {:?}", self.idle)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Ok(Some(Chunk::Data(data))),
                    Err(frame) => return Ok(frame.into_trailers().ok().map(Chunk::Trailers)),
                },
            }
        }
    }

    /// The next piece if it is there already.
    pub fn ready(&mut self) -> Option<Result<Option<Chunk>, String>> {
        self.next().now_or_never()
    }

    /// The length the origin announced, or ended with.
    pub fn length(&self) -> Option<u64> {
        http_body::Body::size_hint(&self.body).exact()
    }
}

/// An absolute URI from its parts.
///
/// # Errors
/// When the parts make none (a host that is no host).
pub fn uri(https: bool, authority: &str, path_and_query: &str) -> Result<Uri, http::Error> {
    let scheme = if https { "https" } else { "http" };
    Uri::builder().scheme(scheme).authority(authority).path_and_query(path_and_query).build()
}
