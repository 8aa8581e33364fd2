//! Connects to origins: resolves a name once, checks the addresses, connects to a checked address, and sets up TLS if
//! requested.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use smallvec::SmallVec;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::Common;
use super::connect_error::ConnectError;
use super::parent::{Parent, Parents};
use super::race;
use super::resolve::{ResolveError, Resolver};
use crate::base::networks::{bare, host_and_port, host_of};
use crate::base::settings::{OriginTls, is_service, socket_of};
use crate::net::guard;
use crate::net::own::{self, OwnListeners};
use crate::net::stream::{self, Stream};

/// The ALPN name of HTTP/2 over TLS (RFC 9113 section 3.2).
const HTTP2: &[u8] = b"h2";

/// The protocols of requests on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocols {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, which the origin has to negotiate under TLS.
    Http2,
    /// HTTP/2 if the origin negotiates it under TLS, else HTTP/1.1.
    Either,
}

impl Protocols {
    /// Returns the names to offer by ALPN (RFC 7301); some servers that only know HTTP/1.1 do not know ALPN.
    fn offered(self) -> &'static [&'static [u8]] {
        match self {
            Self::Http1 => &[],
            Self::Http2 => &[HTTP2],
            Self::Either => &[HTTP2, b"http/1.1"],
        }
    }
}

/// A connection for requests to an origin.
#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) stream: Stream,
    /// The parent proxy at its other end; for https, behind a tunnel.
    pub(super) parent: Option<Arc<Parent>>,
}

impl OpenConnection {
    /// Whether the origin has negotiated HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        matches!(&self.stream, Stream::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(HTTP2))
    }

    /// Returns the address that was found for the origin `authority`, if that is a name and no parent proxy is in between.
    /// Its port is 0 unless the name is that of a service.
    pub(super) fn found(&self, authority: &str) -> Option<SocketAddr> {
        let host = bare(host_of(authority));
        let is_direct = self.parent.is_none() && host.parse::<IpAddr>().is_err();
        let mut found = self.stream.peer().filter(|_| is_direct)?;
        if !is_service(host) {
            found = SocketAddr::new(found.ip(), 0);
        }
        Some(found)
    }
}

/// Whether a server has asked for a certificate. It gets none.
#[derive(Debug, Default)]
struct CertificateRequest(AtomicBool);

impl ResolvesClientCert for CertificateRequest {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Opens connections for one kind of destination.
#[derive(Clone, Debug)]
pub struct Connector {
    /// The time limit of a connection, without the handshake of TLS.
    timeout: Duration,
    /// The time limit of that handshake.
    handshake: Duration,
    public_only: bool,
    own: OwnListeners,
    tls: Option<Arc<ClientConfig>>,
    /// The name to verify for all origins under TLS, if it is not the host of their URLs.
    name: Option<ServerName<'static>>,
    resolver: Arc<Resolver>,
    parents: Arc<Parents>,
}

impl Connector {
    /// Creates a connector with a timeout and the resolver of `common`. With `public_only`, it connects only to public
    /// addresses of other machines.
    pub fn new(timeout: Duration, public_only: bool, common: &Common) -> Self {
        let own = OwnListeners::default();
        let resolver = Arc::clone(&common.resolver);
        let parents = Arc::default();
        Self { timeout, handshake: timeout, public_only, own, tls: None, name: None, resolver, parents }
    }

    /// Reaches hosts through these parent proxies.
    pub fn through(self, parents: &Arc<Parents>) -> Self {
        Self { parents: Arc::clone(parents), ..self }
    }

    /// Returns the same connector with this time limit, if there is one, in place of its own.
    pub(super) fn within(&self, limit: Option<Duration>) -> Cow<'_, Self> {
        match limit {
            None => Cow::Borrowed(self),
            Some(limit) => Cow::Owned(Self { timeout: limit, handshake: limit, ..self.clone() }),
        }
    }

    /// Returns the time limit of a connection with its handshake.
    pub(super) fn limit(&self) -> Duration {
        self.timeout.saturating_add(self.handshake)
    }

    /// Sets the time limit of TLS handshakes; the default is that of connections.
    pub fn with_handshake(self, handshake: Duration) -> Self {
        Self { handshake, ..self }
    }

    /// Forbids connections to this process's `own` listeners.
    pub fn never_to(self, own: &OwnListeners) -> Self {
        Self { own: own.clone(), ..self }
    }

    /// Uses `config` for https.
    pub fn with_tls(self, config: &Arc<ClientConfig>) -> Self {
        Self { tls: Some(Arc::clone(config)), ..self }
    }

    /// Uses the TLS configuration of `site` for https, or else `config`.
    pub fn with_tls_of(self, site: Option<&OriginTls>, config: &Arc<ClientConfig>) -> Self {
        match site {
            None => self.with_tls(config),
            Some(OriginTls { config, name }) => Self { name: name.clone(), ..self.with_tls(config) },
        }
    }

    /// Opens a connection that carries any bytes to `host`, for a request of `client`: directly, or by a tunnel of a
    /// parent proxy, which gets the field line `via`.
    ///
    /// # Errors
    /// The reason of the failure, after all addresses and parents were tried.
    pub async fn tunnel(
        &self,
        host: &str,
        port: u16,
        (client, via): (Option<IpAddr>, &[u8]),
    ) -> Result<TcpStream, ConnectError> {
        let (stream, _) = self.reach((true, host, port), Some(via), client).await?;
        stream.relayed().map_err(|error| ConnectError::Connect(format!("{host}:{port}"), error))
    }

    /// Opens a connection to `authority`, under TLS for https, for a request of `client`.
    pub(super) async fn open(
        &self,
        https: bool,
        authority: &str,
        client: Option<IpAddr>,
    ) -> Result<OpenConnection, ConnectError> {
        self.open_for(https, authority, client, Protocols::Http1).await
    }

    /// Opens a connection over TLS to `authority`, for a request of `client`. Also returns whether the origin has asked
    /// for a certificate, even if that ended the handshake.
    pub(super) async fn open_watching(
        &self,
        authority: &str,
        client: Option<IpAddr>,
        protocols: Protocols,
    ) -> (Result<OpenConnection, ConnectError>, bool) {
        let watch = Arc::<CertificateRequest>::default();
        let tls = self.tls.as_ref().map(|tls| {
            let mut tls = ClientConfig::clone(tls);
            tls.client_auth_cert_resolver = Arc::clone(&watch) as _;
            // An origin asks for no certificate when it resumes a session.
            tls.resumption = Resumption::disabled();
            Arc::new(tls)
        });
        let opened = Self { tls, ..self.clone() }.open_for(true, authority, client, protocols).await;
        (opened, watch.0.load(Ordering::Relaxed))
    }

    /// Opens a connection to `authority` for requests by these protocols, under TLS for https, for a request of `client`.
    pub(super) async fn open_for(
        &self,
        https: bool,
        authority: &str,
        client: Option<IpAddr>,
        protocols: Protocols,
    ) -> Result<OpenConnection, ConnectError> {
        if let Some(path) = socket_of(authority) {
            let stream = self.socket(path, authority).await.map(Stream::Plain)?;
            return Ok(OpenConnection { stream, parent: None });
        }
        let (host, port) = host_and_port(https, authority);
        // Proxies translate no HTTP/2.
        let by_tunnel = (https || protocols != Protocols::Http1).then_some(&[][..]);
        let (stream, parent) = self.reach((https, host, port), by_tunnel, client).await?;
        let stream = if https { self.secured(stream, authority, protocols).await? } else { stream };
        Ok(OpenConnection { stream, parent })
    }

    /// Opens a connection to a host, without TLS to it: directly, or else to the parent proxy that is returned, or
    /// `by_tunnel` through it, which it is asked for with these field lines.
    async fn reach(
        &self,
        (https, host, port): (bool, &str, u16),
        by_tunnel: Option<&[u8]>,
        client: Option<IpAddr>,
    ) -> Result<(Stream, Option<Arc<Parent>>), ConnectError> {
        let parents = self.parents.of(https, host, port);
        if parents.is_empty() || self.resolver.finds_service(host) {
            return Ok((Stream::Plain(self.tcp(host, port, client).await?), None));
        }
        let name = format!("{host}:{port}");
        // The parent resolves names. Addresses can be checked here.
        if let Ok(ip) = bare(host).parse() {
            self.check(SocketAddr::new(ip, port), &name)?;
        }
        let (well, failing): (Vec<_>, Vec<_>) = parents.iter().partition(|parent| parent.is_well());
        // Without another way, one that may answer is better than a certain error.
        let tried = if well.is_empty() && !self.parents.falls_back { failing } else { well };
        let mut last = None;
        for parent in tried {
            match self.by_parent(parent, &name, by_tunnel).await {
                Ok(stream) => return Ok((stream, Some(Arc::clone(parent)))),
                Err(refusal @ ConnectError::ParentRefused(..)) => return Err(refusal),
                Err(error) => {
                    self.parents.failed(parent, &error);
                    last = Some(error);
                }
            }
        }
        match last.filter(|_| !self.parents.falls_back) {
            Some(error) => Err(error),
            None => Ok((Stream::Plain(self.tcp(host, port, client).await?), None)),
        }
    }

    /// Connects to `parent`, and has it open a tunnel to `name` if needed.
    async fn by_parent(
        &self,
        parent: &Parent,
        name: &str,
        by_tunnel: Option<&[u8]>,
    ) -> Result<Stream, ConnectError> {
        // The config names it, and no client.
        let near = Self { public_only: false, tls: self.parents.tls.clone(), name: None, ..self.clone() };
        let (https, host, port) = parent.address();
        let opened = async {
            let stream = Stream::Plain(near.tcp(host, port, None).await?);
            if https { near.secured(stream, host, Protocols::Http1).await } else { Ok(stream) }
        };
        let stream = opened.await.map_err(|why| parent.unreached(why))?;
        if by_tunnel.is_none() && parent.reads_http() {
            return Ok(stream);
        }
        let failed = |error| parent.unreached(ConnectError::Connect(name.to_owned(), error));
        let mut stream = stream.relayed().map_err(failed)?;
        let late = |_| parent.unreached(ConnectError::Timeout(name.to_owned(), self.timeout));
        let opened = parent.open_tunnel(&mut stream, name, by_tunnel.unwrap_or_default());
        tokio::time::timeout(self.timeout, opened).await.map_err(late)??;
        Ok(Stream::Plain(stream))
    }

    /// Sets up TLS to `authority` on `stream`.
    async fn secured(
        &self,
        stream: Stream,
        authority: &str,
        protocols: Protocols,
    ) -> Result<Stream, ConnectError> {
        let host = host_of(authority);
        let secured = async { self.secure(host, stream.relayed()?, protocols).await };
        match tokio::time::timeout(self.handshake, secured).await {
            Ok(secured) => secured.map_err(|error| ConnectError::Tls(authority.to_owned(), error.into())),
            Err(_) => Err(ConnectError::Timeout(authority.to_owned(), self.handshake)),
        }
    }

    /// Opens a TCP connection to `host`, for a request of `client`. Errors: the reason of the failure, after all
    /// addresses were tried.
    async fn tcp(&self, host: &str, port: u16, client: Option<IpAddr>) -> Result<TcpStream, ConnectError> {
        let name = format!("{host}:{port}");
        match tokio::time::timeout(self.timeout, self.connect(host, port, &name, client)).await {
            Ok(connected) => connected,
            Err(_) => {
                self.resolver.distrust(bare(host));
                Err(ConnectError::Timeout(name, self.timeout))
            }
        }
    }

    /// Connects to a Unix socket. Only the config may contain one.
    async fn socket(&self, path: &Path, name: &str) -> Result<TcpStream, ConnectError> {
        let failed = |error| ConnectError::Connect(name.to_owned(), error);
        if self.public_only {
            return Err(failed(io::ErrorKind::Unsupported.into()));
        }
        match tokio::time::timeout(self.timeout, UnixStream::connect(path)).await {
            Ok(connected) => connected.and_then(stream::of_socket).map_err(failed),
            Err(_) => Err(ConnectError::Timeout(name.to_owned(), self.timeout)),
        }
    }

    async fn secure(&self, host: &str, stream: TcpStream, protocols: Protocols) -> io::Result<Stream> {
        let mut config = Arc::clone(self.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?);
        if protocols != Protocols::Http1 {
            // A clone of the config costs little beside the handshake. It shares the store of sessions.
            let names = protocols.offered().iter().map(|name| name.to_vec());
            Arc::make_mut(&mut config).alpn_protocols = names.collect();
        }
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(bare(host).to_owned()).map_err(io::Error::other)?,
        };
        let secured = TlsConnector::from(config).connect(name, stream).await?;
        if protocols == Protocols::Http2 && secured.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return Err(io::Error::other("it does not offer HTTP/2 (ALPN h2)"));
        }
        Ok(Stream::Tls(Box::new(secured)))
    }

    async fn connect(
        &self,
        host: &str,
        port: u16,
        name: &str,
        client: Option<IpAddr>,
    ) -> Result<TcpStream, ConnectError> {
        let host = bare(host);
        let found = self.resolver.resolve(host, client).await.map_err(|why| match why {
            ResolveError::NotFound(error) => ConnectError::Resolve(host.to_owned(), error),
            ResolveError::Busy => ConnectError::Busy(host.to_owned()),
        })?;
        let mut refusal = ConnectError::Resolve(host.to_owned(), Arc::new(io::ErrorKind::NotFound.into()));
        let mut allowed = SmallVec::<[SocketAddr; 4]>::new();
        let of = |found: &SocketAddr| {
            SocketAddr::new(found.ip(), if found.port() == 0 { port } else { found.port() })
        };
        for address in found.addresses.iter().map(of) {
            match self.check(address, name) {
                Ok(()) => allowed.push(address),
                Err(refused) => refusal = refused,
            }
        }
        if allowed.is_empty() {
            return Err(refusal);
        }
        let stream = race::connect(&allowed).await.map_err(|error| {
            self.resolver.distrust(host);
            ConnectError::Connect(name.to_owned(), error)
        })?;
        // Heads and bodies are written whole, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// Checks whether clients may connect to `address`.
    fn check(&self, address: SocketAddr, name: &str) -> Result<(), ConnectError> {
        let is_private = || !guard::is_public(address.ip()) || own::is_of_this_machine(address);
        if self.public_only && is_private() {
            return Err(ConnectError::Forbidden(name.to_owned(), address.ip()));
        }
        match self.own.have(address) {
            true => Err(ConnectError::Own(name.to_owned(), address)),
            false => Ok(()),
        }
    }
}
