//! Certificates of sites that an authority issues: the requirements on the site, its hosts and the listeners.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use larder_proxy::origin::tls_config::{OriginTlsFault, tls_of_site};
use larder_proxy::settings::{
    Acme, AcmeChallenge, CertificateFault, ClientAuths, Cluster, LETS_ENCRYPT, LETS_ENCRYPT_STAGING,
    OriginTls, OriginTlsFiles,
};

use super::listeners::Listeners;
use super::problems::Problems;
use crate::config::draft::SiteDraft;
use crate::config::names::covers;

/// The path of the files that an authority requests (RFC 8555 section 8.3).
const FILES: &str = "/.well-known/acme-challenge/";

/// The parts of the config other than their own table that sites with `acme` need.
pub(super) struct AcmeContext<'s> {
    listeners: &'s Listeners,
    /// The challenges that the listeners can answer.
    answered: Vec<AcmeChallenge>,
    cluster: Option<&'s Cluster>,
    /// The directory for the issued certificates.
    state: Option<&'s Path>,
}

impl<'s> AcmeContext<'s> {
    /// Collects the listeners, the certificates of clients, and the rest of the process.
    pub(super) fn new(
        listeners: &'s Listeners,
        client_auth: &ClientAuths,
        cluster: Option<&'s Cluster>,
        state: Option<&'s Path>,
    ) -> Self {
        let answered = AcmeChallenge::answered(&listeners.http, listeners.has_sockets(), client_auth);
        Self { listeners, answered, cluster, state }
    }
}

/// Returns the settings for each of `sites`; `None` for a site without `acme`.
pub(super) fn settle(
    sites: &[SiteDraft],
    around: &AcmeContext<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Option<Arc<Acme>>> {
    let settle = |(at, site)| settle_site(site, (sites, at), around, problems);
    sites.iter().enumerate().map(settle).collect()
}

fn settle_site(
    site: &SiteDraft,
    (sites, at): (&[SiteDraft], usize),
    around: &AcmeContext<'_>,
    problems: &mut Problems<'_>,
) -> Option<Arc<Acme>> {
    let written = site.acme.as_ref()?;
    let mut found = unfit(site, &sites[..at]);
    found.extend(missing(around));
    let is_lets_encrypt = [LETS_ENCRYPT, LETS_ENCRYPT_STAGING].contains(&&*written.directory);
    if is_lets_encrypt && !written.accept_terms {
        found.push(
            "Let's Encrypt issues no certificates before its terms are accepted: read them at \
             https://letsencrypt.org/repository/ and add accept_terms = true"
                .to_owned(),
        );
    }
    let is_wanted = |kind: &AcmeChallenge| {
        let is_found = *kind != AcmeChallenge::Http01 || takes_files(site, sites);
        written.challenge.is_none_or(|wanted| wanted == *kind) && is_found
    };
    let challenges: Vec<_> = around.answered.iter().copied().filter(is_wanted).collect();
    if challenges.is_empty() && !around.listeners.http.is_empty() {
        found.push(match takes_files(site, sites) {
            true => unanswered(written.challenge).to_owned(),
            false => format!(
                "no [[site]] of its hosts takes {FILES}*, which http-01 requests: add one without 'path'"
            ),
        });
    }
    let tls = authorities(written.ca.as_deref()).map_err(|why| found.push(why));
    for text in &found {
        problems.add_to_key(site, "acme", &format!("site.acme: {text}"));
    }
    Some(Arc::new(Acme {
        contact: written.contact.clone(),
        directory: written.directory.clone(),
        accept_terms: written.accept_terms,
        challenges,
        ca: written.ca.clone(),
        tls: Arc::new(tls.ok().filter(|_| found.is_empty())?),
    }))
}

/// Whether requests for the files of HTTP-01 reach a site, for every host of `site`.
fn takes_files(site: &SiteDraft, sites: &[SiteDraft]) -> bool {
    let takes = |host: &String| {
        let of_host = sites
            .iter()
            .filter(|one| one.values.hosts.is_empty() || one.values.hosts.iter().any(|of| covers(of, host)));
        of_host.into_iter().any(|one| one.values.path.rest(FILES).is_some())
    };
    site.values.hosts.iter().all(takes)
}

/// Returns the reasons why an authority would not issue certificates for the hosts of `site`, or why two would be
/// asked.
fn unfit(site: &SiteDraft, earlier: &[SiteDraft]) -> Vec<String> {
    if site.values.hosts.is_empty() {
        return vec!["a certificate is for names: list them in 'hosts'".to_owned()];
    }
    let mut found = Vec::new();
    for host in &site.values.hosts {
        if host.starts_with("*.") {
            found.push(format!(
                "'{host}': http-01 and tls-alpn-01 prove single names, and no wildcard: list the names in 'hosts', or \
                 use a [[tls]] for the wildcard and leave acme out"
            ));
        } else if host.starts_with('[') || host.parse::<IpAddr>().is_ok() {
            found.push(format!(
                "'{host}' is an address, and certificates by acme are for names: use a [[tls]]"
            ));
        }
        let other = earlier.iter().find(|other| other.acme.is_some() && other.values.hosts.contains(host));
        let directory = |site: &SiteDraft| site.acme.as_ref().map(|acme| acme.directory.clone());
        if let Some(other) = other.filter(|other| directory(other) != directory(site)) {
            let place = other.place_of("acme");
            found.push(format!(
                "'{host}' has its certificate by the acme at {place} already, from another directory"
            ));
        }
    }
    found
}

/// Returns the requirements that the process lacks.
fn missing(around: &AcmeContext<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if !around.listeners.http.iter().any(|listener| listener.tls) {
        found.push("no listener would use the certificate: set reverse.listen_tls".to_owned());
    }
    if around.state.is_none() {
        found.push("there is no directory to keep keys in: set STATE_DIRECTORY or HOME".to_owned());
    }
    if around.cluster.is_some_and(|cluster| cluster.token.is_none()) {
        found.push(
            "the nodes of a cluster share the keys of certificates, encrypted with their token: set cluster.token, such \
             as openssl rand -hex 16 prints"
                .to_owned(),
        );
    }
    found
}

fn unanswered(challenge: Option<AcmeChallenge>) -> &'static str {
    match challenge {
        Some(AcmeChallenge::Http01) => "http-01 needs a listener without TLS: set reverse.listen",
        Some(AcmeChallenge::TlsAlpn01) => {
            "tls-alpn-01 needs a listener for TLS that requires no certificates of clients: set reverse.listen_tls, or \
             client_auth = \"request\""
        }
        None => {
            "the authority cannot reach a listener that requires certificates of clients: set reverse.listen as well, or \
             client_auth = \"request\""
        }
    }
}

/// Returns the settings of TLS towards the directory.
fn authorities(ca: Option<&Path>) -> Result<OriginTls, String> {
    let files = OriginTlsFiles { ca: ca.map(Path::to_owned), ..OriginTlsFiles::default() };
    tls_of_site(&files).map_err(|fault| match fault {
        OriginTlsFault::Authorities(why) => format!("ca: {why}"),
        OriginTlsFault::Name(why)
        | OriginTlsFault::Client(CertificateFault { why, .. })
        | OriginTlsFault::Other(why) => why,
    })
}

#[cfg(test)]
mod tests {
    use crate::config::flags::Flags;
    use crate::config::parse;

    /// Returns the problems of a site with these keys, under these tables.
    fn problems(tables: &str, keys: &str) -> Vec<String> {
        let text = format!("{tables}\n[[site]]\norigin = 'http://a'\n{keys}");
        parse("f", &text, &Flags::default()).map_or_else(|wrong| wrong.problems, |_| Vec::new())
    }

    const TERMS: &str = "acme = { accept_terms = true }";

    #[test]
    fn obstacles_to_an_acme_certificate_are_reported() {
        let table = [
            ("", TERMS.to_owned(), "f:4: site.acme: a certificate is for names: list them in 'hosts'"),
            (
                "",
                format!("hosts = ['a.test', '*.a.test']\n{TERMS}"),
                "f:5: site.acme: '*.a.test': http-01 and tls-alpn-01 prove single names, and no wildcard: list the names in \
                 'hosts', or use a [[tls]] for the wildcard and leave acme out",
            ),
            (
                "",
                format!("hosts = '127.0.0.1'\n{TERMS}"),
                "f:5: site.acme: '127.0.0.1' is an address, and certificates by acme are for names: use a [[tls]]",
            ),
            (
                "",
                "hosts = 'a.test'\nacme = {}".to_owned(),
                "f:5: site.acme: Let's Encrypt issues no certificates before its terms are accepted: read them at \
                 https://letsencrypt.org/repository/ and add accept_terms = true",
            ),
            (
                "[reverse]\nlisten_tls = []",
                format!("hosts = 'a.test'\n{TERMS}"),
                "f:6: site.acme: no listener would use the certificate: set reverse.listen_tls",
            ),
            (
                "[reverse]\nlisten = []",
                "hosts = 'a.test'\nacme = { accept_terms = true, challenge = 'http-01' }".to_owned(),
                "f:6: site.acme: http-01 needs a listener without TLS: set reverse.listen",
            ),
            (
                "[reverse]\nlisten_tls = '127.0.0.1:8443'",
                "hosts = 'a.test'\npath = '/b'\nacme = { accept_terms = true, challenge = 'http-01' }"
                    .to_owned(),
                "f:7: site.acme: no [[site]] of its hosts takes /.well-known/acme-challenge/*, which http-01 requests: add one \
                 without 'path'",
            ),
            (
                "[cluster]\nengine = 'redis://127.0.0.1'",
                format!("hosts = 'a.test'\n{TERMS}"),
                "f:6: site.acme: the nodes of a cluster share the keys of certificates, encrypted with their token: set \
                 cluster.token, such as openssl rand -hex 16 prints",
            ),
        ];
        for (tables, keys, expected) in table {
            assert_eq!(problems(tables, &keys), [expected], "{tables} {keys}");
        }
    }

    #[test]
    fn invalid_acme_keys_are_reported_with_their_problem() {
        let one = |directory: &str| format!("hosts = 'a.test'\nacme = {{ directory = '{directory}' }}");
        let table = [
            (
                "",
                one("http://a.test/dir"),
                "f:5: site.acme: directory: 'http://a.test/dir': ACME needs https://",
            ),
            (
                "",
                one("letsencript"),
                "f:5: site.acme: directory: unknown word 'letsencript'; did you mean 'letsencrypt'?",
            ),
            (
                "",
                "hosts = 'a.test'\nacme = { contact = 'me@a.test' }".to_owned(),
                "f:5: site.acme: contact: 'me@a.test': write it as a URL: 'mailto:me@a.test'",
            ),
            (
                "",
                "hosts = 'a.test'\nacme = { contct = 'me' }".to_owned(),
                "f:5: site.acme: unknown key 'contct'; did you mean 'contact'?",
            ),
            (
                "",
                "hosts = 'a.test'\nacme = true".to_owned(),
                "f:5: site.acme: expected table such as `{ contact = \"mailto:admin@docs.example\", \
                 accept_terms = true }`, got type boolean; also valid: \"off\"",
            ),
        ];
        for (tables, keys, expected) in table {
            assert_eq!(problems(tables, &keys), [expected], "{tables} {keys}");
        }
    }

    #[test]
    fn three_lines_are_enough() {
        assert_eq!(problems("", &format!("hosts = ['a.test', 'www.a.test']\n{TERMS}")), [""; 0]);
        let settings = parse(
            "f",
            &format!("[[site]]\norigin = 'http://a'\nhosts = 'a.test'\n{TERMS}"),
            &Flags::default(),
        );
        let settings = settings.expect("a valid config");
        assert!(settings.listen.iter().any(|listener| listener.tls), "a listener for TLS comes with it");
        let acme = settings.sites[0].acme.as_ref().expect("acme");
        assert_eq!(acme.directory, larder_proxy::settings::LETS_ENCRYPT);
    }

    #[test]
    fn sites_that_share_a_host_have_the_same_acme_authority() {
        let site = |path: &str, directory: &str| {
            format!(
                "[[site]]\nhosts = 'a.test'\npath = '{path}'\norigin = 'http://a'\nacme = {{ directory = '{directory}' }}\n"
            )
        };
        let both = |one: &str, other: &str| {
            let text = site("/", one) + &site("/b", other);
            parse("f", &text, &Flags::default()).map_or_else(|wrong| wrong.problems, |_| Vec::new())
        };
        assert_eq!(both("https://ca.test/dir", "https://ca.test/dir"), [""; 0]);
        assert_eq!(
            both("https://ca.test/dir", "https://other.test/dir"),
            [
                "f:10: site.acme: 'a.test' has its certificate by the acme at f:5 already, from another directory"
            ]
        );
    }
}
