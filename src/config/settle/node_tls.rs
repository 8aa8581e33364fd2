//! TLS between the nodes of a cluster, and towards its engine.

use std::path::PathBuf;

use larder_proxy::net::tls::certificates::{Certificate, authorities};
use larder_proxy::net::tls::nodes::{Fault, Nodes};
use larder_proxy::settings::{CertificateFiles, EngineAddress, EngineTls, NodeTls, NodeTlsFiles};

use super::problems::Problems;
use crate::config::draft::Draft;
use crate::config::draft::cluster::NodeProof;

/// Returns the encryption of connections between nodes, if they are encrypted.
pub(super) fn settle(draft: &Draft, has_token: bool, problems: &mut Problems<'_>) -> Option<NodeTls> {
    let written = &draft.cluster;
    let advertises = written.advertise.as_ref().map(|origin| origin.https);
    let is_reachable = !written.listen.ip().to_canonical().is_loopback();
    let proof = written.tls.unwrap_or(match advertises.unwrap_or(is_reachable) {
        true if has_token => NodeProof::Token,
        _ => NodeProof::Off,
    });
    if proof != NodeProof::Files {
        let of_files = [
            ("cluster.ca", written.ca.is_some()),
            ("cluster.cert", written.cert.is_some()),
            ("cluster.key", written.key.is_some()),
            ("cluster.tls_name", written.tls_name.is_some()),
        ];
        if let Some((key, _)) = of_files.iter().find(|(_, is_written)| *is_written) {
            problems.add(&[key], &format!("{key} has no effect without cluster.tls = \"files\""));
        }
    }
    if proof != NodeProof::Off && advertises == Some(false) {
        let text = "cluster.advertise begins with http://, and nodes connect over TLS: write https://, or tls = \"off\"";
        problems.add(&["cluster.advertise"], text);
    }
    match proof {
        NodeProof::Off => None,
        NodeProof::Token if !has_token => {
            let text = "cluster.tls = \"token\" needs a token: set cluster.token in the file, or $LARDER_CLUSTER_TOKEN";
            problems.add(&["cluster.tls"], text);
            None
        }
        NodeProof::Token => Some(NodeTls::Token),
        NodeProof::Files => files(draft, problems).map(NodeTls::Files),
    }
}

/// Returns the certificates of nodes, if they can be used.
fn files(draft: &Draft, problems: &mut Problems<'_>) -> Option<NodeTlsFiles> {
    let written = &draft.cluster;
    let own = pair(draft, ["cluster.cert", "cluster.key"], [&written.cert, &written.key], problems);
    let (Some(ca), Some(own)) = (&written.ca, own) else {
        if written.ca.is_none() || written.cert.is_none() && written.key.is_none() {
            let text =
                "cluster.tls = \"files\" needs the authority and a certificate: add 'ca', 'cert' and 'key'";
            problems.add(&["cluster.tls"], text);
        }
        return None;
    };
    let files = NodeTlsFiles { ca: ca.clone(), own, name: written.tls_name.clone() };
    match Nodes::by_files(&files) {
        Ok(_) => return Some(files),
        Err(Fault::Authorities(why)) => problems.add(&["cluster.ca"], &format!("cluster.ca: {why}")),
        Err(Fault::Own(fault)) => problems.add_line(files.own.blame(&fault)),
        Err(Fault::Name(why)) => problems.add(&["cluster.tls_name"], &format!("cluster.tls_name: {why}")),
        Err(Fault::Other(why)) => problems.add(&["cluster.tls"], &format!("cluster.tls: {why}")),
    }
    None
}

/// Returns the certificates for connections to `engine`.
pub(super) fn of_engine(draft: &Draft, engine: &EngineAddress, problems: &mut Problems<'_>) -> EngineTls {
    let written = &draft.cluster;
    let [ca, cert, key] = ["cluster.engine_ca", "cluster.engine_cert", "cluster.engine_key"];
    let own = pair(draft, [cert, key], [&written.engine_cert, &written.engine_key], problems);
    let tls = EngineTls { ca: written.engine_ca.clone(), own };
    if tls != EngineTls::default() && !engine.tls {
        let text = format!("{ca} and {cert} are for an engine over TLS: write rediss:// in cluster.engine");
        problems.add(&[ca, cert, key], &text);
        return EngineTls::default();
    }
    if let Some(Err(why)) = tls.ca.as_deref().map(authorities) {
        problems.add(&[ca], &format!("{ca}: {why}"));
    }
    if let Some(own) = &tls.own
        && let Err(fault) = Certificate::read(own)
    {
        problems.add_line(own.blame(&fault));
    }
    tls
}

/// Returns a certificate and its key, if both are written.
fn pair(
    draft: &Draft,
    [cert, key]: [&str; 2],
    paths: [&Option<PathBuf>; 2],
    problems: &mut Problems<'_>,
) -> Option<CertificateFiles> {
    let of = |key: &str| format!("{}: {key}", draft.place(&[key]));
    match paths {
        [Some(chain), Some(private)] => Some(CertificateFiles {
            cert: chain.clone(),
            key: private.clone(),
            place: draft.place(&[cert]),
            cert_place: of(cert),
            key_place: of(key),
        }),
        [Some(_), None] => {
            problems.add(&[cert], &format!("{cert} needs its private key: add '{}'", last(key)));
            None
        }
        [None, Some(_)] => {
            problems.add(&[key], &format!("{key} needs its certificate: add '{}'", last(cert)));
            None
        }
        [None, None] => None,
    }
}

/// Returns the name of a key in its table.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use larder_proxy::settings::NodeTls;

    use crate::config::flags::Flags;
    use crate::config::parse;

    fn tls(keys: &str) -> Result<Option<NodeTls>, Vec<String>> {
        let text = format!("[cluster]\nengine = 'redis://a'\n{keys}");
        let settings = parse("f", &text, &Flags::default()).map_err(|wrong| wrong.problems)?;
        Ok(settings.cluster.expect("a cluster").tls)
    }

    #[test]
    fn where_other_machines_reach_a_node_its_token_encrypts() {
        const TOKEN: &str = "token = '0123456789abcdef'\n";
        for (keys, expected) in [
            ("", None),
            (TOKEN, None),
            (&format!("{TOKEN}listen = '0.0.0.0:1'"), Some(NodeTls::Token)),
            (&format!("{TOKEN}listen = '0.0.0.0:1'\ntls = 'off'"), None),
            (&format!("{TOKEN}listen = '0.0.0.0:1'\nadvertise = 'http://a:1'"), None),
            (&format!("{TOKEN}advertise = 'https://a:1'"), Some(NodeTls::Token)),
            (&format!("{TOKEN}tls = 'token'"), Some(NodeTls::Token)),
            ("advertise = 'https://a:1'", None),
        ] {
            assert_eq!(tls(keys), Ok(expected), "{keys}");
        }
    }

    #[test]
    fn missing_or_useless_node_tls_keys_are_reported() {
        for (keys, problem) in [
            (
                "tls = 'token'",
                "f:3: cluster.tls = \"token\" needs a token: set cluster.token in the file, or $LARDER_CLUSTER_TOKEN",
            ),
            ("ca = 'a.pem'", "f:3: cluster.ca has no effect without cluster.tls = \"files\""),
            (
                "tls = 'files'",
                "f:3: cluster.tls = \"files\" needs the authority and a certificate: add 'ca', 'cert' and 'key'",
            ),
            ("tls = 'files'\nca = 'a'\ncert = 'b'", "f:5: cluster.cert needs its private key: add 'key'"),
            (
                "tls = 'files'\nca = 'missing.pem'\ncert = 'b'\nkey = 'c'",
                "f:4: cluster.ca: missing.pem: no such file",
            ),
            (
                "tls = 'token'\ntoken = '0123456789abcdef'\nadvertise = 'http://a:1'",
                "f:5: cluster.advertise begins with http://, and nodes connect over TLS: write https://, or tls = \"off\"",
            ),
            (
                "engine_ca = 'a.pem'",
                "f:3: cluster.engine_ca and cluster.engine_cert are for an engine over TLS: write rediss:// in cluster.engine",
            ),
        ] {
            assert_eq!(tls(keys), Err(vec![problem.to_owned()]), "{keys}");
        }
    }
}
