//! Sessions that are resumed, by the same process and by the next one.

use super::clients::s_client;
use super::{Authority, TLS, config};
use larder_testkit::{Larder, Origin};

const GET: &str = "GET / HTTP/1.0\r\nHost: site.test\r\n\r\n";

#[test]
fn a_session_is_resumed_by_every_worker_and_by_the_next_process() {
    let (authority, origin) = (Authority::new(), Origin::always("200 OK\n\na page"));
    let state = tempfile::tempdir().expect("a folder");
    let (config, folder) = (config(&authority, &origin, ""), tempfile::tempdir().expect("a folder"));
    for version in ["-tls1_2", "-tls1_3"] {
        let file = folder.path().join(version).display().to_string();
        let start = || Larder::start_in(&config, &[("STATE_DIRECTORY", state.path())]);
        let first = start();
        let said = s_client(&authority, first.door(TLS), &[version, "-sess_out", &file], GET);
        assert!(said.has("New, TLSv1."), "{}{}", said.text(), said.err);
        for _ in 0..6 {
            let said = s_client(&authority, first.door(TLS), &[version, "-sess_in", &file], GET);
            assert!(said.has("Reused, TLSv1.") && said.has("a page"), "{}{}", said.text(), said.err);
        }
        drop(first);
        let second = start();
        let said = s_client(&authority, second.door(TLS), &[version, "-sess_in", &file], GET);
        assert!(said.has("Reused, TLSv1.") && said.has("a page"), "{}{}", said.text(), said.err);
    }
}

#[test]
fn old_versions_and_suites_are_refused() {
    let (authority, origin) = (Authority::new(), Origin::always("200 OK\n\na page"));
    let larder = Larder::start(&config(&authority, &origin, ""));
    let refused: [&[&str]; 4] = [
        &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
        &["-tls1", "-cipher", "ALL:@SECLEVEL=0"],
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"],
        &["-tls1_2", "-cipher", "AES128-SHA"],
    ];
    for words in refused {
        let said = s_client(&authority, larder.door(TLS), words, GET);
        assert!(!said.ok && !said.has("a page"), "{words:?}: {}{}", said.text(), said.err);
    }
    let said = s_client(&authority, larder.door(TLS), &["-groups", "P-384"], GET);
    assert!(said.has("a page"), "{}{}", said.text(), said.err);
}
