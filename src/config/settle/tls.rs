//! TLS towards the origins of a site, and the certificates that clients show.

use std::path::Path;
use std::sync::Arc;

use larder_proxy::net::tls::client_certificates;
use larder_proxy::origin::connect::tls_of_site;
use larder_proxy::settings::{
    CertificateFiles, ClientAuth, ClientAuthFiles, ClientAuths, Listener, OriginTls, OriginTlsFiles, Role,
};

use super::problems::Problems;
use crate::config::draft::{ClientDraft, Draft, SiteDraft};

/// What the files of `site` hold; `None` if it names none.
pub(super) fn settle(site: &SiteDraft, problems: &mut Problems<'_>) -> Option<Arc<OriginTls>> {
    let SiteDraft { ca, client_cert, client_key, tls_name, place, .. } = site;
    let client = match (client_cert, client_key) {
        (Some(cert), Some(key)) => {
            Some(CertificateFiles { cert: cert.clone(), key: key.clone(), place: place.clone() })
        }
        (None, None) if ca.is_none() && tls_name.is_none() => return None,
        (None, None) => None,
        (Some(_), None) => {
            problems.add_to_site(site, "client_cert needs its private key: add 'client_key'");
            return None;
        }
        (None, Some(_)) => {
            problems.add_to_site(site, "client_key needs its certificate: add 'client_cert'");
            return None;
        }
    };
    if !site.origins.iter().any(|origin| origin.https) {
        problems.add_to_site(
            site,
            "'ca', 'client_cert' and 'tls_name' are for origins with https://, and this site has none",
        );
        return None;
    }
    let read = tls_of_site(&OriginTlsFiles { ca: ca.clone(), client, name: tls_name.clone() });
    read.map(Arc::new).map_err(|why| problems.add_to_site(site, &why)).ok()
}

/// The authorities that sign the certificates of clients.
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
