//! `Strict-Transport-Security` of a site.

use super::clients::curl;
use super::{Authority, LISTEN, TLS};
use larder_testkit::{Larder, Origin, site};

const FIELD: &str = "strict-transport-security: max-age=31536000; includesubdomains\r\n";
const NAME: &str = "strict-transport-security";

#[test]
fn a_site_tells_browsers_to_use_tls_over_tls_alone() {
    let authority = Authority::new();
    let page = |cache: &str| format!("200 OK\nCache-Control: {cache}\n\na page");
    let origin = Origin::by(move |seen| match &*seen.target {
        "/own" => page("max-age=60\nStrict-Transport-Security: max-age=5"),
        "/large" => page("max-age=60") + &"x".repeat(200_000),
        "/pass" => page("no-store"),
        _ => page("max-age=60\nETag: \"1\""),
    });
    let dead = Origin::always("200 OK\n\n");
    dead.die();
    let pair = authority.pair("site", &["site.test", "dead.test", "other.test"]);
    let keys = |host: &str, keys: &str| format!("hosts = ['{host}']\n{keys}");
    let hsts = "hsts = '365d; includeSubDomains'\npurge_from = ['127.0.0.1']";
    let sites = [
        site(&[&origin], &keys("site.test", hsts)),
        site(&[&dead], &keys("dead.test", &format!("{hsts}\nretries = 0"))),
        site(&[&origin], &keys("other.test", "")),
    ];
    let larder = Larder::start(&format!("{LISTEN}{}{}", pair.table(), sites.concat()));
    let get = |host: &str, path: &str, words: &[&str]| {
        let said = curl(&authority, larder.door(TLS), host, path, words);
        larder.settle();
        said.text().to_lowercase()
    };
    for version in ["--http1.1", "--http2"] {
        for path in ["/a", "/a", "/large", "/large", "/pass"] {
            let told = get("site.test", path, &[version]);
            let counts = (told.matches(FIELD).count(), told.matches(NAME).count());
            assert_eq!(counts, (1, 1), "{path}: {told:.600}");
        }
        let told = get("site.test", "/a", &[version, "-H", "If-None-Match: \"1\""]);
        assert!(told.contains(" 304") && told.contains(FIELD), "{told}");
        let told = get("dead.test", "/a", &[version]);
        assert!(told.contains(" 502") && told.contains(FIELD), "{told}");
        for _ in 0..2 {
            let told = get("site.test", "/own", &[version]);
            assert!(told.matches(NAME).count() == 1 && told.contains("max-age=5\r"), "{told}");
        }
        assert!(!get("other.test", "/a", &[version]).contains(NAME));
    }
    for host in ["site.test", "dead.test"] {
        assert_eq!(larder.get(&format!("/a\nHost: {host}")).field(NAME), None);
    }
    let purged = larder.ask("PURGE https://site.test/a\nHost: site.test");
    assert_eq!((purged.status, purged.field(NAME)), (200, None));
}
