//! Origins whose responses have invalid framing, trailers or upgrades.

use larder_testkit::{Answer, Larder, Origin};

#[test]
fn an_unrequested_transfer_coding_is_no_answer() {
    for coding in ["gzip, chunked", "gzip", "chunked, chunked", "identity"] {
        let origin = Origin::answering(move |_| {
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: {coding}\r\n\r\n"
            );
            Answer::raw(head).then("4\r\nbody\r\n0\r\n\r\n").then_close()
        });
        let larder = Larder::with_site(&[&origin], "retries = 0");
        for _ in 0..2 {
            let answer = larder.get("/");
            assert_eq!(
                (answer.status, answer.cache()),
                (502, "detail=origin-malformed".to_owned()),
                "{coding}"
            );
        }
    }
}

#[test]
fn interim_responses_reach_clients_without_a_length() {
    let origin = Origin::answering(|_| {
        Answer::raw(
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
        .then("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("GET /");
    let hints = client.head();
    assert_eq!((hints.status, hints.field("link")), (103, Some("x")));
    assert_eq!((hints.field("content-length"), hints.field("transfer-encoding")), (None, None));
    assert_eq!(client.receive("GET").text(), "ok");
}

#[test]
fn interim_responses_are_limited_in_number_and_length() {
    let origin = Origin::answering(|seen| {
        let (length, count) = match seen.target.as_str() {
            "/few" => (10, 32),
            "/many" => (10, 33),
            _ => (40_000, 2),
        };
        let interim = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "a".repeat(length));
        Answer::raw(interim.repeat(count)).then("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let larder = Larder::with_site(&[&origin], "retries = 0");
    for (path, expected) in [("/few", 200), ("/many", 502), ("/long", 502), ("/few", 200)] {
        let mut client = larder.client();
        client.send(&format!("GET {path}"));
        let last = std::iter::repeat_with(|| client.head()).find(|head| head.status >= 200);
        assert_eq!(last.map(|head| head.status), Some(expected), "{path}");
    }
}

#[test]
fn trailers_that_belong_into_a_head_are_removed() {
    let origin = Origin::answering(|_| {
        let trailers = "Set-Cookie: a=b\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\nHost: y\r\nSum: 6";
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        Answer::raw(format!("{head}4\r\nbody\r\n0\r\n{trailers}\r\n\r\n"))
    });
    let larder = Larder::before(&origin);
    let answer = larder.get("/");
    let names: Vec<_> = answer.trailers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    assert_eq!((answer.text(), names), ("body", vec!["sum".to_owned()]));
}

#[test]
fn a_101_that_completes_no_handshake_opens_no_way_to_the_origin() {
    let answers = [
        "Connection: upgrade\nUpgrade: websocket",
        "Connection: upgrade\nUpgrade: h2c\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        "Connection: upgrade\nUpgrade: websocket\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ];
    let wish = "Connection: upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13";
    for answer in answers {
        let origin = Origin::by(move |_| format!("101 Switching Protocols\n{answer}"));
        let larder = Larder::before(&origin);
        let request = format!("GET /\n{wish}\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(larder.ask(&request).status, 502, "{answer}");
    }
}

/// RFC 9112 section 5.1.
#[test]
fn white_space_before_the_colon_of_an_origins_field_is_removed() {
    let origin = Origin::answering(|seen| {
        let line = match seen.target.as_str() {
            "/kept" => "Cache-Control : max-age=9",
            "/forbidden" => "Cache-Control\t: no-store",
            "/varying" => "Cache-Control: max-age=9\r\nVary : *",
            "/length" => "Content-Length : 4",
            "/coding" => "Transfer-Encoding : chunked",
            _ => "Connection : close",
        };
        let head = format!("Connection: hop\r\nHop : 1\r\nX-A \t: a\r\nSet-Cookie : own=secret\r\n{line}");
        Answer::raw(format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: 4\r\n\r\nbody"))
    });
    let larder = Larder::with_site(&[&origin], "retries = 0");
    let fields = ["x-a", "hop", "set-cookie"];
    for (path, is_stored) in [("/kept", true), ("/forbidden", false), ("/varying", false)] {
        let first = larder.get(path);
        assert_eq!(fields.map(|name| first.field(name)), [Some("a"), None, Some("own=secret")], "{path}");
        let second = larder.get(path);
        assert_eq!((second.text(), second.is_hit()), ("body", is_stored), "{path}");
        assert_eq!(second.field("set-cookie").is_none(), is_stored, "{path}");
    }
    for path in ["/length", "/coding", "/connection"] {
        assert_eq!(larder.get(path).cache(), "detail=origin-malformed", "{path}");
    }
}

/// RFC 9112 section 5.1.
#[test]
fn white_space_before_the_colon_of_an_origins_trailer_is_removed() {
    let origin = Origin::answering(|seen| {
        let trailers = match seen.target.as_str() {
            "/kept" => "Sum : 3\r\nContent-Length\t: 9\r\nSet-Cookie : a=b\r\n",
            "/folded" => "Sum : 3\r\n 4\r\n",
            "/name" => "Su m: 3\r\n",
            _ => "Sum : 3\n",
        };
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        Answer::raw(format!("{head}4\r\nbody\r\n0\r\n{trailers}\r\n"))
    });
    let larder = Larder::before(&origin);
    let answer = larder.get("/kept");
    assert_eq!((answer.text(), &answer.trailers[..]), ("body", &[("Sum".to_owned(), "3".to_owned())][..]));
    for path in ["/folded", "/name", "/bare"] {
        let mut client = larder.client();
        client.send(&format!("GET {path}"));
        assert!(!client.rest().unwrap_or_default().ends_with(b"0\r\n\r\n"), "{path}");
    }
}

/// RFC 9112 section 2.2.
#[test]
fn a_head_with_bare_line_feeds_ends_its_origins_connection() {
    let origin = Origin::answering(|seen| match seen.target.as_str() {
        "/head" => Answer::raw("HTTP/1.1 200 OK\nX: y\nContent-Length: 2\n\nok"),
        "/one" => Answer::raw("HTTP/1.1 200 OK\r\nX: y\nContent-Length: 2\r\n\r\nok"),
        "/chunks" => Answer::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n"),
        _ => Answer::with_body("200 OK", b"ok"),
    });
    let larder = Larder::with_site(&[&origin], "retries = 0");
    let mut client = larder.client();
    for (path, connections) in [("/", 1), ("/", 1), ("/head", 1), ("/one", 2), ("/", 3), ("/", 3)] {
        assert_eq!((client.ask(&format!("GET {path}")).text(), origin.connections()), ("ok", connections));
    }
    client.send("GET /chunks");
    assert!(!client.rest().unwrap_or_default().ends_with(b"0\r\n\r\n"));
}
