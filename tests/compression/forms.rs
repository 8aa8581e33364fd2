//! The coded form that a client gets.

use crate::{accepting, all, coded, compressing, decode, page, rest, stays_plain, text};
use larder_testkit::http2::Client;
use larder_testkit::{Larder, Origin, site};

#[test]
fn each_coding_is_made_once_in_the_background_without_delaying_clients() {
    let origin = Origin::by(|seen| page("", if seen.target == "/long" { 300_000 } else { 5_000 }));
    let larder = compressing(&origin, "");
    for (path, len) in [("/", 5_000), ("/long", 300_000)] {
        larder.get(path);
        let first = accepting(&larder, path, "gzip, br, zstd");
        assert_eq!((first.text(), all(&first, "content-encoding").len()), (&*text(len), 0));
        assert_eq!(first.field("vary"), Some("Accept-Encoding"));
        for coding in ["gzip", "br", "zstd"] {
            let answer = coded(&larder, path, coding);
            assert_eq!(decode(coding, &answer.body), text(len), "{coding}");
            assert_eq!(answer.cache(), format!("hit; coding={coding}"));
            assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
            assert!(answer.body.len() * 10 < len, "{} bytes", answer.body.len());
            let head = larder.ask(&format!("HEAD {path}\nAccept-Encoding: {coding}"));
            for name in ["content-encoding", "content-length", "vary", "content-type"] {
                assert_eq!(head.field(name), answer.field(name), "{name}");
            }
        }
        let plain = larder.get(path);
        assert_eq!((plain.text(), plain.field("content-encoding")), (&*text(len), None));
        assert_eq!((plain.cache().as_str(), plain.field("vary")), ("hit", Some("Accept-Encoding")));
    }
    assert_eq!(origin.count(), 2);
    rest(&larder);
    let stats = larder.stats();
    assert_eq!(stats["compression"]["forms"].as_u64(), Some(6), "{stats}");
    assert!(stats["bytes_saved"].as_u64() > Some(3 * 290_000), "{stats}");
    assert!(stats["compressed"].as_u64() >= Some(6), "{stats}");
    assert_eq!(stats["objects"].as_u64(), Some(2));
}

#[test]
fn the_coding_follows_the_clients_preference_then_the_sites_order() {
    let origin = Origin::by(|_| page("", 5_000));
    let larder = Larder::start(&site(&[&origin], "compress = ['br', 'gzip']"));
    larder.get("/");
    for coding in ["gzip", "br"] {
        coded(&larder, "/", coding);
    }
    let cases = [
        ("gzip, br", Some("br")),
        ("GZip", Some("gzip")),
        ("gzip;q=1, br;q=0.5", Some("gzip")),
        ("br;q=0, *", Some("gzip")),
        ("*", Some("br")),
        ("zstd, deflate", None),
        ("zstd, gzip;q=0.1", Some("gzip")),
        ("identity;q=0, br;q=0.001", Some("br")),
        ("identity, gzip;q=0.5", None),
        ("gzip;q=0", None),
        ("", None),
    ];
    for (accepted, expected) in cases {
        let answer = accepting(&larder, "/", accepted);
        assert_eq!(answer.field("content-encoding"), expected, "{accepted:?}");
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
    }
}

#[test]
fn until_the_best_form_exists_another_form_is_served() {
    let origin = Origin::by(|_| page("", 5_000));
    let larder = compressing(&origin, "");
    larder.get("/");
    coded(&larder, "/", "gzip");
    let answer = accepting(&larder, "/", "gzip, br;q=0.9");
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    assert_eq!(accepting(&larder, "/", "br, gzip;q=0.9").field("content-encoding"), Some("gzip"));
    rest(&larder);
    assert_eq!(accepting(&larder, "/", "br, gzip;q=0.9").field("content-encoding"), Some("br"));
}

/// The compressed text is half as long: too long for one write, and therefore stored in a memory file.
#[test]
fn long_forms_are_sent_as_long_bodies_are() {
    let noise: String = (0..400_000).map(|_| format!("{:x}", fastrand::u8(..16))).collect();
    let expected = noise.clone();
    let origin = Origin::by(move |_| page("ETag: \"a\"\n", 0) + &noise);
    let larder = compressing(&origin, "");
    larder.get("/");
    for coding in ["gzip", "br", "zstd"] {
        let answer = coded(&larder, "/", coding);
        assert!((150_000..300_000).contains(&answer.body.len()), "{} bytes", answer.body.len());
        assert!(decode(coding, &answer.body) == expected, "{coding}");
        let mut client = Client::new(&larder);
        client.authority = "site.test".to_owned();
        client.ask(1, "GET", "/", &[("accept-encoding", coding)]);
        assert!(client.response(1).body == answer.body, "{coding}");
    }
    assert!(larder.get("/").text() == expected);
}

#[test]
fn http2_clients_get_the_same_forms() {
    let origin =
        Origin::by(|seen| page("ETag: \"a\"\n", if seen.target == "/long" { 300_000 } else { 5_000 }));
    let larder = compressing(&origin, "");
    for (path, len) in [("/", 5_000), ("/long", 300_000)] {
        larder.get(path);
        coded(&larder, path, "br");
        let mut client = Client::new(&larder);
        client.authority = "site.test".to_owned();
        client.ask(1, "GET", path, &[("accept-encoding", "br")]);
        let answer = client.response(1);
        assert_eq!(decode("br", &answer.body), text(len));
        let fields = ["content-encoding", "vary", "etag"].map(|name| answer.field(name));
        assert_eq!(fields, [Some("br"), Some("Accept-Encoding"), Some("W/\"a\"")]);
        assert_eq!(answer.field("content-length"), Some(&*answer.body.len().to_string()));
    }
}

#[test]
fn a_site_that_does_not_compress_changes_nothing() {
    let origin = Origin::by(|_| page("ETag: \"a\"\n", 5_000));
    let larder = Larder::before(&origin);
    assert!(stays_plain(&larder, "/"));
    let answer = accepting(&larder, "/", "gzip");
    assert_eq!([answer.field("vary"), answer.field("etag")], [None, Some("\"a\"")]);
    assert_eq!(larder.stats()["compression"]["forms"].as_u64(), Some(0));
}

#[test]
fn no_transform_of_a_client_leaves_content_as_it_is() {
    let origin = Origin::by(|_| page("ETag: \"a\"\n", 5_000));
    let larder = compressing(&origin, "");
    larder.get("/");
    coded(&larder, "/", "gzip");
    let answer = larder.ask("GET /\nAccept-Encoding: gzip\nCache-Control: no-transform");
    assert_eq!((answer.text(), answer.is_hit()), (&*text(5_000), true));
    let lines = ["content-encoding", "etag", "vary"].map(|name| answer.field(name));
    assert_eq!(lines, [None, Some("\"a\""), Some("Accept-Encoding")]);
}
