//! TLS towards the origins of a site, and the certificates of clients.

use std::path::Path;
use std::sync::Arc;

use larder_proxy::net::tls::client_certificates;
use larder_proxy::origin::tls_config::{OriginTlsFault, tls_of_site};
use larder_proxy::settings::{
    AdminTls, CertificateFault, CertificateFiles, ClientAuth, ClientAuthFiles, ClientAuths, Listener,
    OriginTls, OriginTlsFiles, Role,
};

use super::problems::Problems;
use crate::config::draft::{ClientDraft, Draft, SiteDraft};
use crate::config::self_signed;

/// Reads the files of `site` for TLS; `None` if it names none.
pub(super) fn settle(site: &SiteDraft, problems: &mut Problems<'_>) -> Option<Arc<OriginTls>> {
    let SiteDraft { ca, client_cert, client_key, tls_name, place, .. } = site;
    let client = match (client_cert, client_key) {
        (Some(cert), Some(key)) => {
            let [cert_place, key_place] =
                ["client_cert", "client_key"].map(|key| format!("{}: site.{key}", site.place_of(key)));
            let (cert, key, place) = (cert.clone(), key.clone(), place.clone());
            Some(CertificateFiles { cert, key, place, cert_place, key_place })
        }
        (None, None) if ca.is_none() && tls_name.is_none() => return None,
        (None, None) => None,
        (Some(_), None) => {
            problems.add_to_key(site, "client_cert", "client_cert needs its private key: add 'client_key'");
            return None;
        }
        (None, Some(_)) => {
            problems.add_to_key(site, "client_key", "client_key needs its certificate: add 'client_cert'");
            return None;
        }
    };
    let of_rules = site.site_rules.iter().flat_map(|rule| rule.effects.origin.iter().flatten());
    if !site.values.origins.iter().chain(of_rules).any(|origin| origin.https) {
        let written =
            ["ca", "client_cert", "tls_name"].into_iter().find(|key| site.places.contains_key(*key));
        problems.add_to_key(
            site,
            written.unwrap_or_default(),
            "'ca', 'client_cert' and 'tls_name' are for origins with https:// or h2://, and this site has none",
        );
        return None;
    }
    let files = OriginTlsFiles { ca: ca.clone(), client, name: tls_name.clone() };
    let mut blame = |fault| match (fault, &files.client) {
        (OriginTlsFault::Authorities(why), _) => problems.add_to_key(site, "ca", &format!("site.ca: {why}")),
        (OriginTlsFault::Name(why), _) => {
            problems.add_to_key(site, "tls_name", &format!("site.tls_name: {why}"));
        }
        (OriginTlsFault::Client(fault), Some(pair)) => problems.add_line(pair.blame(&fault)),
        (OriginTlsFault::Client(CertificateFault { why, .. }) | OriginTlsFault::Other(why), _) => {
            problems.add_to_site(site, &why);
        }
    };
    tls_of_site(&files).map(Arc::new).map_err(&mut blame).ok()
}

/// Returns the certificates of the admin listener, if it uses TLS.
pub(super) fn admin(draft: &Draft, problems: &mut Problems<'_>) -> Option<AdminTls> {
    draft.admin.filter(|admin| admin.tls)?;
    let own = self_signed::of_admin();
    if own.is_none() && draft.values.certificates.is_empty() {
        let text = "admin over TLS has no directory to keep a certificate in: set STATE_DIRECTORY or HOME, or add a [[tls]]";
        problems.add(&["admin"], text);
    }
    Some(AdminTls { own })
}

/// Reads the authorities that sign the certificates of clients.
pub(super) fn client_auths(draft: &Draft, listen: &[Listener], problems: &mut Problems<'_>) -> ClientAuths {
    let mut of = |role: Role, client: &ClientDraft| {
        let [ca, auth] = ["client_ca", "client_auth"].map(|key| format!("{}.{key}", role.name()));
        match &client.ca {
            Some(path) if listen.iter().any(|listener| listener.tls && listener.role == role) => {
                client_auth(draft, &ca, path, client.is_required.unwrap_or(true), problems)
            }
            Some(_) => {
                let listener = format!("{}.listen_tls", role.name());
                problems.add(&[&ca], &format!("{ca} needs a listener for TLS: set {listener}"));
                None
            }
            None => {
                if client.is_required.is_some() {
                    problems.add(&[&auth], &format!("{auth} needs the authorities to trust: add '{ca}'"));
                }
                None
            }
        }
    };
    ClientAuths {
        reverse: of(Role::Reverse, &draft.reverse_client),
        forward: of(Role::Forward, &draft.forward_client),
    }
}

fn client_auth(
    draft: &Draft,
    key: &str,
    path: &Path,
    is_required: bool,
    problems: &mut Problems<'_>,
) -> Option<Arc<ClientAuth>> {
    let files = ClientAuthFiles { ca: path.to_owned(), is_required, place: draft.place(&[key]) };
    let read = client_certificates::read(&files);
    read.map(Arc::new).map_err(|why| problems.add(&[key], &format!("{key}: {why}"))).ok()
}
