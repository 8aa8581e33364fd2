//! Sends requests to ACME directories with the client for origins, so that no further HTTP library is needed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use larder_acme::{Boxed, Http, HttpError, Problem};
use parking_lot::Mutex;

use super::failure_streak::Failure;
use super::schedule::Cause;
use crate::base::settings::{OriginTls, Timeouts};
use crate::origin::{Client, Connector, Destinations};

/// Timeout of a directory for one response.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum of bytes of a response: a chain of certificates has a few thousand.
const LONGEST: usize = 1 << 20;

/// Sends requests to one directory.
#[derive(Clone)]
pub(super) struct DirectoryClient {
    client: Client,
    /// The `Retry-After` of the last error response.
    asked: Arc<Mutex<Option<Duration>>>,
}

impl DirectoryClient {
    /// Creates a client that trusts the authorities of `tls`.
    pub(super) fn new(tls: &OriginTls, timeouts: &Timeouts) -> Self {
        let Destinations { sites: common, .. } = &Destinations::new(8);
        let connector = Connector::new(timeouts.connect, false, common).with_tls(&tls.config);
        Self { client: Client::new(connector, timeouts, common), asked: Arc::default() }
    }

    /// Returns the failure for a problem, with the time that the authority has asked to wait since the last failure.
    pub(super) fn failure(&self, Problem { is_refusal, why }: Problem) -> Failure {
        let cause = if is_refusal { Cause::Refused } else { Cause::Unanswered };
        Failure { cause, why, asked: self.asked.lock().take() }
    }

    async fn ask(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        if request.uri().scheme_str() != Some("https") {
            return Err(format!("{} is not an https URL", request.uri()).into());
        }
        if let Some(agent) = request.headers_mut().get_mut(header::USER_AGENT) {
            let both = [concat!("Larder/", env!("CARGO_PKG_VERSION"), " ").as_bytes(), agent.as_bytes()];
            *agent = HeaderValue::from_bytes(&both.concat())?;
        }
        let response = self.client.ask(request, LONGEST).await?;
        if response.status().is_client_error() || response.status().is_server_error() {
            self.note(&response);
        }
        Ok(response)
    }

    /// Notes the `Retry-After` of an error response, if it is in seconds.
    fn note(&self, refusal: &Response<Bytes>) {
        let seconds = refusal
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok());
        if let Some(seconds) = seconds {
            *self.asked.lock() = Some(Duration::from_secs(seconds));
        }
    }
}

impl Http for DirectoryClient {
    fn send(&self, request: Request<Bytes>) -> Boxed<'static, Result<Response<Bytes>, HttpError>> {
        let client = self.clone();
        Box::pin(async move {
            let answered = tokio::time::timeout(PATIENCE, client.ask(request)).await;
            answered.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}").into()))
        })
    }
}
