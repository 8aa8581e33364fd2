//! Pages through a forward proxy: `http` in the absolute form, `https` through a tunnel.
//!
//! Each connection has its own client and runtime, which runs in the calling thread: no work moves between threads while a
//! page is timed.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use larder_rpc::{Answer, Call, Failure, Limits};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Response, Url};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::door::{Door, Problem, said};
use super::said::{first_line, is_text, reason};
use super::tunnel;
use crate::cli::units::show_duration;

/// How many redirects in a row are followed.
const REDIRECTS: usize = 10;

/// A forward proxy.
pub(super) struct Http {
    runtime: Runtime,
    client: Client,
    server: String,
    patience: Duration,
}

impl Http {
    /// To the proxy at `server`, a host and a port, where no page may take longer than `patience`.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(super) fn new(server: &str, tls: ClientConfig, patience: Duration) -> io::Result<Self> {
        let client = Client::builder()
            .proxy(Proxy::all(format!("http://{server}")).map_err(io::Error::other)?)
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("larder/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::limited(REDIRECTS))
            .timeout(patience);
        Ok(Self {
            runtime: Builder::new_current_thread().enable_all().build()?,
            client: client.build().map_err(io::Error::other)?,
            server: server.to_owned(),
            patience,
        })
    }

    async fn explain(&self, url: &str, error: &reqwest::Error) -> Problem {
        let cause = deepest(error);
        if error.is_timeout() {
            Problem::Failed(format!("no answer in {}", show_duration(self.patience)))
        } else if error.is_connect() {
            let asked = error.url().map_or(url, Url::as_str);
            // What the client says of a tunnel lacks the proxy's answer.
            let refusal = timeout(self.patience, tunnel::refusal(&self.server, asked)).await;
            if let Some(refusal) = refusal.ok().flatten() {
                return Problem::Failed(refusal);
            }
            Problem::Failed(format!("cannot connect through {}: {cause}", self.server))
        } else if error.is_redirect() || error.is_builder() {
            Problem::Failed(cause)
        } else {
            Problem::Broken(format!("the connection broke: {cause}"))
        }
    }
}

impl Door for Http {
    fn ask(&mut self, call: &Call) -> Result<Answer, Problem> {
        let Call::Fetch { url } = call else {
            return Err(Problem::Failed("a proxy has pages and nothing else".to_owned()));
        };
        self.runtime.block_on(async {
            let response = match self.client.get(url).send().await {
                Ok(response) => response,
                Err(error) => return Err(self.explain(url, &error).await),
            };
            let (status, is_text) = (response.status(), is_text(response.headers()));
            let content = content(response).await;
            let content = match content {
                Ok(content) => content,
                Err(error) => return Err(self.explain(url, &error).await),
            };
            let Some(content) = content else {
                return Err(Problem::Failed(format!("a page of more than {} bytes", Limits::default().page)));
            };
            if status.is_success() {
                return Ok(Answer::Page(content));
            }
            let why = if is_text { first_line(&content) } else { String::new() };
            let why = reason(status, &why);
            Ok(Answer::Failure(Failure { what: url.clone(), why, status: status.as_u16() }))
        })
    }
}

/// The content of `response`, unless it is longer than a page may be.
async fn content(mut response: Response) -> reqwest::Result<Option<Bytes>> {
    let mut content = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if chunk.len() > Limits::default().page - content.len() {
            return Ok(None);
        }
        content.extend_from_slice(&chunk);
    }
    Ok(Some(content.freeze()))
}

/// The cause that has no cause of its own, which says most.
fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.downcast_ref().map_or_else(|| cause.to_string(), said)
}

/// Trusts the system's certificates.
///
/// # Errors
/// When there is no version of TLS to speak, in one line.
pub(super) fn tls() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = larder_proxy::net::tls::provider();
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("cannot speak tls: {error}"))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
