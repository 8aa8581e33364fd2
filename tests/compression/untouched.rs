//! Responses that are served as the origin sent them.

use flate2::Compression;
use flate2::read::GzEncoder;
use larder_testkit::{Answer, Client, Gate, Larder, Origin, Response, eventually, site};
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
    let ranges = ["bytes=5-9", "bytes=5-9\nIf-Range: W/\"a\"", "bytes=0-1,5-9", "bytes=4000-"];
    let ranges = ranges.map(|range| format!("\nRange: {range}"));
    for fields in ["", "\nAccept-Encoding: br"].into_iter().chain(ranges.iter().map(String::as_str)) {
        let answer = larder.ask(&format!("GET /{fields}"));
        assert_eq!((answer.status, answer.text(), answer.is_hit()), (200, &*text(5_000), true), "{fields}");
        let lines = ["content-encoding", "content-range", "etag", "vary"].map(|name| answer.field(name));
        assert_eq!(lines, [None, None, Some("W/\"a\""), Some("Accept-Encoding")]);
    }
    let head = larder.ask("HEAD /");
    assert_eq!([head.field("content-encoding"), head.field("etag")], [None, Some("W/\"a\"")]);
    let unchanged = larder.ask("GET /\nIf-None-Match: W/\"a\"");
    assert_eq!((unchanged.status, unchanged.field("etag")), (304, Some("W/\"a\"")));
    // Clients with the coding get ranges of the content as it is, and all clients of a site that does not compress.
    let without = Larder::before(&origin);
    without.get("/");
    for (larder, coding) in [(&larder, "\nAccept-Encoding: gzip"), (&without, "")] {
        let range = |range| larder.ask(&format!("GET /\nRange: bytes={range}{coding}"));
        let (part, parts, none) = (range("0-1"), range("0-1,5-9"), range("100000-"));
        assert_eq!((part.status, &part.body[..]), (206, &[0x1f, 0x8b][..]));
        assert!(parts.field("content-type").is_some_and(|kind| kind.starts_with("multipart/")), "{parts:?}");
        assert_eq!((parts.status, none.status, none.is_hit()), (206, 416, true));
    }
    assert_eq!(without.get("/").field("content-encoding"), Some("gzip"));
    // A content that would be too long without its coding is sent with it.
    larder.get("/bomb");
    let answer = larder.get("/bomb");
    assert_eq!((answer.is_hit(), answer.field("content-encoding")), (true, Some("gzip")));
    assert_eq!(origin.count(), 3);
}

/// Starts an origin that sends pages by gzip, and parts of them.
fn coding_origin() -> Origin {
    let (page, ends) = (gzip(text(500_000).as_bytes()), gzip(text(5_000).as_bytes()));
    Origin::answering(move |seen| {
        let lifetime = if seen.target.starts_with("/stored") { "max-age=100" } else { "private" };
        let head = format!(
            "200 OK\nContent-Type: text/html\nCache-Control: {lifetime}\nETag: \"a\"\nContent-Encoding: gzip"
        );
        match seen.target.as_str() {
            "/cut" => Answer::with_body(&head, &ends[..ends.len() - 9]),
            "/trailers" => {
                let head = head.replace('\n', "\r\n") + "\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked";
                let begin = Answer::raw(format!("HTTP/1.1 {head}\r\n\r\n{:x}\r\n", ends.len()));
                begin.then(&ends[..]).then("\r\n0\r\nX-Sum: of-coded\r\n\r\n")
            }
            _ if seen.method == "GET" && seen.field("range").is_some() => {
                let head =
                    head.replace("200 OK", &format!("206 Part\nContent-Range: bytes 5-9/{}", page.len()));
                Answer::with_body(&head, &page[5..10])
            }
            _ if seen.method == "HEAD" => {
                let head = head.replace('\n', "\r\n");
                Answer::raw(format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", page.len()))
            }
            _ => Answer::with_body(&head, &page),
        }
    })
}

#[test]
fn an_origins_coding_is_decoded_on_the_way_of_misses_and_passes() {
    let origin = coding_origin();
    let (larder, uncached) = (compressing(&origin, ""), compressing(&origin, "cache = false"));
    let undone = [None, Some("W/\"a\""), Some("Accept-Encoding")];
    let facts = |answer: &Response| {
        assert_eq!(["content-encoding", "etag", "vary"].map(|name| answer.field(name)), undone, "{answer:?}");
        assert_eq!((answer.status, answer.field("content-range"), answer.is_hit()), (200, None, false));
    };
    for (at, fields) in
        ["", "\nAccept-Encoding: br", "\nAccept-Encoding: gzip;q=0", "\nRange: bytes=5-9"].iter().enumerate()
    {
        for request in [format!("GET /stored{at}"), format!("GET /{at}"), format!("POST /{at}")] {
            for larder in [&larder, &uncached] {
                let answer = larder.ask(&format!("{request}{fields}"));
                facts(&answer);
                assert!(answer.text() == text(500_000), "{request}{fields}");
            }
        }
    }
    let head = larder.ask("HEAD /head");
    facts(&head);
    assert_eq!(head.field("content-length"), None);
    let mut old = larder.client();
    old.raw(b"GET /old HTTP/1.0\r\nHost: a\r\n\r\n");
    assert!(old.receive("GET").text() == text(500_000));
    for fields in
        ["\nAccept-Encoding: gzip", "\nAccept-Encoding: identity;q=0", "\nCache-Control: no-transform"]
    {
        let kept = larder.ask(&format!("GET /kept{fields}"));
        let lines = ["content-encoding", "etag", "vary"].map(|name| kept.field(name));
        assert_eq!(lines, [Some("gzip"), Some("\"a\""), Some("Accept-Encoding")], "{fields}");
        assert!(decode("gzip", &kept.body) == text(500_000));
    }
    let part = larder.ask("GET /kept-part\nRange: bytes=5-9\nAccept-Encoding: gzip");
    assert_eq!((part.status, part.body.len()), (206, 5));
    // Trailers may be about the coded bytes.
    for (fields, sums) in [("", 0), ("\nAccept-Encoding: gzip", 1)] {
        assert_eq!(
            larder.ask(&format!("GET /trailers\nTE: trailers{fields}")).trailers.len(),
            sums,
            "{fields}"
        );
    }
    // A client does not take content for complete whose coding ended early.
    let mut client = larder.client();
    client.send("GET /cut");
    let head = client.head();
    let is_whole = client.rest().is_some_and(|rest| rest.ends_with(b"0\r\n\r\n"));
    assert_eq!((head.field("content-encoding"), is_whole), (None, false));
}

/// Begins to read the answer to a GET from the address `127.0.0.{host}`. Returns its coding, and the client.
fn begin(larder: &Larder, host: u8, path: &str) -> (Option<String>, Client) {
    let mut client = Client::from(Ipv4Addr::new(127, 0, 0, host), larder.address());
    client.send(&format!("GET {path}"));
    (client.head().field("content-encoding").map(str::to_owned), client)
}

#[test]
fn clients_that_share_a_fetch_get_codings_that_they_accept() {
    let coded = gzip(text(5_000).as_bytes());
    let (gate, origin) = Origin::gated(move |_, held| {
        let head = "Content-Type: text/html\r\nCache-Control: max-age=100\r\nContent-Encoding: gzip";
        let head = format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {}\r\n\r\n", coded.len());
        Answer::raw(head).then(&coded[..9]).then_wait(held).then(&coded[9..])
    });
    let larder = compressing(&origin, "");
    let fields = ["", "\nAccept-Encoding: gzip", "\nAccept-Encoding: br", "\nRange: bytes=2-5"];
    let clients = fields.map(|fields| {
        let mut client = larder.client();
        client.send(&format!("GET /{fields}"));
        let head = client.head();
        (client, head)
    });
    gate.open();
    for (mut client, head) in clients {
        let content = client.content(&head).0;
        let shown = match head.field("content-encoding") {
            Some(coding) => decode(coding, &content),
            None => String::from_utf8(content).expect("text"),
        };
        assert_eq!((head.status, shown), (200, text(5_000)));
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_range_is_not_read_from_an_arriving_coded_part() {
    let (gate, origin) = Origin::gated(move |seen, held| {
        let head =
            "HTTP/1.1 206 Partial\r\nContent-Type: text/html\r\nCache-Control: max-age=100\r\nETag: \"1\"";
        if seen.field("range").is_some() {
            let part = text(10);
            return Answer::raw(format!(
                "{head}\r\nContent-Range: bytes 0-9/5000\r\nContent-Length: 10\r\n\r\n{part}"
            ));
        }
        // This origin sends a part unasked.
        let part = "Content-Encoding: gzip\r\nContent-Range: bytes 100-199/300\r\nContent-Length: 100";
        Answer::raw(format!("{head}\r\n{part}\r\n\r\n")).then_wait(held).then([0; 100])
    });
    let larder = compressing(&origin, "");
    let mut first = larder.client();
    first.send("GET /\nAccept-Encoding: gzip");
    let head = first.head();
    let part = larder.client().ask("GET /\nRange: bytes=0-9");
    assert_eq!((part.status, part.text(), part.field("content-encoding")), (206, &*text(10), None));
    gate.open();
    assert_eq!(first.content(&head).0, [0; 100]);
}

#[test]
fn clients_share_the_memory_of_decoders_for_passing_content() {
    let gate = Gate::default();
    let held = gate.clone();
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: br\r\nTransfer-Encoding: chunked";
    let origin =
        Origin::answering(move |_| Answer::raw(format!("{head}\r\n\r\n")).then_wait(&held).then("0\r\n\r\n"));
    let larder = compressing(&origin, "");
    let clients = [(1, "/a"), (1, "/b"), (1, "/c"), (2, "/d")].map(|(host, path)| begin(&larder, host, path));
    let codings = clients.each_ref().map(|(coding, _)| coding.as_deref());
    assert_eq!(codings, [None, None, Some("br"), None]);
    gate.open();
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

#[test]
fn clients_without_its_coding_get_no_stored_part() {
    let (plain, coded) = (text(5_000), gzip(text(5_000).as_bytes()));
    let origin = Origin::answering(move |seen| {
        let wants = seen.field("accept-encoding").is_some_and(|value| value.contains("gzip"));
        let (whole, coding) =
            if wants { (&*coded, "\nContent-Encoding: gzip") } else { (plain.as_bytes(), "") };
        let head = "206 Partial\nContent-Type: text/html\nCache-Control: max-age=100";
        let range = format!("Content-Range: bytes 0-9/{}", whole.len());
        Answer::with_body(&format!("{head}\nETag: \"{wants}\"\n{range}{coding}"), &whole[..10])
    });
    let larder = compressing(&origin, "");
    for (path, coding) in [("/none", ""), ("/other", "\nAccept-Encoding: br")] {
        let range = |coding: &str| larder.ask(&format!("GET {path}\nRange: bytes=0-9{coding}"));
        for is_hit in [false, true] {
            let part = range("\nAccept-Encoding: gzip");
            let lines = ["content-encoding", "vary"].map(|name| part.field(name));
            assert_eq!((part.is_hit(), lines), (is_hit, [Some("gzip"), Some("Accept-Encoding")]));
        }
        let part = range(coding);
        assert_eq!((part.status, part.text(), part.field("content-encoding")), (206, &*text(10), None));
    }
}
