//! Responses that are compressed while they are sent: those that are not stored, and the first replies of others.

use std::io::Read;
use std::process::Command;

use larder_testkit::{Answer, Client, Gate, Larder, Origin, Response, output, site};

use crate::{accepting, all, compressing, decode, text};

/// Returns a response that is not stored, with `len` bytes of text and these header lines.
fn passing(lines: &str, len: usize) -> String {
    format!("200 OK\nContent-Type: text/html\nCache-Control: no-store\n{lines}\n{}", text(len))
}

/// Returns the coding, the length, the tag and `Vary` of a response.
fn facts(answer: &Response) -> [Option<&str>; 4] {
    ["content-encoding", "content-length", "etag", "vary"].map(|name| answer.field(name))
}

#[test]
fn a_response_that_is_not_stored_is_compressed_on_its_way() {
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        Some(_) => "304 Not Modified\nETag: \"a\"".to_owned(),
        None => passing("ETag: \"a\"\n", 300_000),
    });
    for keys in ["", "cache = false"] {
        let larder = compressing(&origin, keys);
        for coding in ["gzip", "br", "zstd"] {
            for method in ["GET", "HEAD", "POST"] {
                let answer = larder.ask(&format!("{method} /\nAccept-Encoding: {coding}"));
                let expected = [Some(coding), None, Some("W/\"a\""), Some("Accept-Encoding")];
                assert_eq!(facts(&answer), expected, "{method} {answer:?}");
                assert!(answer.cache().contains(&format!("coding={coding}")), "{answer:?}");
                if method != "HEAD" {
                    assert!(answer.body.len() < 10_000 && decode(coding, &answer.body) == text(300_000));
                }
            }
        }
        for request in ["GET /", "HEAD /", "GET /\nAccept-Encoding: gzip\nCache-Control: no-transform"] {
            let plain = [None, Some("300000"), Some("\"a\""), Some("Accept-Encoding")];
            assert_eq!(facts(&larder.ask(request)), plain, "{request}");
        }
        for tag in ["W/\"a\"", "\"a\""] {
            let same = larder.ask(&format!("GET /\nAccept-Encoding: gzip\nIf-None-Match: {tag}"));
            assert_eq!((same.status, same.field("etag")), (304, Some(tag)));
        }
    }
}

#[test]
fn curl_decodes_it_in_both_versions_of_http() {
    let origin = Origin::by(|_| passing("", 300_000));
    let larder = compressing(&origin, "");
    let url = format!("http://{}/", larder.address());
    for version in ["--http1.1", "--http2-prior-knowledge", "--http1.0"] {
        let words = ["-sS", "-i", "--noproxy", "*", "--compressed", version, &url];
        let answer = output(Command::new("curl").args(words));
        let (head, content) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(content == text(300_000), "{version}: {head}");
        // A client of HTTP/1.0 could not tell whether content without a length is complete.
        assert_eq!(head.to_lowercase().contains("content-encoding"), version != "--http1.0", "{head}");
    }
}

#[test]
fn responses_that_must_not_be_compressed_pass_as_they_are() {
    let origin = Origin::answering(|seen| {
        let page = match seen.target.as_str() {
            "/events" => passing("", 5_000).replace("text/html", "text/event-stream; charset=utf-8"),
            "/grpc" => passing("", 5_000).replace("text/html", "application/grpc+proto"),
            "/coded" => passing("Content-Encoding: br\n", 5_000),
            "/kept" => passing("", 5_000).replace("no-store", "no-store, no-transform"),
            "/digest" => passing("Content-Digest: sha-256=:eA==:\n", 5_000),
            "/trailers" => passing("Trailer: X-Sum\n", 5_000),
            "/missing" => passing("", 5_000).replace("200 OK", "404 Not Found"),
            "/part" => passing("Content-Range: bytes 0-4999/9000\n", 5_000).replace("200 OK", "206 Partial"),
            "/image" => passing("", 5_000).replace("text/html", "image/png"),
            _ => passing("", 100),
        };
        let (head, body) = page.split_once("\n\n").expect("a head");
        Answer::with_body(head, body.as_bytes())
    });
    let larder = compressing(&origin, "compress_types = ['text/*', 'application/*']");
    let paths =
        ["/events", "/grpc", "/coded", "/kept", "/digest", "/trailers", "/missing", "/image", "/short"];
    for path in paths {
        let answer = accepting(&larder, path, "gzip, br");
        let coding = (path == "/coded").then_some("br");
        let facts = (answer.field("content-encoding"), all(&answer, "vary").len());
        // Other clients get it without its coding.
        assert_eq!(facts, (coding, coding.iter().len()), "{path}");
        assert!(answer.field("content-length").is_some(), "{path}");
    }
    let part = larder.ask("GET /part\nAccept-Encoding: gzip\nRange: bytes=0-4999");
    assert_eq!((part.status, part.field("content-encoding"), part.body.len()), (206, None, 5_000));
}

#[test]
fn trailers_about_the_bytes_do_not_follow_compressed_content() {
    let origin = Origin::answering(|_| {
        let head = passing("Transfer-Encoding: chunked\n", 0).replace('\n', "\r\n");
        let trailers = "Content-Digest: sha-256=:eA==:\r\nSum: 4";
        Answer::raw(format!("HTTP/1.1 {head}1388\r\n{}\r\n0\r\n{trailers}\r\n\r\n", text(5_000)))
    });
    let larder = compressing(&origin, "");
    for (coding, coded, trailers) in [("gzip", Some("gzip"), 0), ("identity", None, 2)] {
        let answer = accepting(&larder, "/", coding);
        assert_eq!((answer.field("content-encoding"), answer.trailers.len()), (coded, trailers));
    }
}

/// Starts an origin that sends a text without a length, and another one once the gate opens.
fn halting(gate: &Gate) -> Origin {
    let gate = gate.clone();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    Origin::answering(move |_| {
        Answer::raw(head).then("5\r\nfirst\r\n").then_wait(&gate).then("4\r\nlast\r\n0\r\n\r\n")
    })
}

/// Returns what can be decoded of the beginning of a content.
fn decoded_part(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut part = Vec::new();
    // The end is missing.
    let _ = match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut part),
        "br" => brotli::Decompressor::new(bytes, 4_096).read_to_end(&mut part),
        _ => zstd::stream::read::Decoder::new(bytes).expect("zstd").read_to_end(&mut part),
    };
    part
}

#[test]
fn a_slow_response_is_not_held_back_by_its_encoder() {
    for coding in ["gzip", "br", "zstd"] {
        let gate = Gate::default();
        let origin = halting(&gate);
        let larder = compressing(&origin, "compress_min = '0B'");
        let mut client = larder.client();
        client.send(&format!("GET /\nAccept-Encoding: {coding}"));
        let head = client.head();
        assert_eq!(head.field("content-encoding"), Some(coding));
        let mut received = Vec::new();
        while decoded_part(coding, &received) != b"first" {
            received.extend(client.chunk().expect("more, before the gate opens"));
        }
        gate.open();
        received.extend(client.content(&head).0);
        assert_eq!(decode(coding, &received), "firstlast");
    }
}

#[test]
fn beyond_the_limit_replies_pass_uncompressed() {
    let gate = Gate::default();
    let origin = halting(&gate);
    let keys = "compress = ['gzip']\ncompress_min = '0B'";
    let larder = Larder::start(&format!("[limits]\ncompressions = 1\n{}", site(&[&origin], keys)));
    let begin = || -> (Client, Response) {
        let mut client = larder.client();
        client.send("GET /\nAccept-Encoding: gzip");
        let head = client.head();
        (client, head)
    };
    let [(mut first, coded), (mut second, plain)] = [begin(), begin()];
    assert_eq!([coded.field("content-encoding"), plain.field("content-encoding")], [Some("gzip"), None]);
    assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
    gate.open();
    assert_eq!(decode("gzip", &first.content(&coded).0), "firstlast");
    assert_eq!(second.content(&plain).0, b"firstlast");
    let compression = &larder.stats()["compression"];
    assert_eq!((compression["passing"].as_u64(), compression["refused"].as_u64()), (Some(1), Some(1)));
    let off = Larder::start(&format!("[limits]\ncompressions = 0\n{}", site(&[&origin], keys)));
    let answer = accepting(&off, "/", "gzip");
    assert_eq!([answer.field("content-encoding"), answer.field("vary")], [None, None]);
}

#[test]
fn content_that_ends_early_is_not_completed_by_the_encoder() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 90000\r\nCache-Control: no-store\r\n\r\n";
    let origin = Origin::answering(move |_| Answer::raw(head).then(text(80_000)).then_close());
    let larder = compressing(&origin, "");
    let mut client = larder.client();
    client.send("GET /\nAccept-Encoding: gzip");
    assert_eq!(client.head().field("content-encoding"), Some("gzip"));
    let received = client.rest_of(1 << 20);
    assert!(!received.ends_with(b"0\r\n\r\n"), "{} bytes", received.len());
}

#[test]
fn the_first_reply_of_a_stored_response_is_compressed_too() {
    let origin = Origin::by(|_| crate::page("ETag: \"a\"\n", 200_000));
    let larder = compressing(&origin, "");
    let first = accepting(&larder, "/", "br");
    assert!(first.cache().contains("stored") && first.cache().contains("coding=br"), "{first:?}");
    assert_eq!(facts(&first), [Some("br"), None, Some("W/\"a\""), Some("Accept-Encoding")]);
    assert_eq!(decode("br", &first.body), text(200_000));
    let plain = larder.get("/");
    assert!(plain.is_hit() && plain.text() == text(200_000));
    assert_eq!(origin.count(), 1);
}
