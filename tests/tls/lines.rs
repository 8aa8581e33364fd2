//! The line protocol over TLS, with OpenSSL's client.

use super::Authority;
use super::clients::s_client;
use super::support::{Client, Larder, Origin};

#[test]
fn lines_are_answered_over_tls_and_not_in_clear() {
    let (authority, origin) =
        (Authority::new(), Origin::always("200 OK\nCache-Control: max-age=60\n\na page"));
    let pair = authority.pair("site", &["site.test"]);
    let larder = Larder::start(&format!(
        "[line]\nlisten = '127.0.0.1:0'\ntls = true\n[forward]\nallow_private = true\n{}",
        pair.table()
    ));
    let address = larder.door("line, TLS");
    for version in ["-tls1_2", "-tls1_3"] {
        let url = format!("{}/page\n", origin.url());
        let said = s_client(&authority, address, &[version, "-quiet", "-no_ign_eof"], &url);
        assert!(said.has("+6\na page."), "{version}: {}{}", said.text(), said.err);
    }
    assert_eq!(origin.count(), 1);
    let mut clear = Client::to(address);
    clear.raw(format!("{}/page\n", origin.url()).as_bytes());
    clear.finish();
    assert!(!clear.rest_of(64).windows(6).any(|bytes| bytes == b"a page"));
    assert_eq!(origin.count(), 1);
}
