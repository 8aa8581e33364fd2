//! Sends requests to ACME directories with the client for origins, so that no further HTTP library is needed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Frame;
use larder_acme::{Boxed, Http, HttpError, Problem};
use parking_lot::Mutex;

use super::failure_streak::Failure;
use super::schedule::Cause;
use crate::base::settings::{OriginTls, Timeouts};
use crate::http::body::Upload;
use crate::origin::{Client, Connector, Destinations, OriginRequest, OutgoingHead};

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

    async fn ask(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, content) = request.into_parts();
        let authority = parts.uri.authority().ok_or("a URL without a host")?.as_str();
        if parts.uri.scheme_str() != Some("https") {
            return Err(format!("{} is not an https URL", parts.uri).into());
        }
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut head = format!("{} {path} HTTP/1.1\r\nHost: {authority}\r\n", parts.method).into_bytes();
        for (name, value) in &parts.headers {
            let ours: &[u8] = if name == header::USER_AGENT {
                concat!("Larder/", env!("CARGO_PKG_VERSION"), " ").as_bytes()
            } else {
                b""
            };
            head.extend([name.as_str().as_bytes(), b": ", ours, value.as_bytes(), b"\r\n"].concat());
        }
        let mut upload = Upload::Empty;
        if !content.is_empty() {
            head.extend_from_slice(format!("Content-Length: {}\r\n", content.len()).as_bytes());
            let (frames, made) = Upload::channel(Some(content.len() as u64));
            frames.send(Ok(Frame::data(content))).await?;
            upload = made;
        }
        head.extend_from_slice(b"\r\n");
        let outgoing = OriginRequest::new(true, authority, &parts.method, &mut upload);
        let (head, mut download) =
            self.client.send(OutgoingHead::Http1(&head), outgoing).await.map_err(|error| error.detail)?;
        let mut response = Response::new(Bytes::from(download.whole(LONGEST).await?));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.fields.to_map();
        if head.status.is_client_error() || head.status.is_server_error() {
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
