//! The listeners and clients from which requests arrive.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::base::settings::Role;
use crate::http::head::Target;
use crate::net::tls::client_certificates::ClientIdentity;

/// The role of a listener, and whether its clients use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The requests that clients may make.
    pub role: Role,
    /// Whether requests arrive over TLS.
    pub tls: bool,
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    /// The requests that it may make.
    pub(crate) role: Role,
    pub(crate) address: SocketAddr,
    /// Its identity, perhaps without a certificate, on a listener that requests certificates; `None` on others.
    pub(crate) identity: Option<&'a ClientIdentity>,
    /// The id of its request, if requests have ids.
    pub(crate) id: Option<&'a Arc<str>>,
    /// Whether another node of the cluster forwards its requests. That node applies rules to the request and the reply.
    pub(crate) by_peer: bool,
}

/// Whether a target is an `https` URL.
pub(crate) fn is_https(target: &Target<'_>) -> bool {
    matches!(target, Target::Absolute { scheme: "https", .. })
}
