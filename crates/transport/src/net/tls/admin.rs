//! TLS of the admin listener, and the choice of its certificate.
//!
//! A client that requests a name of a site's certificate gets that certificate. Clients on this machine connect to an
//! address or to localhost, for which no authority issues certificates: they get the self-signed certificate of this
//! program.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::accept::USE_TLS;
use super::certificates::{Certificate, Certificates};
use super::server_config;
use crate::base::error::Error;
use crate::base::settings::AdminTls;
use crate::net::farewell::close;

/// Makes the handshakes of the admin listener.
pub struct Acceptor {
    /// For connections over the loopback interface.
    near: TlsAcceptor,
    /// For all other connections.
    far: TlsAcceptor,
}

/// Chooses the certificate for a client.
#[derive(Debug)]
struct Choice {
    own: Option<Arc<CertifiedKey>>,
    of_sites: Option<Arc<Certificates>>,
    /// Whether the client is on this machine.
    is_near: bool,
}

impl Acceptor {
    /// Sets up TLS by `settings`; `of_sites` are the certificates of the other listeners, if there are any. The error
    /// is the reason why there is no usable certificate.
    pub(super) fn new(settings: &AdminTls, of_sites: Option<&Arc<Certificates>>) -> Result<Self, Error> {
        let own = settings.own.as_ref().map(|files| {
            let read = Certificate::read(files).map(Certificate::for_server);
            read.map_err(|fault| files.blame(&fault))
        });
        let own = match own.transpose() {
            Ok(own) => own,
            Err(why) if of_sites.is_some() => {
                tracing::warn!(
                    "{why}; the admin listener shows the certificates of the other listeners only"
                );
                None
            }
            Err(why) => return Err(Error::new("cannot use the certificate of the admin listener", why)),
        };
        let acceptor = |is_near| {
            let choice = Choice { own: own.clone(), of_sites: of_sites.cloned(), is_near };
            // Admin clients keep their connections open, so sessions need no resumption.
            let made =
                server_config(Arc::new(choice), None, &[b"http/1.1"]).map(Arc::new).map(TlsAcceptor::from);
            made.map_err(|error| Error::new("cannot set up TLS of the admin listener", error))
        };
        Ok(Self { near: acceptor(true)?, far: acceptor(false)? })
    }

    /// Makes the handshake with the client at the other end of `stream`, within `limit`. Errors: the reason for the
    /// failure. A client that speaks HTTP without TLS has been sent a response that says so.
    pub async fn accept(&self, mut stream: TcpStream, limit: Duration) -> io::Result<TlsStream<TcpStream>> {
        let accepted = async {
            let mut first = [0];
            // A TLS record begins with a byte below 32.
            if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
                close(&mut stream, USE_TLS).await;
                return Err(io::Error::other("the client speaks HTTP without TLS"));
            }
            let is_near = stream.local_addr()?.ip().to_canonical().is_loopback();
            if is_near { &self.near } else { &self.far }.accept(stream).await
        };
        tokio::time::timeout(limit, accepted).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_local = client.server_name().is_none_or(|name| name.eq_ignore_ascii_case("localhost"));
        let own = || self.own.clone();
        let sites = || self.of_sites.as_ref();
        if self.is_near && is_local && self.own.is_some() {
            return own();
        }
        let by_name = sites().and_then(|certificates| certificates.by_name(&client));
        let fallback = if self.is_near { own() } else { None };
        by_name.or(fallback).or_else(|| sites()?.resolve(client)).or_else(own)
    }
}
