//! Parent proxies: which of them leads to an origin, their health, and what they are sent.
//!
//! A request for http is sent to a parent as any request to a proxy, with the whole URL (RFC 9112 section 3.2.2). For
//! https, and for tunnels of clients, the parent opens a tunnel (RFC 9110 section 9.3.6), so that it sees no content.
//! Addresses of this machine and its links are always reached directly: at the parent, they would be those of another.
//!
//! A parent of SOCKS opens a tunnel for each of them. A parent may itself be reached over TLS; the system has to trust its
//! certificate. Larder then relays the content of a tunnel.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Method, StatusCode};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::connect_error::ConnectError;
use super::{OriginError, socks, tls_config};
use crate::base::clock;
use crate::base::networks::{bare, host_and_port};
use crate::base::settings::{NoProxy, ParentProxy, ParentSettings, is_service};
use crate::http::fields::FieldWriter;
use crate::http::response::{self, Head, Interims, Malformed};

/// The parent proxies of one kind of destination, and their health. Shared by all workers.
#[derive(Debug, Default)]
pub struct Parents {
    http: Vec<Arc<Parent>>,
    https: Vec<Arc<Parent>>,
    no_proxy: Vec<NoProxy>,
    only: Vec<NoProxy>,
    pub(super) falls_back: bool,
    fail_millis: u64,
    /// The configuration of TLS to the parents, if one of them is reached over it.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// A parent proxy.
#[derive(Debug)]
pub(super) struct Parent {
    proxy: ParentProxy,
    /// The value of `Proxy-Authorization` (RFC 7617), which `Debug` does not print.
    credential: Option<HeaderValue>,
    /// The end of its backoff (`clock::millis`).
    until: AtomicU64,
}

impl Parents {
    /// Creates the parents of `settings`, all assumed to be well.
    pub fn new(settings: &ParentSettings) -> Arc<Self> {
        let all =
            |proxies: &[ParentProxy]| proxies.iter().map(|proxy| Arc::new(Parent::new(proxy))).collect();
        let is_secure = settings.http.iter().chain(&settings.https).any(|proxy| proxy.https);
        Arc::new(Self {
            // Without it, such a parent cannot be reached.
            tls: is_secure.then(|| tls_config::tls().ok()).flatten(),
            http: all(&settings.http),
            https: all(&settings.https),
            no_proxy: settings.no_proxy.clone(),
            only: settings.only.clone(),
            falls_back: settings.falls_back,
            fail_millis: u64::try_from(settings.fail_timeout.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Whether requests to this origin go through a parent.
    pub fn lead_to(&self, https: bool, authority: &str) -> bool {
        let (host, port) = host_and_port(https, authority);
        // Proxies know no services.
        !is_service(host) && !self.of(https, host, port).is_empty()
    }

    /// Returns the parents that lead to a host, in the order of preference; none if it is reached directly.
    pub(super) fn of(&self, https: bool, host: &str, port: u16) -> &[Arc<Parent>] {
        let parents = if https { &self.https } else { &self.http };
        let is_in = |list: &[NoProxy]| list.iter().any(|own| own.covers(host, port));
        let is_direct = parents.is_empty() || is_here(host) || !(self.only.is_empty() || is_in(&self.only));
        match is_direct || is_in(&self.no_proxy) {
            true => &[],
            false => parents,
        }
    }

    /// Notes that `parent` could not be reached, with the reason.
    pub(super) fn failed(&self, parent: &Parent, why: &ConnectError) {
        let now = clock::millis();
        if parent.until.swap(now.saturating_add(self.fail_millis), Ordering::Relaxed) <= now {
            tracing::warn!("{why}; it gets no requests for {} ms", self.fail_millis);
        }
    }
}

impl Parent {
    fn new(proxy: &ParentProxy) -> Self {
        let credential = proxy.user.as_ref().and_then(|user| {
            let user: Vec<u8> = percent_decode_str(user).collect();
            let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(user))).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self { credential, proxy: proxy.clone(), until: AtomicU64::new(0) }
    }

    /// Returns whether it is reached over TLS, its host, and its port.
    pub(super) fn address(&self) -> (bool, &str, u16) {
        let ParentProxy { https, authority, .. } = &self.proxy;
        let (host, port) = host_and_port(*https, authority);
        (*https, host, port)
    }

    pub(super) fn is_well(&self) -> bool {
        self.until.load(Ordering::Relaxed) <= clock::millis()
    }

    /// Returns `head`, which is in origin-form, in the form for a proxy: with the whole URL, and with the credential. As
    /// a proxy derives `Host` from the URL, it names the origin.
    pub(super) fn absolute(&self, authority: &str, head: &[u8]) -> Vec<u8> {
        let mut lines = head.split_inclusive(|&byte| byte == b'\n');
        let mut words = lines.next().unwrap_or_default().splitn(3, |&byte| byte == b' ');
        let [method, target, version] = [(); 3].map(|()| words.next().unwrap_or_default());
        let target = if target == b"*" { &b""[..] } else { target };
        let mut out = Vec::with_capacity(head.len() + 2 * authority.len() + 128);
        for part in [method, b" http://", authority.as_bytes(), target, b" ", version] {
            out.extend_from_slice(part);
        }
        self.write_fields(authority, &mut out);
        let is_host = |line: &&[u8]| line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"host:"));
        lines.filter(|line| !is_host(line)).for_each(|line| out.extend_from_slice(line));
        out
    }

    fn write_fields(&self, authority: &str, out: &mut Vec<u8>) {
        out.field(b"Host", authority.as_bytes());
        if let Some(credential) = &self.credential {
            out.field(b"Proxy-Authorization", credential.as_bytes());
        }
    }

    /// Whether it reads requests for http, rather than opening a tunnel for them, too.
    pub(super) fn reads_http(&self) -> bool {
        !self.proxy.socks
    }

    /// Asks for a tunnel to `authority`, which has a port, on a new connection to this parent, with these field `lines`. Errors:
    /// [`ConnectError::ParentRefused`] if the parent answers that it opens none; others if it gives no answer.
    pub(super) async fn open_tunnel(
        &self,
        stream: &mut TcpStream,
        authority: &str,
        lines: &[u8],
    ) -> Result<(), ConnectError> {
        let failed = |error| self.unreached(ConnectError::Connect(authority.to_owned(), error));
        if self.proxy.socks {
            let user = self.proxy.user.as_deref();
            return match socks::open_tunnel(stream, authority, user).await.map_err(failed)? {
                Ok(()) => Ok(()),
                Err(why) => Err(ConnectError::ParentRefused(self.proxy.authority.clone(), why)),
            };
        }
        let mut head = format!("CONNECT {authority} HTTP/1.1\r\n").into_bytes();
        self.write_fields(authority, &mut head);
        head.extend_from_slice(lines);
        head.extend_from_slice(b"\r\n");
        let asked = async {
            stream.write_all(&head).await?;
            let mut interims = Interims::default();
            loop {
                let head = receive(stream).await?;
                if !head.status.is_informational() {
                    return Ok(head.status);
                }
                interims.count(&head).map_err(malformed)?;
            }
        };
        match asked.await.map_err(failed)? {
            status if status.is_success() => Ok(()),
            status => Err(self.refusal(status)),
        }
    }

    /// Returns the error for a parent that answers with `status` instead of the origin.
    pub(super) fn refusal(&self, status: StatusCode) -> ConnectError {
        let why = match (status, &self.credential) {
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, None) => {
                "407: it needs a user name and a password, as in http://USER:PASSWORD@HOST:PORT".to_owned()
            }
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, Some(_)) => {
                "407: it does not accept the user name and the password in its URL".to_owned()
            }
            (status, _) => format!("it opens no tunnel: status {}", status.as_u16()),
        };
        ConnectError::ParentRefused(self.proxy.authority.clone(), why)
    }

    /// Returns the error for a parent that cannot be reached.
    pub(super) fn unreached(&self, why: ConnectError) -> ConnectError {
        ConnectError::Parent(self.proxy.authority.clone(), Box::new(why))
    }

    /// Returns the error for a parent's own answer `status` to a request in the form for proxies, if it is one.
    pub(super) fn own_answer(&self, status: StatusCode) -> Option<OriginError> {
        (status == StatusCode::PROXY_AUTHENTICATION_REQUIRED).then(|| self.refusal(status).into())
    }
}

/// Reads the head of the answer to a `CONNECT`, and no byte behind it: those belong to the tunnel.
async fn receive(stream: &mut TcpStream) -> io::Result<Head> {
    let (mut head, mut seen) = (Vec::new(), [0; 1 << 10]);
    loop {
        let (count, known) = (stream.peek(&mut seen).await?, head.len());
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&seen[..count]);
        let parsed = response::parse(&head, &Method::CONNECT).map_err(malformed)?;
        let used = parsed.as_ref().map_or(count, |(_, used)| used - known);
        stream.read_exact(&mut seen[..used]).await?;
        if let Some((head, _)) = parsed {
            return Ok(head);
        }
    }
}

fn malformed(fault: Malformed) -> io::Error {
    io::Error::other(fault.0)
}

/// Whether `host` is a name or address of this machine.
fn is_here(host: &str) -> bool {
    match bare(host).parse::<IpAddr>() {
        Ok(ip) => is_local(ip.to_canonical()),
        Err(_) => {
            let host = host.strip_suffix('.').unwrap_or(host);
            host.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
        }
    }
}

/// Whether an address has a meaning on this machine or link only. Metadata services have such addresses.
fn is_local(ip: IpAddr) -> bool {
    let is_of_link = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    ip.is_loopback() || ip.is_unspecified() || is_of_link
}

impl NoProxy {
    fn covers(&self, host: &str, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Network(network) => {
                bare(host).parse::<IpAddr>().is_ok_and(|ip| network.contains(&ip.to_canonical()))
            }
            Self::Domain { name, port: only } => {
                let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
                let is_below = |name: &str| {
                    host.strip_suffix(name).is_some_and(|begin| begin.is_empty() || begin.ends_with('.'))
                };
                only.is_none_or(|only| only == port)
                    && match name.strip_prefix('.') {
                        Some(above) => host != above && is_below(above),
                        None => is_below(name),
                    }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parents(no_proxy: Vec<NoProxy>) -> Parents {
        let proxy = ParentProxy {
            https: false,
            socks: false,
            authority: "proxy:3128".to_owned(),
            user: Some("me%40home:a%3Ab".to_owned()),
        };
        let settings = ParentSettings { http: vec![proxy], no_proxy, ..ParentSettings::default() };
        Arc::into_inner(Parents::new(&settings)).expect("the only one")
    }

    #[test]
    fn heads_for_proxies_have_the_whole_url() {
        let parents = parents(Vec::new());
        for (head, expected) in [
            ("GET /a?b HTTP/1.1\r\nHost: site.test\r\nA: b\r\n\r\n", "GET http://o.test:81/a?b HTTP/1.1\r\n"),
            ("OPTIONS * HTTP/1.1\r\nA: b\r\n\r\n", "OPTIONS http://o.test:81 HTTP/1.1\r\n"),
        ] {
            let fields = "Host: o.test:81\r\nProxy-Authorization: Basic bWVAaG9tZTphOmI=\r\nA: b\r\n\r\n";
            let absolute = parents.http[0].absolute("o.test:81", head.as_bytes());
            assert_eq!(String::from_utf8(absolute).unwrap(), format!("{expected}{fields}"));
        }
        assert!(!format!("{parents:?}").contains("bWVA"), "secrets are not printed");
    }

    #[test]
    fn destinations_of_no_proxy_and_of_this_machine_are_reached_directly() {
        let domain = |name: &str, port| NoProxy::Domain { name: name.to_owned(), port };
        let network = NoProxy::Network("10.0.0.0/8".parse().unwrap());
        let parents = parents(vec![
            network,
            domain("a.test", None),
            domain(".b.test", None),
            domain("c.test", Some(8080)),
        ]);
        for (host, port, direct) in [
            ("far.test", 80, false),
            ("_http._tcp.test", 80, false),
            ("10.1.2.3", 80, true),
            ("192.0.2.1", 80, false),
            ("A.test", 80, true),
            ("x.a.test.", 80, true),
            ("xa.test", 80, false),
            ("b.test", 80, false),
            ("x.b.test", 80, true),
            ("c.test", 8080, true),
            ("c.test", 80, false),
            ("localhost", 80, true),
            ("[::1]", 80, true),
            ("127.9.9.9", 80, true),
        ] {
            assert_eq!(parents.of(false, host, port).is_empty(), direct, "{host}");
        }
        assert!(parents.of(true, "far.test", 443).is_empty(), "there is none for https");
        let some = Parents { only: vec![domain("test", None)], ..parents };
        let direct = ["far.test", "a.test", "far.example"].map(|host| some.of(false, host, 80).is_empty());
        assert_eq!(direct, [false, true, true]);
    }
}
