//! What stays as the origin sent it.

use flate2::Compression;
use flate2::read::GzEncoder;
use std::io::Read;

use crate::support::{Answer, Origin};
use crate::{accepting, all, coded, compressing, decode, page, rest, stays_plain, text};

#[test]
fn what_is_not_worth_it_or_may_not_change_stays_as_it_is() {
    let noise: Vec<u8> = (0..4_000).map(|_| fastrand::u8(..)).collect();
    let origin = Origin::answering(move |seen| {
        let page = match seen.target.as_str() {
            "/no-transform" => page("", 5_000).replace("max-age", "no-transform, max-age"),
            "/digest" => page("Repr-Digest: sha-256=:eA==:\n", 5_000),
            "/md5" => page("Content-MD5: eA==\n", 5_000),
            "/short" => page("", 1_023),
            "/image" => page("", 5_000).replace("text/html", "image/png"),
            "/missing" => page("", 5_000).replace("200 OK", "404 Not Found"),
            "/untyped" => page("", 5_000).replace("Content-Type: text/html\n", ""),
            "/private" => page("", 5_000).replace("max-age", "private, max-age"),
            _ => page("", 1_024),
        };
        let (head, text) = page.split_once("\n\n").expect("a head");
        Answer::with_body(head, if seen.target == "/noise" { &noise } else { text.as_bytes() })
    });
    let larder =
        compressing(&origin, "compress_types = ['text/*', 'application/*+json']\ncompress_min = '1KiB'");
    for path in ["/no-transform", "/digest", "/md5", "/short", "/image", "/missing", "/untyped", "/private"] {
        assert!(stays_plain(&larder, path), "{path}");
        assert_eq!(all(&larder.get(path), "vary").len(), 0, "{path}");
    }
    assert_eq!(larder.stats()["compression"]["useless"].as_u64(), Some(0));
    larder.get("/");
    coded(&larder, "/", "gzip");
    // It is tried once for each coding, and then left alone.
    for _ in 0..4 {
        accepting(&larder, "/noise", "gzip;q=0.5, br");
        rest(&larder);
    }
    assert_eq!(larder.stats()["compression"]["forms"].as_u64(), Some(1));
    assert!(accepting(&larder, "/noise", "gzip, br").field("vary").is_some());
}

#[test]
fn what_the_origin_compressed_is_stored_and_served_as_before() {
    let mut gzip = Vec::new();
    GzEncoder::new(text(5_000).as_bytes(), Compression::best()).read_to_end(&mut gzip).expect("coded");
    let origin = Origin::answering(move |seen| {
        let wants = seen.field("accept-encoding").is_some_and(|value| value.contains("gzip"));
        let head =
            "200 OK\nContent-Type: text/html\nCache-Control: max-age=100\nVary: Accept-Encoding\nETag: \"a\"";
        match wants {
            true => Answer::with_body(&format!("{head}\nContent-Encoding: gzip"), &gzip),
            false => Answer::with_body(head, text(5_000).as_bytes()),
        }
    });
    let larder = compressing(&origin, "");
    for expected in ["fwd=uri-miss", "hit", "hit"] {
        let answer = accepting(&larder, "/", "gzip");
        assert!(answer.cache().starts_with(expected), "{answer:?}");
        assert_eq!((decode("gzip", &answer.body), answer.field("etag")), (text(5_000), Some("\"a\"")));
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "not twice");
        rest(&larder);
    }
    // Another variant, which came without a coding: that is compressed, as one entry of its own.
    assert_eq!(accepting(&larder, "/", "br").text(), text(5_000));
    let answer = coded(&larder, "/", "br");
    assert_eq!((decode("br", &answer.body), answer.field("etag")), (text(5_000), Some("W/\"a\"")));
    assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
    assert_eq!(origin.count(), 2);
}
