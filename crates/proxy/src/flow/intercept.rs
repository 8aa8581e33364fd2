//! Interception: this process answers the requests in a client's tunnel itself, over TLS with a certificate that its own
//! authority signs.
//!
//! The far end of such a tunnel is a socket of this process. `server` accepts the near end as one more connection of the
//! client, so that all protocols and rules hold in it. A host keeps its tunnels as they are if a client does not trust
//! the authority, if its origin asks for certificates of clients, or if it does not use TLS. What is wrong with the
//! certificate of an origin is told to the requests in the tunnel.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use larder_semantics::key;
use larder_semantics::status::Why;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::net::{TcpStream, UnixStream};

use crate::base::clock;
use crate::base::error::{Error, cause};
use crate::base::networks::host_of;
use crate::base::settings::Intercept;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::flow::worker::Worker;
use crate::net::concurrency::ConcurrencyLimit;
use crate::net::stream::of_socket;
use crate::net::tls::authority::CertificateAuthority;
use crate::origin::{ConnectError, TlsFault};

/// How long a finding about a host holds, in milliseconds.
const REMEMBERED: u64 = 3_600_000;
/// The most findings that are remembered.
const MOST: usize = 4_096;
/// The most handshakes in intercepted tunnels at once, and the most that wait.
const HANDSHAKES: usize = 256;
const WAITING: usize = 4_096;

/// The authority, and what was found out about hosts.
pub(crate) struct Interceptor {
    authority: CertificateAuthority,
    findings: Mutex<HashMap<Subject, Finding>>,
    /// Permits for handshakes in progress.
    pub(crate) handshakes: Arc<ConcurrencyLimit>,
}

/// The host and port of a tunnel, and the client if the finding is about it alone.
type Subject = (Box<str>, Option<IpAddr>);

/// What was found out: the reason for a tunnel, or `None`: the origin's part of interception works.
#[derive(Clone, Copy)]
struct Finding {
    why: Option<Why>,
    /// The time at which it is forgotten, in `clock::millis`.
    end: u64,
}

/// The near end of an intercepted tunnel.
pub(crate) struct Intercepted {
    pub(crate) stream: TcpStream,
    pub(crate) client: SocketAddr,
    /// The host that the client has named, and the port if it is not 443.
    pub(crate) site: Arc<str>,
    pub(crate) tls: Arc<ServerConfig>,
    /// Whether the client accepts nothing but stored responses.
    pub(crate) is_offline: bool,
}

impl Interceptor {
    /// Reads the authority of `settings`.
    ///
    /// # Errors
    /// The file with the problem, or that the authority has expired.
    pub(crate) fn new(settings: &Intercept) -> Result<Self, Error> {
        const CANNOT: &str = "cannot intercept";
        let files = &settings.authority;
        let read = CertificateAuthority::read(files);
        let authority = read.map_err(|fault| {
            Error::new(CANNOT, format!("{}; larder ca init makes an authority", files.blame(&fault)))
        })?;
        if let Some(trouble) = authority.certificate().trouble(clock::now().into()) {
            let text = format!("{}: the authority {trouble}", files.cert.display());
            if authority.certificate().not_after <= clock::now().into() {
                return Err(Error::new(CANNOT, format!("{text}; larder ca init --renew makes a new one")));
            }
            tracing::warn!("{text}");
        }
        let handshakes = Arc::new(ConcurrencyLimit::new(HANDSHAKES, WAITING));
        Ok(Self { authority, findings: Mutex::default(), handshakes })
    }

    /// Returns the certificate of the authority in PEM.
    pub(crate) fn certificate(&self) -> &str {
        self.authority.pem()
    }

    /// Returns the far end of a tunnel whose requests this process answers.
    ///
    /// # Errors
    /// The reason for a tunnel to the host itself.
    pub(crate) async fn open(
        &self,
        worker: &Worker,
        plan: &Plan,
        request: &Request,
    ) -> Result<TcpStream, Why> {
        let site = site_of(request).ok_or(Why::Method)?;
        let host = host_of(site);
        if !plan.settings.intercept.as_ref().is_some_and(|intercept| intercept.wants(host)) {
            return Err(Why::Method);
        }
        let asks_client = request.inquiry.is_some() || request.token.is_some();
        if request.ruling.wanted.is_some() || asks_client || request.asked_for_certificate {
            return Err(Why::TunnelCredentials);
        }
        let (http2, is_offline) = (plan.settings.limits.streams > 0, request.asked.only_if_cached);
        let signed = || self.authority.config_for(host, http2, clock::now().into());
        let tls = match self.is_known(site, request.client.ip())? || is_offline {
            true => signed(),
            false => {
                let client = Some(request.client.ip());
                let probe = worker.clients(plan).forward.clone();
                // The certificate is signed while the origin makes its part of the handshake.
                let (probed, tls) = tokio::join!(probe.warm(site, client), async { signed() });
                self.judge(site, probed)?;
                tls
            }
        };
        let failed = |why: String| {
            worker
                .shared
                .observers
                .repeats
                .warn(&why, || format!("CONNECT {site} is not intercepted: {why}"));
            Why::Method
        };
        let tls = tls.map_err(failed)?;
        let (far, stream) = pair().map_err(|error| failed(cause(&error)))?;
        let near = Intercepted { stream, client: request.client, site: site.into(), tls, is_offline };
        worker.intercepted.send(near).map_err(|_| Why::Method)?;
        Ok(far)
    }

    /// Records that `client` refused the certificate for `site`.
    pub(crate) fn distrusted(&self, site: &str, client: IpAddr) {
        self.remember((site.into(), Some(client)), Some(Why::TunnelDistrusted));
    }

    /// Whether it is known that interception works at `site`.
    ///
    /// # Errors
    /// The reason for a tunnel of this client.
    fn is_known(&self, site: &str, client: IpAddr) -> Result<bool, Why> {
        let (findings, now) = (self.findings.lock(), clock::millis());
        let about = |client| findings.get(&(site.into(), client)).filter(|finding| now < finding.end);
        match about(Some(client)).or_else(|| about(None)) {
            Some(Finding { why: Some(why), .. }) => Err(*why),
            Some(Finding { why: None, .. }) => Ok(true),
            None => Ok(false),
        }
    }

    /// Concludes from a handshake with the origin of `site`, in which it asked for a certificate or not.
    ///
    /// # Errors
    /// The reason for a tunnel.
    fn judge(&self, site: &str, (connected, asks): (Result<(), ConnectError>, bool)) -> Result<(), Why> {
        let why = match connected {
            _ if asks => Some(Why::TunnelCertificate),
            // The client may support what this proxy does not.
            Err(ConnectError::Tls(_, TlsFault::NoTls | TlsFault::Other(_))) => Some(Why::TunnelNotTls),
            // A request in the tunnel gets the error, unless a stored response answers it.
            Err(_) => return Ok(()),
            Ok(()) => None,
        };
        self.remember((site.into(), None), why);
        why.map_or(Ok(()), Err)
    }

    fn remember(&self, subject: Subject, why: Option<Why>) {
        let (mut findings, now) = (self.findings.lock(), clock::millis());
        if findings.len() >= MOST {
            findings.retain(|_, finding| now < finding.end);
        }
        // Each can be found out again.
        if findings.len() >= MOST {
            findings.clear();
        }
        findings.insert(subject, Finding { why, end: now + REMEMBERED });
    }
}

/// Returns the host of a tunnel, in lower case, and the port if it is not 443.
fn site_of(request: &Request) -> Option<&str> {
    let (_, site, _) = key::parse(request.target())?;
    str::from_utf8(site).ok()
}

/// Returns the two ends of a connection within this process.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let (far, near) = UnixStream::pair()?;
    Ok((of_socket(far)?, of_socket(near)?))
}
