//! TLS of the listeners: their versions, certificates, tickets and client authentication.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::server::ServerConfig;
use serde::Serialize;
use tokio::net::TcpStream;

use super::accept::{HandshakeError, TlsConnection, accept};
use super::admin::Acceptor;
use super::certificates::{Certificate, Certificates};
use super::challenges;
use super::client_certificates::{self, ClientIdentity};
use super::counts::Counts;
use super::server_config;
use super::tickets::Tickets;
use super::validity::DAY;
use crate::base::clock;
use crate::base::error::Error;
use crate::base::file_version::FileVersion;
use crate::base::settings::{AdminTls, CertificateFiles, ClientAuth, ClientAuths, Role, Settings};
use crate::net::concurrency::ConcurrencyLimit;

/// Maximum of concurrent handshakes whose first message has arrived. Each uses up to some 40 KB until it is done.
const HANDSHAKES: usize = 2048;
/// Maximum of waiting handshakes.
const WAITING: usize = 16_384;

/// TLS of the listeners.
#[derive(Debug)]
pub struct Server {
    terms: ArcSwap<Terms>,
    /// Held while the terms are changed.
    changing: Mutex<()>,
    /// The tickets by which sessions are resumed.
    pub tickets: Arc<Tickets>,
    /// The port of the first listener for sites, if there is one.
    pub port: Option<u16>,
    /// The certificates of all names.
    pub certificates: Arc<Certificates>,
    counts: Counts,
    /// The last day on which the log had warnings about certificates, counted from the beginning of 1970.
    told: AtomicU64,
    /// Permits for handshakes in progress.
    handshakes: Arc<ConcurrencyLimit>,
}

/// The TLS configurations by kind of listener.
#[derive(Debug)]
struct Terms {
    common: Common,
    reverse: Agreement,
    forward: Agreement,
    rpc: Agreement,
}

/// The settings of all listeners.
#[derive(Clone, Copy, Debug)]
struct Common {
    /// Whether authorities verify names on these listeners.
    verifies: bool,
}

/// The TLS configuration of a listener.
#[derive(Clone, Debug)]
struct Agreement {
    /// For clients that may speak HTTP/2.
    http2: Arc<ServerConfig>,
    /// The same without HTTP/2.
    without_http2: Arc<ServerConfig>,
    /// The authorities of the client certificates that the listener requests.
    client_auth: Option<Arc<ClientAuth>>,
}

/// Statistics about TLS of the listeners.
#[derive(Debug, Serialize)]
pub struct TlsReport {
    /// Handshakes since the process began, by result: `full`, `resumed`, or the reason of a failure.
    pub handshakes: BTreeMap<&'static str, u64>,
    /// The ends of the certificates in use.
    pub certificates: Vec<End>,
}

/// The end of a certificate's validity.
#[derive(Debug, Serialize)]
pub struct End {
    /// The certificate's first name.
    pub name: String,
    /// The end of its validity, in UNIX seconds.
    pub not_after: u64,
    /// The reason why clients refuse it, or will soon.
    pub trouble: Option<String>,
}

impl Server {
    /// Sets up TLS by `settings`, for sites at `port`; `None` if no certificate is configured and none is to be issued.
    /// Errors: the certificate that is unusable, and the reason.
    pub fn new(settings: &Settings, port: Option<u16>) -> Result<Option<Arc<Self>>, Error> {
        let common = Common::of(settings);
        if settings.certificates.is_empty() && !common.verifies {
            return Ok(None);
        }
        let certificates = Certificates::read(&settings.certificates);
        let certificates = Arc::new(certificates.map_err(|why| Error::new("cannot use a certificate", why))?);
        let cannot = |why: String| Error::new("cannot set up TLS", why);
        let tickets = Tickets::new().map_err(|_| cannot("the system has no random numbers".to_owned()))?;
        let tickets = Arc::new(tickets);
        let terms = Terms::new(&certificates, &tickets, &settings.client_auth, common);
        let terms = ArcSwap::from_pointee(terms.map_err(|error| cannot(error.to_string()))?);
        let handshakes = Arc::new(ConcurrencyLimit::new(HANDSHAKES, WAITING));
        let (changing, counts, told) = (Mutex::default(), Counts::default(), AtomicU64::default());
        Ok(Some(Arc::new(Self { terms, changing, tickets, port, certificates, counts, told, handshakes })))
    }

    /// Applies a reload to new connections: reads all certificates again, and requests client certificates by
    /// `settings`. An unusable certificate leaves the previous one in use.
    pub fn reload(&self, settings: &Settings) {
        let _changing = self.changing.lock();
        self.refresh(&settings.certificates, true);
        let terms = self.terms.load();
        let of = |role| match settings.listen.iter().any(|listener| listener.tls && listener.role == role) {
            true => settings.client_auth.of(role).cloned(),
            // Listeners stay open until a restart: a listener that is not in these settings keeps its client
            // authentication.
            false => terms.of(Some(role)).client_auth.clone(),
        };
        let auths = ClientAuths { reverse: of(Role::Reverse), forward: of(Role::Forward) };
        self.agree(&auths, Common::of(settings));
    }

    /// Reads the certificates in `files` and the authorities in use again, as far as they have changed. Unusable files
    /// leave the previous state in use. Logs failed handshakes, and replaces the key of tickets in time.
    pub fn look(&self, files: &[CertificateFiles]) {
        if let Some(news) = self.counts.news(clock::millis()) {
            tracing::info!("{news}");
        }
        self.tickets.renew();
        let _changing = self.changing.lock();
        self.refresh(files, false);
        let terms = self.terms.load();
        let auths = [&terms.reverse, &terms.forward].map(|agreement| agreement.client_auth.clone());
        if auths.iter().flatten().all(|auth| client_certificates::is_current(auth)) {
            return;
        }
        let [reverse, forward] = auths.map(|auth| auth.map(read_again));
        self.agree(&ClientAuths { reverse, forward }, terms.common);
    }

    fn agree(&self, auths: &ClientAuths, common: Common) {
        match Terms::new(&self.certificates, &self.tickets, auths, common) {
            Ok(terms) => self.terms.store(Arc::new(terms)),
            Err(error) => tracing::error!("TLS stays as it was: {error}"),
        }
    }

    fn refresh(&self, files: &[CertificateFiles], all: bool) {
        for problem in self.certificates.refresh(files, all) {
            tracing::error!("{problem}");
        }
        let now = u64::from(clock::now());
        let today = now / DAY;
        if self.told.swap(today, Ordering::Relaxed) != today || all {
            for trouble in self.certificates.troubles(now) {
                tracing::warn!("{trouble}");
            }
        }
    }

    /// Sets up TLS of the admin listener by `settings`, with the certificates of the other listeners if there are
    /// `others`. The error is the reason why there is no usable certificate.
    pub fn for_admin(settings: &AdminTls, others: Option<&Self>) -> Result<Acceptor, Error> {
        Acceptor::new(settings, others.map(|others| &others.certificates))
    }

    /// Returns statistics about handshakes and certificates.
    pub fn report(&self) -> TlsReport {
        let now = clock::now().into();
        let end = |(name, certificate): (_, Certificate)| End {
            name,
            not_after: certificate.not_after,
            trouble: certificate.trouble(now),
        };
        let certificates = self.certificates.by_first_name().into_iter().map(end).collect();
        TlsReport { handshakes: self.counts.by_end(), certificates }
    }

    /// Makes the handshake with `client` at the other end of `stream`, within `limit`, and counts its result. `role` is
    /// the role of a listener for HTTP. Returns an identity if the listener requests client certificates. Errors: the
    /// reason for the failure.
    pub async fn accept(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        limit: Duration,
        role: Option<Role>,
        http2: bool,
    ) -> Result<(TlsConnection, Option<Arc<ClientIdentity>>), HandshakeError> {
        let agreement = self.terms.load().of(role).clone();
        let config = if http2 { &agreement.http2 } else { &agreement.without_http2 };
        let accepted = accept(stream, client.ip(), Arc::clone(config), &self.handshakes, limit).await;
        let identity = |chain: &[_]| agreement.client_auth.is_some().then(|| ClientIdentity::of(chain));
        let accepted = accepted.map(|secured| {
            let identity = identity(&secured.chain);
            (secured, identity)
        });
        self.counts.add(accepted.as_ref().map(|(secured, _)| secured.session));
        accepted
    }
}

impl Terms {
    fn new(
        certificates: &Arc<Certificates>,
        tickets: &Arc<Tickets>,
        auths: &ClientAuths,
        common: Common,
    ) -> Result<Self, rustls::Error> {
        let agreement = |auth| Agreement::new(certificates, tickets, auth, common);
        let rpc = agreement(None)?;
        let of = |role| match auths.of(role) {
            None => Ok(rpc.clone()),
            Some(auth) => agreement(Some(auth)),
        };
        Ok(Self { common, reverse: of(Role::Reverse)?, forward: of(Role::Forward)?, rpc })
    }

    fn of(&self, role: Option<Role>) -> &Agreement {
        match role {
            Some(Role::Reverse) => &self.reverse,
            Some(Role::Forward) => &self.forward,
            None => &self.rpc,
        }
    }
}

impl Agreement {
    fn new(
        certificates: &Arc<Certificates>,
        tickets: &Arc<Tickets>,
        auth: Option<&Arc<ClientAuth>>,
        common: Common,
    ) -> Result<Self, rustls::Error> {
        let verifier = auth.map(|auth| &auth.verifier);
        let mut config = server_config(Arc::clone(certificates) as _, verifier, &[b"h2", b"http/1.1"])?;
        // The last in preference: a client that offers another protocol as well is not an authority.
        config.alpn_protocols.extend(common.verifies.then(|| challenges::PROTOCOL.to_vec()));
        // A resumed session would outlive the certificate that was verified when it began.
        if auth.is_none() {
            config.ticketer = Arc::clone(tickets) as _;
            // One ticket is enough: a client with several connections can use it more than once.
            config.send_tls13_tickets = 1;
        }
        config.enable_secret_extraction = true;
        let mut without_http2 = config.clone();
        without_http2.alpn_protocols.remove(0);
        Ok(Self {
            http2: Arc::new(config),
            without_http2: Arc::new(without_http2),
            client_auth: auth.cloned(),
        })
    }
}

impl Common {
    fn of(settings: &Settings) -> Self {
        let verifies = settings.sites.iter().any(|site| site.acme.is_some());
        Self { verifies }
    }
}

/// Returns the authorities in the file if it has changed, or else `auth`.
fn read_again(auth: Arc<ClientAuth>) -> Arc<ClientAuth> {
    if client_certificates::is_current(&auth) {
        return auth;
    }
    let ClientAuth { files, .. } = &*auth;
    // Taken before the file is read, so that the next check detects a change in between.
    let version = FileVersion::of(&files.ca);
    match client_certificates::read(files) {
        Ok(new) => Arc::new(new),
        Err(why) => {
            tracing::error!("{}: {why}; the authorities that were read before stay in use", files.place);
            // The file is not read again before its next change.
            Arc::new(ClientAuth { version, ..ClientAuth::clone(&auth) })
        }
    }
}
