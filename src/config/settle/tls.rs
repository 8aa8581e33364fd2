//! TLS towards the origins of a site.

use std::sync::Arc;

use larder_proxy::origin::connect::tls_of_site;
use larder_proxy::settings::{CertificateFiles, OriginTls, OriginTlsFiles};

use super::problems::Problems;
use crate::config::draft::SiteDraft;

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
