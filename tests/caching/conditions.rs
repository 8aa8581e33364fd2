//! RFC 9110 section 13: conditions of clients on responses that are not stored.

use larder_testkit::{Answer, Client, Larder, Origin, eventually};

const MODIFIED: &str = "Thu, 01 Jan 2015 00:00:00 GMT";
const LATER: &str = "Fri, 01 Jan 2016 00:00:00 GMT";

/// Returns the status of the response to each of these requests, each for a URL of its own.
fn statuses(larder: &Larder, table: &[(&str, u16)]) {
    for (number, (fields, expected)) in table.iter().enumerate() {
        for method in ["GET", "HEAD"] {
            let response = larder.ask(&format!("{method} /{number}\n{fields}"));
            assert_eq!(response.status, *expected, "{method} {fields}");
        }
    }
}

#[test]
fn section_13_2_2_conditions_are_evaluated_on_a_private_response() {
    let origin = Origin::always(
        "200 OK\nCache-Control: private\nETag: \"1\"\nLast-Modified: Thu, 01 Jan 2015 00:00:00 GMT\n\nbody",
    );
    let table = [
        ("If-None-Match: \"1\"", 304),
        ("If-None-Match: W/\"1\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"2\"", 200),
        (&format!("If-None-Match: \"2\"\nIf-Modified-Since: {LATER}"), 200),
        (&format!("If-Modified-Since: {MODIFIED}"), 304),
        ("If-Modified-Since: Wed, 31 Dec 2014 23:59:59 GMT", 200),
        ("If-Modified-Since: yesterday", 200),
    ];
    statuses(&Larder::before(&origin), &table);
    let larder = Larder::start("[forward]\nallow_private = true");
    for (condition, expected) in table {
        let response = Client::to(larder.forward).ask(&format!("GET {}/\n{condition}", origin.url()));
        assert_eq!(response.status, expected, "by the forward proxy: {condition}");
    }
}

#[test]
fn section_13_1_3_without_a_modification_date_a_response_is_modified() {
    let origin =
        Origin::always("200 OK\nCache-Control: no-store\nDate: Thu, 01 Jan 2015 00:00:00 GMT\n\nbody");
    statuses(&Larder::before(&origin), &[(&format!("If-Modified-Since: {LATER}"), 200)]);
}

#[test]
fn section_15_4_5_a_304_lacks_only_the_fields_of_content() {
    let origin = Origin::always(
        "200 OK\nCache-Control: private, max-age=9\nETag: \"1\"\nVary: Cookie\nContent-Location: /there\nSet-Cookie: a=b\n\
         Content-Type: text/plain\nContent-Language: de\n\nbody",
    );
    let response = Larder::before(&origin).ask("GET /\nIf-None-Match: \"1\"");
    assert_eq!(
        (response.status, response.cache().as_str()),
        (304, "fwd=miss; fwd-status=200; detail=private")
    );
    for (name, there) in [
        ("cache-control", Some("private, max-age=9")),
        ("etag", Some("\"1\"")),
        ("vary", Some("Cookie")),
        ("content-location", Some("/there")),
        ("set-cookie", Some("a=b")),
        ("content-type", None),
        ("content-language", None),
        ("content-length", None),
    ] {
        assert_eq!(response.field(name), there, "{name}");
    }
}

#[test]
fn pages_of_other_origins_may_read_a_stored_304_and_416() {
    let readers = "Access-Control-Allow-Origin: https://app.test\nTiming-Allow-Origin: *\nVary: Origin";
    let fields = format!("Cache-Control: max-age=100\nETag: \"1\"\nContent-Type: a/b\n{readers}");
    let origin = Origin::by(move |_| format!("200 OK\n{fields}\n\n0123456789"));
    let larder = Larder::before(&origin);
    larder.get("/");
    for (own, status) in [("If-None-Match: \"1\"", 304), ("Range: bytes=10-", 416)] {
        let response = larder.ask(&format!("GET /\n{own}"));
        assert_eq!(
            (response.status, response.field("content-type"), response.is_hit()),
            (status, None, true)
        );
        for line in readers.lines() {
            let (name, value) = line.split_once(": ").expect("a field");
            assert_eq!(response.field(&name.to_lowercase()), Some(value), "{status}");
        }
    }
}

#[test]
fn clients_that_waited_for_a_private_response_get_their_304() {
    let (gate, origin) = Origin::gated(|_, held| {
        held.pass();
        Answer::with_body("200 OK\nCache-Control: private\nETag: \"1\"", b"body")
    });
    let larder = Larder::before(&origin);
    let mut clients = [larder.client(), larder.client(), larder.client()];
    for client in &mut clients {
        client.send("GET /\nIf-None-Match: \"1\"");
    }
    origin.wait_for(1);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.receive("GET").status, 304);
    }
}

#[test]
fn conditions_on_a_known_unstorable_url_reach_the_origin() {
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        Some("\"1\"") => "304 Not Modified\nCache-Control: private\nETag: \"1\"".to_owned(),
        _ => "200 OK\nCache-Control: private\nETag: \"1\"\n\nbody".to_owned(),
    });
    let larder = Larder::before(&origin);
    for (forwarded, answered) in [(false, 200), (true, 304), (true, 304)] {
        let response = larder.ask("GET /\nIf-None-Match: \"1\"\nCookie: a=b");
        assert_eq!((response.status, response.field("etag")), (304, Some("\"1\"")));
        assert_eq!(origin.last().field("if-none-match").is_some(), forwarded);
        assert!(response.cache().contains(&format!("fwd-status={answered}")), "{response:?}");
    }
    assert_eq!(larder.get("/").text(), "body");
}

#[test]
fn section_13_1_1_conditions_that_fail_here_are_for_the_origin() {
    let origin = Origin::by(|seen| match seen.field("if-match").or(seen.field("if-unmodified-since")) {
        Some(_) => "412 Precondition Failed".to_owned(),
        None => "200 OK\nCache-Control: max-age=100, stale-if-error=100\nETag: \"1\"\n\
                 Last-Modified: Fri, 02 Jan 2015 00:00:00 GMT\n\n0123456789"
            .to_owned(),
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    let (before, after) = ("Thu, 01 Jan 2015 00:00:00 GMT", "Sat, 03 Jan 2015 00:00:00 GMT");
    let table = [
        ("If-Match: \"1\"".to_owned(), 206),
        ("If-Match: \"0\", \"1\"".to_owned(), 206),
        ("If-Match: *".to_owned(), 206),
        (format!("If-Unmodified-Since: {after}"), 206),
        (format!("If-Match: \"1\"\nIf-Unmodified-Since: {before}"), 206),
        ("If-Match: \"0\"".to_owned(), 412),
        ("If-Match: W/\"1\"".to_owned(), 412),
        (format!("If-Unmodified-Since: {before}"), 412),
    ];
    for (condition, status) in &table {
        let part = larder.ask(&format!("GET /\nRange: bytes=2-3\n{condition}"));
        assert_eq!((part.status, part.is_hit()), (*status, *status == 206), "{condition}");
        let head = larder.ask(&format!("HEAD /\n{condition}"));
        assert_eq!(head.is_hit(), *status == 206, "{condition}");
        assert!(larder.get("/").is_hit(), "{condition}");
    }
    origin.die();
    assert_eq!(larder.ask("GET /\nIf-Match: \"0\"").status, 502);
}

#[test]
fn section_13_1_1_a_412_of_the_origin_answers_nobody_else() {
    for condition in ["If-Match: \"2\"", "If-Unmodified-Since: Thu, 01 Jan 2015 00:00:00 GMT"] {
        let origin = Origin::by(|seen| match seen.field("if-match").or(seen.field("if-unmodified-since")) {
            Some(_) => "412 Precondition Failed\nCache-Control: max-age=100".to_owned(),
            None => "200 OK\nCache-Control: max-age=100\nAge: 100\nETag: \"1\"\n\nbody".to_owned(),
        });
        let larder = Larder::before(&origin);
        // First nothing is stored, and then a stale response.
        for _ in 0..2 {
            for method in ["GET", "HEAD"] {
                assert_eq!(
                    larder.ask(&format!("{method} /\n{condition}")).status,
                    412,
                    "{method} {condition}"
                );
            }
            assert_eq!((larder.get("/").text(), larder.get("/").text()), ("body", "body"), "{condition}");
        }
    }
}

#[test]
fn an_error_that_one_request_may_have_caused_answers_nobody_else() {
    for field in ["If-Match: malformed", "If-Unmodified-Since: yesterday", "Range: bytes=9-"] {
        for status in ["400 Bad Request", "404 Not Found", "500 Internal Server Error"] {
            let name = field.split(':').next().expect("a name");
            let origin = Origin::by(move |seen| {
                let status = if seen.field(&name.to_lowercase()).is_some() { status } else { "200 OK" };
                format!("{status}\nCache-Control: public, max-age=31536000\n\n{status}")
            });
            let larder = Larder::before(&origin);
            assert_eq!(larder.ask(&format!("GET /\n{field}")).text(), status);
            // What is not there has no range, either.
            let is_for_all = name == "Range" && status.starts_with("404");
            for hit in [is_for_all, true] {
                let response = larder.get("/");
                let expected = if is_for_all { status } else { "200 OK" };
                assert_eq!((response.text(), response.is_hit()), (expected, hit), "{field}, {status}");
            }
        }
    }
}

#[test]
fn an_error_of_a_request_for_the_rest_is_not_stored() {
    let origin = Origin::by(|seen| {
        let answer = match seen.field("range") {
            Some("bytes=0-4") => {
                "206 Partial Content\nCache-Control: max-age=0\nContent-Range: bytes 0-4/9\nETag: \"1\"\n\n01234"
            }
            Some(_) => "500 Internal Server Error\nCache-Control: max-age=100\n\nno rest",
            None => "200 OK\nCache-Control: max-age=100\n\n012345678",
        };
        answer.to_owned()
    });
    let larder = Larder::before(&origin);
    assert_eq!(larder.ask("GET /\nRange: bytes=0-4").text(), "01234");
    for number in 2..4 {
        let response = larder.get("/");
        assert_eq!((response.text(), response.is_hit(), origin.count()), ("no rest", false, number));
    }
}

#[test]
fn a_part_is_not_sent_to_a_client_that_has_the_response() {
    for stored in ["private", "max-age=100"] {
        let origin = Origin::answering(move |_| {
            let head = format!(
                "206 Partial Content\nCache-Control: {stored}\nETag: \"1\"\nContent-Range: bytes 0-1/4"
            );
            Answer::with_body(&head, b"bo")
        });
        let larder = Larder::before(&origin);
        for _ in 0..2 {
            let response = larder.ask("GET /\nRange: bytes=0-1\nIf-None-Match: \"1\"");
            assert_eq!((response.status, response.field("content-range")), (304, None), "{stored}");
        }
        assert_eq!(larder.ask("GET /\nRange: bytes=0-1\nIf-None-Match: \"2\"").text(), "bo", "{stored}");
    }
}

#[test]
fn section_13_2_2_a_condition_comes_before_an_unsatisfiable_range() {
    let origin = Origin::by(|seen| {
        let has =
            seen.field("if-none-match") == Some("\"1\"") || seen.field("if-modified-since") == Some(MODIFIED);
        let answer = match (has, seen.field("range")) {
            (true, _) => "304 Not Modified\nETag: \"1\"\n\n",
            (_, Some(_)) => "416 Range Not Satisfiable\nContent-Range: bytes */4\n\n",
            _ => "200 OK\nCache-Control: max-age=100\nETag: \"1\"\n\nbody",
        };
        answer.to_owned()
    });
    let has_it = format!("If-Modified-Since: {MODIFIED}");
    let table = [
        ("If-None-Match: \"1\"", 304),
        ("If-None-Match: \"2\"", 416),
        (&*has_it, 304),
        ("If-Modified-Since: Wed, 31 Dec 2014 23:59:59 GMT", 416),
    ];
    let table = table.map(|(condition, expected)| (format!("Range: bytes=4-\n{condition}"), expected));
    for config in ["", "slice = \"64KiB\""] {
        let larder = Larder::with_site(&[&origin], config);
        for (number, (fields, expected)) in table.iter().enumerate() {
            for _ in 0..2 {
                let response = larder.ask(&format!("GET /{number}\n{fields}"));
                assert_eq!(response.status, *expected, "{fields}");
            }
            assert_eq!(larder.get(&format!("/{number}")).text(), "body", "{fields}");
        }
    }
}

#[test]
fn after_a_304_the_connection_to_the_origin_carries_the_next_request() {
    let (gate, origin) = Origin::gated(|seen, held| {
        let head =
            "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nCache-Control: private\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = Answer::raw(head);
        let answer = if seen.number == 0 { answer.then_wait(held) } else { answer };
        answer.then("4\r\nbody\r\n0\r\n\r\n")
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    assert_eq!(client.ask("GET /1\nIf-None-Match: \"1\"").status, 304);
    gate.open();
    eventually("a connection that is used again", || {
        let before = origin.connections();
        client.ask("GET /2\nIf-None-Match: \"1\"");
        (origin.connections() == before).then_some(())
    });
}
