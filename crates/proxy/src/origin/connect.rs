//! Connects to origins: resolve once, check, connect to what was checked, TLS if asked.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;

use super::guard;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name is unknown, or the name server did not answer.
    #[error("cannot resolve {0}: {1}")]
    Resolve(String, io::Error),
    /// All its addresses are in networks that clients may not reach.
    #[error("{0} is at {1}, which is not a public address; allow_private would permit it")]
    Forbidden(String, IpAddr),
    /// Nobody listens there, or nobody answers.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, io::Error),
    /// It took longer than allowed.
    #[error("no connection to {0} within {1:?}")]
    Timeout(String, Duration),
}

/// Makes connections for one kind of destination.
#[derive(Clone, Debug)]
pub struct Connector {
    timeout: Duration,
    public_only: bool,
}

impl Connector {
    /// Connections within `timeout`, only to public addresses if so told.
    pub fn new(timeout: Duration, public_only: bool) -> Self {
        Self { timeout, public_only }
    }

    /// A TCP connection to `host`, without TLS.
    ///
    /// # Errors
    /// Why there is none; every address was tried.
    pub async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
        let name = format!("{host}:{port}");
        match tokio::time::timeout(self.timeout, self.connect(host, port, &name)).await {
            Ok(connected) => connected,
            Err(_) => Err(ConnectError::Timeout(name, self.timeout)),
        }
    }

    async fn connect(&self, host: &str, port: u16, name: &str) -> Result<TcpStream, ConnectError> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((host, port)).await;
        let found: Vec<SocketAddr> =
            found.map_err(|error| ConnectError::Resolve(host.to_owned(), error))?.collect();
        let allowed = found.iter().filter(|address| !self.public_only || guard::is_public(address.ip()));
        let mut last = match found.first() {
            Some(first) => ConnectError::Forbidden(name.to_owned(), first.ip()),
            None => ConnectError::Resolve(host.to_owned(), io::ErrorKind::NotFound.into()),
        };
        for address in allowed {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // Heads and bodies are written whole; waiting for more would only delay them.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = ConnectError::Connect(name.to_owned(), error),
            }
        }
        Err(last)
    }

    async fn open(self, uri: Uri) -> Result<TokioIo<TcpStream>, ConnectError> {
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(default));
        self.tcp(host, port).await.map(TokioIo::new)
    }

    /// The same with TLS on top for https, trusting the system's roots.
    pub fn with_tls(self, roots: &Arc<ClientConfig>) -> HttpsConnector<Self> {
        let builder = HttpsConnectorBuilder::new().with_tls_config(ClientConfig::clone(roots));
        builder.https_or_http().enable_http1().wrap_connector(self)
    }
}

/// TLS towards origins: the system's certificate roots, no client certificate.
///
/// # Errors
/// When the cryptography provider cannot be set up.
pub fn tls() -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().open(uri))
    }
}
