//! Signed URLs.

use aws_lc_rs::hmac;

use larder_testkit::{Larder, Origin, eventually, site};

const KEY: &str = "0123456789abcdef";
const NEXT: &str = "fedcba9876543210";
/// A time after any run of this test.
const LATER: u64 = 9_000_000_000;

/// Returns `uri` with the parameters of a URL that `key` signs until `expires`.
fn signed(uri: &str, expires: u64, key: &str) -> String {
    let mark = if uri.contains('?') { '&' } else { '?' };
    let uri = format!("{uri}{mark}expires={expires}");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), uri.as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{uri}&signature={digits}")
}

#[test]
fn signed_urls_share_a_stored_response_until_they_expire() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.target));
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    std::fs::write(&keys, format!("old {KEY}\n")).expect("written");
    let rule = format!("[[site.rule]]\nmatch = {{ path = '/paid/*' }}\nsigned = '{}'\n", keys.display());
    let larder = Larder::start(&site(&[&origin], &rule));

    let first = larder.get(&signed("/paid/film?v=1", LATER, KEY));
    assert_eq!((first.status, first.text()), (200, "/paid/film?v=1"));
    assert!(
        larder.get(&signed("/paid/film?v=1", LATER + 1, KEY)).is_hit(),
        "the signature is not in the key"
    );
    let expired = larder.get(&signed("/paid/film?v=1", 1_000_000_000, KEY));
    assert_eq!((expired.status, expired.text()), (403, "403: this link has expired\n"));
    let valid = signed("/paid/film?v=1", LATER, KEY);
    let changes = [("film", "book"), ("v=1", "v=2"), ("/paid", "//paid"), ("signature", "v=2&signature")];
    for (part, other) in changes {
        let forged = larder.get(&valid.replace(part, other));
        assert_eq!(
            (forged.status, forged.text()),
            (403, "403: this URL needs a valid signature\n"),
            "{other}"
        );
    }
    assert_eq!(larder.get("/paid/film?v=1").status, 403);
    assert_eq!(larder.get("/free").status, 200);

    let next = signed("/paid/film?v=1", LATER, NEXT);
    assert_eq!(larder.get(&next).status, 403);
    std::fs::write(&keys, format!("old {KEY}\nnew {NEXT}\n")).expect("written");
    eventually("the second key", || {
        (larder.get(&next).is_hit() && larder.get(&valid).is_hit()).then_some(())
    });
}
