//! Clients with a certificate: responses that may not be shared with other clients.

use std::fs;
use std::process::Command;

use larder_testkit::{Larder, Origin, Pair, site};

use super::clients::curl;
use super::{Authority, LISTEN, TLS};

/// Returns the config of a proxy before `origin` that requests client certificates, with `keys` of the site's table.
fn asking(authority: &Authority, origin: &Origin, keys: &str) -> String {
    let pair = authority.pair("site", &["site.test"]);
    let ask = format!("client_ca = '{}'\nclient_auth = 'request'\n", authority.file());
    format!("{LISTEN}{ask}{}{}", pair.table(), site(&[origin], keys))
}

/// Returns the response to a client with the certificate of `pair`.
fn told(larder: &Larder, authority: &Authority, pair: Option<&Pair>, words: &[&str]) -> String {
    let files = pair.map(|pair| [&pair.cert, &pair.key].map(|file| file.display().to_string()));
    let mut all: Vec<&str> = words.to_vec();
    if let Some([cert, key]) = &files {
        all.extend(["--cert", cert, "--key", key]);
    }
    let said = curl(authority, larder.door(TLS), "site.test", "/page", &all);
    larder.settle();
    assert!(said.ok, "{}", said.err);
    said.text().to_lowercase()
}

#[test]
fn a_tag_of_one_certificate_answers_no_other_client() {
    let (authority, origin) = (Authority::new(), Origin::always("200 OK\nETag: \"v1\"\n\nfor one client"));
    let (alice, bob) = (authority.pair("alice", &[]), authority.pair("bob", &[]));
    let config = asking(&authority, &origin, "role = 'tags'");
    let larder = Larder::start_settled(&config, &[("site1", &origin.url())]);
    told(&larder, &authority, Some(&alice), &[]);
    let asked = |pair: Option<&Pair>| {
        let before = origin.count();
        told(&larder, &authority, pair, &["-H", "If-None-Match: \"v1\""]);
        origin.count() - before
    };
    assert_eq!((asked(Some(&alice)), asked(None), asked(Some(&bob))), (0, 1, 1));
}

#[test]
fn a_trace_does_not_show_the_certificate() {
    let (authority, origin) = (Authority::new(), Origin::always("200 OK\n\n"));
    let larder = Larder::start(&asking(&authority, &origin, ""));
    let alice = authority.pair("alice", &[]);
    let words = ["-X", "TRACE", "-H", "Max-Forwards: 0", "-H", "A: b"];
    for version in ["--http1.1", "--http2"] {
        let seen = told(&larder, &authority, Some(&alice), &[&[version][..], &words].concat());
        assert!(seen.contains("a: b\r\n") && !seen.contains("client-cert"), "{seen}");
    }
}

#[test]
fn a_listener_for_proxy_clients_that_need_no_certificate_is_reported() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("larder.toml");
    let check = |listen: &str| {
        let pair = authority.pair("proxy", &["localhost"]);
        let table = format!(
            "[forward]\nlisten = {listen}\nlisten_tls = '127.0.0.1:0'\nclient_ca = '{}'\n",
            authority.file()
        );
        fs::write(&file, table + &pair.table()).expect("written");
        let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
        let output = larder.arg("check").arg("--config").arg(&file).output().expect("it runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{text}");
        text
    };
    let warning = "forward.listen 127.0.0.1:0 serves clients without a certificate: set listen = []";
    assert!(check("'127.0.0.1:0'").contains(warning));
    assert!(!check("[]").contains("without a certificate"));
}
