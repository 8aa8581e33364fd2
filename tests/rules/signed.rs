//! Signed URLs.

use aws_lc_rs::hmac;

use larder_testkit::{Larder, Origin, eventually, file_with, site};

const KEY: &str = "0123456789abcdef";
const NEXT: &str = "fedcba9876543210";
/// A time after any run of this test.
const LATER: u64 = 9_000_000_000;

/// Returns `uri` with the parameters of a URL that `key` signs until `expires`.
fn signed(uri: &str, expires: u64, key: &str) -> String {
    let mark = if uri.contains('?') { '&' } else { '?' };
    let uri = format!("{uri}{mark}expires={expires}");
    format!("{uri}&signature={}", digits(&uri, key))
}

/// Returns the signature of a text.
fn digits(signed: &str, key: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), signed.as_bytes());
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn signed_urls_share_a_stored_response_until_they_expire() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.target));
    let (_folder, keys) = file_with("keys", &format!("old {KEY}\n"));
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

#[test]
fn a_signature_in_the_path_reaches_neither_key_nor_origin() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.target));
    let (_folder, keys) = file_with("keys", &format!("{KEY}\n"));
    let signed = format!("signed = {{ keys = '{}', in = 'path' }}", keys.display());
    let rule = format!("purge_from = '127.0.0.1'\n[[site.rule]]\nmatch.path = '/paid/*'\n{signed}\n");
    let larder = Larder::start(&site(&[&origin], &rule));
    let link = |path: &str, expires: u64| {
        let signed = format!("{path}/{expires}");
        format!("{signed}/{}", digits(&signed, KEY))
    };

    let first = larder.get(&link("/paid/film.mp4", LATER));
    assert_eq!((first.status, first.text()), (200, "/paid/film.mp4"));
    assert!(larder.get(&link("/paid/film.mp4", LATER + 1)).is_hit());
    assert_eq!(larder.get(&link("/paid/film.mp4", 1_000_000_000)).text(), "403: this link has expired\n");
    let forged = [
        link("/paid/film.mp4", LATER).replace("film", "book"),
        link("/paid/film.mp4", LATER) + "?v=1",
        "/paid/film.mp4".to_owned(),
    ];
    for other in forged {
        assert_eq!(larder.get(&other).text(), "403: this URL needs a valid signature\n", "{other}");
    }
    assert_eq!(larder.ask("PURGE /paid/film.mp4").status, 200);
    assert!(!larder.get(&link("/paid/film.mp4", LATER)).is_hit());
}
