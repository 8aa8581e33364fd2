//! Certificates that an authority issues by ACME (RFC 8555).

use std::path::PathBuf;
use std::sync::Arc;

use larder_words::named;

use super::{ClientAuths, Listener, OriginTls, Role};

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The staging directory of Let's Encrypt, whose certificates browsers do not trust.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// The authority of a site's certificates, and the way to order them.
#[derive(Clone, Debug)]
pub struct Acme {
    /// The URLs at which the authority contacts the operator.
    pub contact: Vec<String>,
    /// The URL of the authority's directory.
    pub directory: String,
    /// Whether the operator accepts the authority's terms of service.
    pub accept_terms: bool,
    /// The supported challenges in order of preference; at least one.
    pub challenges: Vec<AcmeChallenge>,
    /// The authorities that sign the certificate of the directory's server, in PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// The TLS configuration with `ca`.
    pub tls: Arc<OriginTls>,
}

impl Acme {
    /// Whether an order with the `other` settings would be the same; an order in progress continues then.
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { contact, directory, accept_terms, challenges, ca, tls: _ } = self;
        (contact, directory, challenges, ca)
            == (&other.contact, &other.directory, &other.challenges, &other.ca)
            && *accept_terms == other.accept_terms
    }
}

named! {
    /// The method by which an authority verifies that a name leads to this process.
    pub enum AcmeChallenge, name {
        /// A file at port 80 (RFC 8555 section 8.3).
        Http01 = "http-01",
        /// A certificate at port 443 (RFC 8737).
        TlsAlpn01 = "tls-alpn-01",
    }
}

impl AcmeChallenge {
    /// Returns the port to which authorities connect.
    pub fn port(self) -> u16 {
        match self {
            Self::Http01 => 80,
            Self::TlsAlpn01 => 443,
        }
    }

    /// Returns the challenges that these listeners can complete, the most promising first. Another machine may forward
    /// an authority's connection to these listeners, so challenges without a listener on the right port come last.
    pub fn answered(listen: &[Listener], has_sockets: bool, client_auth: &ClientAuths) -> Vec<Self> {
        let ports = |tls: bool| {
            let of_sites = listen.iter().filter(move |listener| listener.role == Role::Reverse);
            of_sites.filter(move |listener| listener.tls == tls).map(|listener| listener.address.port())
        };
        // The authority has no client certificate.
        let is_closed = client_auth.reverse.as_ref().is_some_and(|auth| auth.files.is_required);
        let is_answered = |kind: &Self| match kind {
            Self::Http01 => has_sockets || ports(false).next().is_some(),
            Self::TlsAlpn01 => !is_closed && ports(true).next().is_some(),
        };
        let is_at_port = |kind: &Self| match kind {
            Self::Http01 => ports(false).any(|port| port == kind.port()),
            Self::TlsAlpn01 => ports(true).any(|port| port == kind.port()),
        };
        let mut answered: Vec<_> = [Self::Http01, Self::TlsAlpn01].into_iter().filter(is_answered).collect();
        answered.sort_by_key(|kind| !is_at_port(kind));
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::AcmeChallenge::{Http01, TlsAlpn01};
    use super::*;

    #[test]
    fn the_challenge_at_its_own_port_is_answered_first() {
        // Ports with their use of TLS, whether there are Unix sockets, and the expected challenges.
        type Row = (&'static [(u16, bool)], bool, &'static [AcmeChallenge]);
        let table: &[Row] = &[
            (&[(80, false), (443, true)], false, &[Http01, TlsAlpn01]),
            (&[(8080, false), (443, true)], false, &[TlsAlpn01, Http01]),
            (&[(8080, false), (8443, true)], false, &[Http01, TlsAlpn01]),
            (&[(443, true)], false, &[TlsAlpn01]),
            (&[(443, true)], true, &[TlsAlpn01, Http01]),
            (&[], false, &[]),
        ];
        for (listeners, has_sockets, expected) in table {
            let listener = |(port, tls): &(u16, bool)| Listener {
                address: ([0, 0, 0, 0], *port).into(),
                role: Role::Reverse,
                tls: *tls,
            };
            let listen: Vec<_> = listeners.iter().map(listener).collect();
            let answered = AcmeChallenge::answered(&listen, *has_sockets, &ClientAuths::default());
            assert_eq!(&answered, expected, "{listeners:?}");
        }
    }
}
