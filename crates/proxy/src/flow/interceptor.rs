//! The authority of an interception, and what was found out about hosts.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use larder_semantics::status::Why;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::net::TcpStream;

use crate::base::clock;
use crate::base::error::Error;
use crate::base::settings::Intercept;
use crate::exchange::reply::Uninterceptable;
use crate::net::concurrency::ConcurrencyLimit;
use crate::net::tls::authority::CertificateAuthority;
use crate::observe::repeats::Repeats;
use crate::origin::{ConnectError, TlsFault};

/// How long a finding about a host holds, in milliseconds, and one that may be wrong.
const REMEMBERED: u64 = 60 * MINUTE;
const SUSPECTED: u64 = 5 * MINUTE;
const MINUTE: u64 = 60_000;
/// The most findings that are remembered.
const MOST: usize = 4_096;
/// The time after a handshake in which a client leaves that does not trust the authority.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The most handshakes in intercepted tunnels at once, and the most that wait.
const HANDSHAKES: usize = 256;
const WAITING: usize = 4_096;

/// The authority, and what was found out about hosts.
pub(crate) struct Interceptor {
    pub(super) authority: Arc<CertificateAuthority>,
    findings: Mutex<HashMap<Subject, Finding>>,
    repeats: Repeats,
    /// Permits for handshakes in progress.
    pub(crate) handshakes: Arc<ConcurrencyLimit>,
}

/// The host and port of a tunnel, and the client if the finding is about it alone.
type Subject = (Box<str>, Option<IpAddr>);

/// What was found out: the reason for a tunnel, or `None`: the origin's part of interception works, or the client's.
#[derive(Clone, Copy)]
struct Finding {
    why: Option<Why>,
    /// The time at which it is forgotten, in `clock::millis`.
    end: u64,
}

/// The near end of an intercepted tunnel.
pub(crate) struct InterceptedTunnel {
    pub(crate) stream: TcpStream,
    pub(crate) client: SocketAddr,
    /// The host that the client has named, and the port if it is not 443.
    pub(crate) site: Arc<str>,
    /// The `Via` of a tunnel to it.
    pub(crate) via: Vec<u8>,
    pub(crate) tls: Arc<ServerConfig>,
    /// Whether the client accepts nothing but stored responses.
    pub(crate) is_offline: bool,
    /// Is set if the requests cannot be answered here.
    pub(crate) uninterceptable: Uninterceptable,
}

impl Interceptor {
    /// Reads the authority of `settings`. Errors: the file with the problem, or that the authority has expired.
    pub(crate) fn new(settings: &Intercept, repeats: &Repeats) -> Result<Self, Error> {
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
        let authority = Arc::new(authority);
        authority.make_leaf_key();
        let handshakes = Arc::new(ConcurrencyLimit::new(HANDSHAKES, WAITING));
        let interceptor =
            Self { authority, findings: Mutex::default(), repeats: repeats.clone(), handshakes };
        let known = settings.known.iter().map(|site| (site.as_str().into(), None));
        known.for_each(|subject| interceptor.remember(subject, None, REMEMBERED));
        Ok(interceptor)
    }

    /// Returns the certificate of the authority in PEM.
    pub(crate) fn certificate(&self) -> &str {
        self.authority.pem()
    }

    /// Records that `client` refused the certificate for `site`, with this alert. The first time, a warning says so.
    pub(crate) fn distrusted(&self, site: &str, client: IpAddr, alert: &str) {
        self.distrusted_for(REMEMBERED, site, client, alert);
    }

    fn distrusted_for(&self, time: u64, site: &str, client: IpAddr, how: &str) {
        let known = found(&self.findings.lock(), site, Some(client));
        self.remember((site.into(), Some(client)), Some(Why::TunnelDistrusted), time);
        let text = format!("{client} does not trust the authority for {site}");
        if known.is_none_or(|finding| finding.why.is_none()) && self.repeats.is_first(&text) {
            let minutes = time / MINUTE;
            tracing::warn!("{text} ({how}): its next connections to it are tunnels, for {minutes} minutes");
        }
    }

    /// Records that `client` sends requests in a tunnel to `site`.
    pub(crate) fn trusted(&self, site: &str, client: IpAddr) {
        self.remember((site.into(), Some(client)), None, REMEMBERED);
    }

    /// Records that `client`, the only one, left without a request so soon after the handshake, although it never sent one.
    /// Clients that compare certificates after it, and those of GnuTLS, send no alert.
    pub(crate) fn left(&self, site: &str, client: IpAddr, after: Duration) {
        if after < AT_ONCE && found(&self.findings.lock(), site, Some(client)).is_none() {
            self.distrusted_for(SUSPECTED, site, client, "it left without a request");
        }
    }

    /// Whether it is known that interception works at `site`. Errors: the reason for a tunnel of this client.
    pub(super) fn is_known(&self, site: &str, client: IpAddr) -> Result<bool, Why> {
        let findings = self.findings.lock();
        let of_site = found(&findings, site, None);
        let of_client = found(&findings, site, Some(client));
        match [of_client, of_site].into_iter().flatten().find_map(|finding| finding.why) {
            Some(why) => Err(why),
            None => Ok(of_site.is_some()),
        }
    }

    /// Returns the reason why the tunnels to `site` are not read, those of some client at least.
    pub(super) fn finding(&self, site: &str) -> Option<Why> {
        let (findings, now) = (self.findings.lock(), clock::millis());
        let of_site = findings.iter().filter(|((own, _), finding)| **own == *site && now < finding.end);
        of_site.filter_map(|(_, finding)| finding.why).next()
    }

    /// Concludes from a handshake with the origin of `site`, in which it asked for a certificate or not. Errors: the
    /// reason for a tunnel.
    pub(super) fn judge(
        &self,
        site: &str,
        (connected, asks): (Result<(), ConnectError>, bool),
    ) -> Result<(), Why> {
        let why = match connected {
            _ if asks => Some(Why::TunnelCertificate),
            // The client may support what this proxy does not.
            Err(ConnectError::Tls(_, TlsFault::NoTls | TlsFault::Other(_))) => Some(Why::TunnelNotTls),
            // A request in the tunnel gets the error, unless a stored response answers it.
            Err(_) => return Ok(()),
            Ok(()) => None,
        };
        self.remember((site.into(), None), why, REMEMBERED);
        why.map_or(Ok(()), Err)
    }

    fn remember(&self, subject: Subject, why: Option<Why>, time: u64) {
        let (mut findings, now) = (self.findings.lock(), clock::millis());
        if findings.len() >= MOST {
            findings.retain(|_, finding| now < finding.end);
        }
        // Each can be found out again.
        if findings.len() >= MOST {
            findings.retain(|(_, client), finding| client.is_none() || finding.why.is_some());
        }
        if findings.len() >= MOST {
            findings.clear();
        }
        findings.insert(subject, Finding { why, end: now + time });
    }
}

/// Returns what was found out about a site, and perhaps about one client there.
fn found(findings: &HashMap<Subject, Finding>, site: &str, client: Option<IpAddr>) -> Option<Finding> {
    findings.get(&(site.into(), client)).filter(|finding| clock::millis() < finding.end).copied()
}
