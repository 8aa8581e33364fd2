//! Clients get the same answers from this proxy's own record layer and from that of rustls.

use std::fs;

use larder_testkit::{Answer, Larder, Origin};

use super::clients::{curl, s_client};
use super::{Authority, TLS, config};

const PAGE: &str = "200 OK\nCache-Control: max-age=60\n\na page";

/// Calls `act` with a proxy whose records are its own, and with one whose records are those of rustls.
fn both<T>(authority: &Authority, origin: &Origin, act: impl Fn(&Larder) -> T) -> [T; 2] {
    let config = config(authority, origin, "");
    ["own", "rustls"].map(|by| act(&Larder::start(&format!("tls_records = '{by}'\n{config}"))))
}

#[test]
fn pages_and_uploads_arrive_whole() {
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let page = large.clone();
    let origin = Origin::answering(move |seen| match (&*seen.method, &*seen.target) {
        ("POST", _) => Answer::with_body("200 OK", format!("{} bytes", seen.body.len()).as_bytes()),
        (_, "/large") => Answer::with_body("200 OK\nCache-Control: max-age=60", &page),
        _ => Answer::with_body("200 OK\nCache-Control: max-age=60", b"a page"),
    });
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("upload");
    fs::write(&file, &large).expect("written");
    let data = format!("@{}", file.display());
    let requests: [(&str, &[&str], &[u8]); 4] = [
        ("/small", &[], b"a page"),
        ("/large", &[], &large),
        ("/large", &["--range", "1000-2999999"], &large[1_000..]),
        ("/up", &["--data-binary", &data], b"3000000 bytes"),
    ];
    let hits = both(&authority, &origin, |larder| {
        let mut hits = Vec::new();
        for version in [&["--http1.1"][..], &["--http2"], &["--http1.1", "--tls-max", "1.2"]] {
            for (path, words, content) in requests {
                let said = curl(&authority, larder.door(TLS), "site.test", path, &[version, words].concat());
                assert!(said.ok && said.out.ends_with(content), "{version:?} {path}: {}", said.err);
                hits.push(said.has("; hit"));
                larder.settle();
            }
        }
        hits
    });
    assert_eq!(hits[0], hits[1]);
}

#[test]
fn requests_on_one_connection_end_with_close_notify() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let request = "GET /1 HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(3)
        + "GET /2 HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    both(&authority, &origin, |larder| {
        for version in ["-tls1_3", "-tls1_2"] {
            let said = s_client(&authority, larder.door(TLS), &[version], &request);
            assert_eq!(said.text().matches("a page").count(), 4, "{version}: {}{}", said.text(), said.err);
            assert!(said.ok && said.has("closed"), "{version}: {}{}", said.text(), said.err);
        }
    });
}

#[test]
fn a_reload_changes_the_records_of_new_connections() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let config = config(&authority, &origin, "");
    let larder = Larder::start(&config);
    for by in ["rustls", "own"] {
        larder.reload(&format!("tls_records = '{by}'\n{config}"));
        let said = curl(&authority, larder.door(TLS), "site.test", "/a", &[]);
        assert!(said.ok && said.text().ends_with("a page"), "{by}: {}{}", said.text(), said.err);
    }
}
