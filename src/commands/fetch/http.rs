//! Fetches pages through a forward proxy: `http` in the absolute form, `https` through a tunnel.
//!
//! Each connection has a separate client and runtime, which runs in the calling thread: no work moves between threads
//! while a page is timed.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Method;
use http::header::CONTENT_TYPE;
use larder_lab::workload::SentRequest;
use larder_load::{ForeignClient, Reply};
use larder_rpc::{Answer, Call, Failure, Limits};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Response, Url};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::client::{PageClient, Problem, describe};
use super::explanations::{first_line, is_text, reason};
use super::tunnel;
use crate::cli::units::show_duration;

/// The most consecutive redirects that are followed.
const REDIRECTS: usize = 10;

/// A client of a forward proxy.
pub(super) struct HttpClient {
    runtime: Runtime,
    client: Client,
    server: String,
    patience: Duration,
}

impl HttpClient {
    /// Creates a client of the proxy at `server`, a host and a port, whose pages may take at most `patience`. `tls`
    /// also says whether it uses HTTP/2. Errors: the system has no resources for it.
    pub(super) fn new(server: &str, tls: (ClientConfig, bool), patience: Duration) -> io::Result<Self> {
        Ok(Self {
            runtime: Builder::new_current_thread().enable_all().build()?,
            client: client(server, tls, patience, Policy::limited(REDIRECTS))?,
            server: server.to_owned(),
            patience,
        })
    }

    async fn explain(&self, url: &str, error: &reqwest::Error) -> Problem {
        explain(&self.server, self.patience, url, error).await
    }
}

fn client(
    server: &str,
    (tls, http2): (ClientConfig, bool),
    patience: Duration,
    redirects: Policy,
) -> io::Result<Client> {
    let client = Client::builder()
        .proxy(Proxy::all(format!("http://{server}")).map_err(io::Error::other)?)
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("larder/", env!("CARGO_PKG_VERSION")))
        .redirect(redirects)
        .timeout(patience);
    let client = if http2 { client.http2_prior_knowledge() } else { client.http1_only() };
    client.build().map_err(io::Error::other)
}

async fn explain(server: &str, patience: Duration, url: &str, error: &reqwest::Error) -> Problem {
    let cause = deepest(error);
    if error.is_timeout() {
        Problem::Failed(format!("no answer in {}", show_duration(patience)))
    } else if error.is_connect() {
        let asked = error.url().map_or(url, Url::as_str);
        // The client's error for a tunnel lacks the proxy's answer.
        let refusal = timeout(patience, tunnel::refusal(server, asked)).await;
        if let Some(refusal) = refusal.ok().flatten() {
            return Problem::Failed(refusal);
        }
        Problem::Failed(format!("cannot connect through {server}: {cause}"))
    } else if error.is_redirect() || error.is_builder() {
        Problem::Failed(cause)
    } else {
        Problem::Broken(format!("the connection broke: {cause}"))
    }
}

/// Sends the load driver's requests for `https` URLs through tunnels that stay open, and its requests in HTTP/2.
pub(super) struct Tunnels {
    client: Client,
    server: String,
    patience: Duration,
}

impl Tunnels {
    /// Creates a client of the proxy at `server`, a host and a port. Errors: the system has no resources for it.
    pub(super) fn new(server: &str, tls: (ClientConfig, bool), patience: Duration) -> io::Result<Self> {
        let client = client(server, tls, patience, Policy::none())?;
        Ok(Self { client, server: server.to_owned(), patience })
    }

    async fn send(&self, sent: SentRequest<'_>, wants: bool) -> Result<Reply, reqwest::Error> {
        // An invalid method is replaced by GET.
        let method = Method::from_bytes(sent.method.as_bytes()).unwrap_or_default();
        let mut request = self.client.request(method, sent.url);
        for (name, value) in sent.fields {
            request = request.header(name, value);
        }
        if !sent.body.is_empty() {
            let has_type = sent.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            request = if has_type { request } else { request.header(CONTENT_TYPE, "application/json") };
            request = request.body(sent.body.to_owned());
        }
        let mut response = request.send().await?;
        let said = response.headers().get_all("cache-status").iter();
        let cache = said.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        let (status, mut bytes, mut content) = (response.status().as_u16(), 0, BytesMut::new());
        while let Some(chunk) = response.chunk().await? {
            bytes += chunk.len() as u64;
            let left = if wants { Limits::default().page } else { 0 };
            content.extend_from_slice(&chunk[..chunk.len().min(left.saturating_sub(content.len()))]);
        }
        Ok(Reply { status, cache, bytes, content: content.freeze(), ..Reply::default() })
    }
}

impl ForeignClient for Tunnels {
    fn ask<'f>(
        &'f mut self,
        sent: SentRequest<'f>,
        wants: bool,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, String>> + 'f>> {
        Box::pin(async move {
            match self.send(sent, wants).await {
                Ok(reply) => Ok(reply),
                Err(error) => Err(explain(&self.server, self.patience, sent.url, &error).await.to_string()),
            }
        })
    }
}

impl PageClient for HttpClient {
    fn ask(&mut self, call: &Call) -> Result<Answer, Problem> {
        let Call::Fetch { url } = call else {
            return Err(Problem::Failed(
                "http fetches pages only; statistics are on the admin listener".to_owned(),
            ));
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

/// Returns the content of `response`; `None` if it is longer than a page may be.
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

/// Returns the root cause of an error, which is the most specific.
fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.downcast_ref().map_or_else(|| cause.to_string(), describe)
}

/// Returns a config that trusts the system's certificates, and offers HTTP/2 if `http2` is set. Errors: no version of
/// TLS is available; in one line.
pub(super) fn tls(http2: bool) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = larder_proxy::net::tls::provider();
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("cannot set up TLS: {error}"))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    if http2 {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    Ok(config)
}
