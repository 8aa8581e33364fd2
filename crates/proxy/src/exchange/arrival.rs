//! By what kind of connection requests arrive.

use std::net::SocketAddr;

use crate::base::settings::Role;
use crate::http::head::Target;
use crate::net::tls::client_certificates::ClientIdentity;

/// What a listener is for, and whether clients reach it over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// What clients may ask.
    pub role: Role,
    /// Requests arrive over TLS.
    pub tls: bool,
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    /// What it may ask.
    pub(crate) role: Role,
    pub(crate) address: SocketAddr,
    /// What it has shown where certificates are asked for.
    pub(crate) identity: Option<&'a ClientIdentity>,
    /// It asks by way of another node of the cluster, which applies rules to the request and the reply.
    pub(crate) by_peer: bool,
}

/// Whether a target is a URL of https.
pub(crate) fn is_https(target: &Target<'_>) -> bool {
    matches!(target, Target::Absolute { scheme: "https", .. })
}
