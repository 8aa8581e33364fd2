//! TLS of the listeners: what is agreed on, with which certificates and tickets.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::rand;
use larder_store::private;
use rustls::server::{NoServerSessionStorage, ServerConfig};
use serde::Serialize;
use tokio::net::TcpStream;

use super::accept::{Failure, Secured, Session, Unsecured, accept};
use super::certificates::Certificates;
use super::provider;
use super::tickets::Tickets;
use crate::base::error::Error;
use crate::base::settings::{CertificateFiles, Settings};
use crate::net::concurrency::ConcurrencyLimit;

/// Bytes of the secret that tickets are sealed with.
const SECRET: usize = 32;
/// Handshakes at once whose first message has come. Each takes at most some 40 KB until it is done.
const HANDSHAKES: usize = 2048;
/// Further ones that wait.
const WAITING: usize = 16_384;
/// The file with it, in the state directory.
const SECRET_FILE: &str = "ticket-secret";

/// TLS of the listeners.
#[derive(Debug)]
pub(crate) struct Server {
    /// For clients that may speak HTTP/2.
    config: Arc<ServerConfig>,
    /// The same without HTTP/2.
    without_http2: Arc<ServerConfig>,
    /// The port of the first listener for sites, if there is one.
    pub(crate) port: Option<u16>,
    certificates: Arc<Certificates>,
    counts: Counts,
    /// Permits for handshakes that have begun.
    handshakes: Arc<ConcurrencyLimit>,
}

/// Handshakes since the process began.
#[derive(Debug, Default)]
struct Counts {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: [AtomicU64; Failure::ALL.len()],
}

impl Counts {
    /// Notes how a handshake ended.
    fn add(&self, ended: Result<Session, &Unsecured>) {
        let count = match ended {
            Ok(Session { is_resumed: true, .. }) => &self.resumed,
            Ok(_) => &self.full,
            Err(error) => &self.failed[error.reason() as usize],
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// All of them, by how they ended.
    fn by_end(&self) -> BTreeMap<&'static str, u64> {
        let done = [("full", &self.full), ("resumed", &self.resumed)];
        let failed = Failure::ALL.iter().map(|failure| failure.name()).zip(&self.failed);
        done.into_iter().chain(failed).map(|(end, count)| (end, count.load(Ordering::Relaxed))).collect()
    }
}

/// TLS of the listeners, in numbers.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Handshakes since the process began, by how they ended: `full`, `resumed`, or the reason of a failure.
    pub(crate) handshakes: BTreeMap<&'static str, u64>,
    pub(crate) certificates: Vec<End>,
}

/// When a certificate ends.
#[derive(Debug, Serialize)]
pub(crate) struct End {
    /// The first of its names.
    pub(crate) name: String,
    /// In UNIX seconds.
    pub(crate) not_after: u64,
}

impl Server {
    /// TLS by `settings`, for sites at `port`; `None` where nothing is configured.
    ///
    /// # Errors
    /// Which certificate cannot be used, and why.
    pub(crate) fn new(settings: &Settings, port: Option<u16>) -> Result<Option<Arc<Self>>, Error> {
        if settings.certificates.is_empty() {
            return Ok(None);
        }
        let certificates = Certificates::read(&settings.certificates);
        let certificates = Arc::new(certificates.map_err(|why| Error::new("cannot use a certificate", why))?);
        let cannot = |error| Error::new("cannot set up TLS", error);
        let config = ServerConfig::builder_with_provider(provider());
        let config =
            config.with_safe_default_protocol_versions().map_err(|error| cannot(error.to_string()))?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::clone(&certificates) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer =
            Arc::new(Tickets::new(&secret(settings).map_err(|error| cannot(error.to_string()))?));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // One is enough: a client that opens several connections can use it more than once.
        config.send_tls13_tickets = 1;
        config.ignore_client_order = true;
        config.enable_secret_extraction = true;
        let mut without_http2 = config.clone();
        without_http2.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (config, without_http2, counts) = (Arc::new(config), Arc::new(without_http2), Counts::default());
        let handshakes = Arc::new(ConcurrencyLimit::new(HANDSHAKES, WAITING));
        Ok(Some(Arc::new(Self { config, without_http2, port, certificates, counts, handshakes })))
    }

    /// Reads the certificates in `files` again: those that have changed, or all. Those that cannot be used stay as they
    /// are.
    pub(crate) fn refresh(&self, files: &[CertificateFiles], all: bool) {
        for problem in self.certificates.refresh(files, all) {
            tracing::error!("{problem}");
        }
    }

    /// Handshakes and certificates, in numbers.
    pub(crate) fn report(&self) -> Report {
        let end = |(name, not_after)| End { name, not_after };
        let certificates = self.certificates.ends().into_iter().map(end).collect();
        Report { handshakes: self.counts.by_end(), certificates }
    }

    /// Makes the handshake with `client` at the other end of `stream`, within `limit`, and counts how it ended.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        limit: Duration,
        http2: bool,
    ) -> Result<Secured, Unsecured> {
        let config = Arc::clone(if http2 { &self.config } else { &self.without_http2 });
        let accepted = accept(stream, client.ip(), config, &self.handshakes);
        let accepted = tokio::time::timeout(limit, accepted).await.unwrap_or(Err(Unsecured::TimedOut(limit)));
        self.counts.add(accepted.as_ref().map(|secured| secured.session));
        accepted
    }
}

/// What tickets are sealed with: the same on all nodes of a cluster, and for the next process.
fn secret(settings: &Settings) -> io::Result<Vec<u8>> {
    if let Some(token) = settings.cluster.as_ref().and_then(|cluster| cluster.token.as_ref()) {
        return Ok(token.secret().as_bytes().to_vec());
    }
    let Some(state) = &settings.state else { return random() };
    // Without a file, sessions end with the process.
    match kept(&state.join(SECRET_FILE)) {
        Ok(secret) => Ok(secret),
        Err(error) => {
            tracing::warn!(
                "clients cannot resume TLS sessions after a restart: {}: {error}",
                state.join(SECRET_FILE).display()
            );
            random()
        }
    }
}

fn random() -> io::Result<Vec<u8>> {
    let mut secret = vec![0; SECRET];
    rand::fill(&mut secret).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(secret)
}

/// The secret in the file at `path`, which is made if there is none.
fn kept(path: &Path) -> io::Result<Vec<u8>> {
    match private::read(path) {
        Ok(secret) if secret.len() == SECRET => return Ok(secret),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if let Some(folder) = path.parent() {
        private::make_directory(folder)?;
    }
    let secret = random()?;
    private::write(path, &secret)?;
    Ok(secret)
}
