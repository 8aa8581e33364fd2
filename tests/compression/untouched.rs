//! Responses that are served as the origin sent them.

use flate2::Compression;
use flate2::read::GzEncoder;
use larder_testkit::{Answer, Client, Larder, Origin, eventually, site};
use std::io::Read;
use std::net::Ipv4Addr;

use crate::{accepting, all, coded, compressing, decode, page, rest, stays_plain, text};

#[test]
fn short_incompressible_or_protected_responses_stay_uncoded() {
    let noise: Vec<u8> = (0..4_000).map(|_| fastrand::u8(..)).collect();
    let origin = Origin::answering(move |seen| {
        let page = match seen.target.as_str() {
            "/no-transform" => page("", 5_000).replace("max-age", "no-transform, max-age"),
            "/digest" => page("Repr-Digest: sha-256=:eA==:\n", 5_000),
            "/md5" => page("Content-MD5: eA==\n", 5_000),
            "/identity" => page("Content-Encoding: identity\n", 5_000),
            "/short" => page("", 1_023),
            "/image" => page("", 5_000).replace("text/html", "image/png"),
            "/missing" => page("", 5_000).replace("200 OK", "404 Not Found"),
            "/untyped" => page("", 5_000).replace("Content-Type: text/html\n", ""),
            _ => page("", 1_024),
        };
        let (head, text) = page.split_once("\n\n").expect("a head");
        Answer::with_body(head, if seen.target == "/noise" { &noise } else { text.as_bytes() })
    });
    let larder =
        compressing(&origin, "compress_types = ['text/*', 'application/*+json']\ncompress_min = '1KiB'");
    for path in ["/no-transform", "/digest", "/md5", "/short", "/image", "/missing", "/untyped", "/identity"]
    {
        assert!(stays_plain(&larder, path), "{path}");
        assert_eq!(all(&larder.get(path), "vary").len(), 0, "{path}");
    }
    assert_eq!(larder.stats()["compression"]["useless"].as_u64(), Some(0));
    larder.get("/");
    coded(&larder, "/", "gzip");
    // The compressor tries each coding once, finds no gain, and does not try again.
    for _ in 0..4 {
        accepting(&larder, "/noise", "gzip;q=0.5, br");
        rest(&larder);
    }
    assert_eq!(larder.stats()["compression"]["forms"].as_u64(), Some(1));
    assert!(accepting(&larder, "/noise", "gzip, br").field("vary").is_some());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    GzEncoder::new(bytes, Compression::best()).read_to_end(&mut coded).expect("coded");
    coded
}

#[test]
fn a_response_compressed_by_the_origin_is_stored_and_served_unchanged() {
    let gzip = gzip(text(5_000).as_bytes());
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
    // The other variant came without a coding: it is compressed as a separate entry.
    assert_eq!(decode("br", &accepting(&larder, "/", "br").body), text(5_000));
    let answer = coded(&larder, "/", "br");
    assert_eq!((decode("br", &answer.body), answer.field("etag")), (text(5_000), Some("W/\"a\"")));
    assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
    assert_eq!(origin.count(), 2);
}

#[test]
fn an_origins_coding_is_decoded_for_clients_that_do_not_accept_it() {
    let (page, bomb) = (gzip(text(5_000).as_bytes()), gzip(&vec![0; (8 << 20) + 1]));
    let origin = Origin::answering(move |seen| {
        let head = "200 OK\nContent-Type: text/html\nCache-Control: max-age=100\nETag: \"a\"\nContent-Encoding: gzip";
        Answer::with_body(head, if seen.target == "/bomb" { &bomb } else { &page })
    });
    let larder = compressing(&origin, "");
    for _ in 0..2 {
        let answer = accepting(&larder, "/", "gzip");
        assert_eq!((decode("gzip", &answer.body), answer.field("etag")), (text(5_000), Some("\"a\"")));
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
    }
    // A client without the coding gets no range either: it may have the beginning without the coding.
    for fields in ["", "\nAccept-Encoding: br", "\nRange: bytes=5-9", "\nRange: bytes=5-9\nIf-Range: W/\"a\""]
    {
        let answer = larder.ask(&format!("GET /{fields}"));
        assert_eq!((answer.status, answer.text(), answer.is_hit()), (200, &*text(5_000), true), "{fields}");
        let lines = ["content-encoding", "content-range", "etag", "vary"].map(|name| answer.field(name));
        assert_eq!(lines, [None, None, Some("W/\"a\""), Some("Accept-Encoding")]);
    }
    let head = larder.ask("HEAD /");
    assert_eq!([head.field("content-encoding"), head.field("etag")], [None, Some("W/\"a\"")]);
    let unchanged = larder.ask("GET /\nIf-None-Match: W/\"a\"");
    assert_eq!((unchanged.status, unchanged.field("etag")), (304, Some("W/\"a\"")));
    let part = larder.ask("GET /\nRange: bytes=0-1\nAccept-Encoding: gzip");
    assert_eq!((part.status, &part.body[..]), (206, &[0x1f, 0x8b][..]));
    // A content that would be too long without its coding is sent with it.
    larder.get("/bomb");
    let answer = larder.get("/bomb");
    assert_eq!((answer.is_hit(), answer.field("content-encoding")), (true, Some("gzip")));
    assert_eq!(origin.count(), 2);
    let without = Larder::before(&origin);
    without.get("/");
    assert_eq!(without.get("/").field("content-encoding"), Some("gzip"));
}

/// Begins to read the answer to a GET from the address `127.0.0.{host}`. Returns its coding, and the client.
fn begin(larder: &Larder, host: u8, path: &str) -> (Option<String>, Client) {
    let mut client = Client::from(Ipv4Addr::new(127, 0, 0, host), larder.address());
    client.send(&format!("GET {path}"));
    (client.head().field("content-encoding").map(str::to_owned), client)
}

#[test]
fn slow_readers_of_decoded_content_leave_decoding_to_others() {
    let page = gzip(&vec![0; 8 << 20]);
    let origin = Origin::answering(move |_| {
        Answer::with_body(
            "200 OK\nContent-Type: text/html\nCache-Control: max-age=100\nContent-Encoding: gzip",
            &page,
        )
    });
    // There is no room to store the decoded form.
    let larder =
        Larder::start(&format!("[memory]\nsize = '8MiB'\n{}", site(&[&origin], "compress = ['gzip']")));
    accepting(&larder, "/", "gzip");
    // No client reads on, so that the decoded contents stay in memory.
    let slow: Vec<_> = (0..12).map(|_| begin(&larder, 1, "/")).collect();
    let decoded = slow.iter().filter(|(coding, _)| coding.is_none()).count();
    assert_eq!(decoded, 4, "half of the bytes");
    assert_eq!(begin(&larder, 2, "/").0, None, "another client");
    drop(slow);
    eventually("room for the client", || begin(&larder, 1, "/").0.is_none().then_some(()));
}

/// Returns the processor time that a process has used, in ticks of the kernel's clock.
fn processor_time(larder: &Larder) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", larder.id())).expect("it runs");
    let fields: Vec<_> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    [11, 12].map(|at| fields[at].parse::<u64>().expect("ticks")).iter().sum()
}

#[test]
fn content_is_decoded_once_whether_that_succeeds_or_fails() {
    const TIMES: u64 = 12;
    for (len, coding) in [(8 << 20, None), ((8 << 20) + 1, Some("gzip"))] {
        let page = gzip(&vec![0; len]);
        let origin = Origin::answering(move |_| {
            Answer::with_body(
                "200 OK\nContent-Type: text/html\nCache-Control: max-age=100\nContent-Encoding: gzip",
                &page,
            )
        });
        let larder = compressing(&origin, "");
        (0..TIMES).for_each(|number| drop(accepting(&larder, &format!("/{number}"), "gzip")));
        let cost = |path: &dyn Fn(u64) -> String| {
            let before = processor_time(&larder);
            // Only the head is read: sending the content takes time, too.
            (0..TIMES).for_each(|number| assert_eq!(begin(&larder, 1, &path(number)).0.as_deref(), coding));
            processor_time(&larder) - before
        };
        let (first, again) = (cost(&|number| format!("/{number}")), cost(&|_| "/0".to_owned()));
        assert!(again * 3 < first, "{len} bytes: {first} ticks at first, {again} later");
        assert_eq!(origin.count(), TIMES as usize);
    }
}
