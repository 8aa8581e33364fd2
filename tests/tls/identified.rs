//! Clients with a certificate: what may not be shared with others.

use super::authority::Pair;
use super::clients::curl;
use super::support::{Larder, Origin, site};
use super::{Authority, LISTEN, TLS};

/// A proxy in front of `origin` that asks its clients for a certificate, with `keys` of the site's table.
fn asking(authority: &Authority, origin: &Origin, keys: &str) -> String {
    let pair = authority.pair("site", &["site.test"]);
    let ask = format!("client_ca = '{}'\nclient_auth = 'request'\n", authority.file());
    format!("{LISTEN}{ask}{}{}", pair.table(), site(&[origin], keys))
}

/// What a client with the certificate of `pair` is answered.
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
