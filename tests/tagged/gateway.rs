//! A gateway in front of its backend.

use larder_testkit::{Answer, Client, Larder, Origin, Seen, eventually, site};

use crate::{gateway, is_current};

/// Starts a backend without tags, whose content is its number of changes.
fn counting() -> Origin {
    let changes = std::sync::atomic::AtomicU32::new(0);
    Origin::by(move |seen: &Seen| match seen.method.as_str() {
        "GET" => format!("200 OK\n\nversion {}", changes.load(std::sync::atomic::Ordering::SeqCst)),
        _ => {
            changes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            "204 No Content".to_owned()
        }
    })
}

/// Returns the current tag of `target`.
fn tag(larder: &Larder, target: &str) -> String {
    larder.get(target).field("etag").expect("a tag").to_owned()
}

#[test]
fn a_current_tag_is_answered_without_the_backend() {
    let origin = counting();
    let larder = gateway(&origin, "");
    let tag = tag(&larder, "/users/1");
    let response = larder.ask(&format!("GET /users/1\nIf-None-Match: {tag}"));
    assert_eq!((response.status, response.cache().as_str()), (304, "hit; detail=tag-current"));
    assert_eq!((response.field("etag"), response.field("date").is_some()), (Some(&*tag), true));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_query_leaves_the_tags_of_the_gateway() {
    let origin = counting();
    let larder = gateway(&origin, "");
    let tag = tag(&larder, "/users/1");
    for (method, expected) in [("QUERY", 304), ("REPORT", 304), ("LOCK", 200)] {
        larder.ask(&format!("{method} /users\n\nselect"));
        let response = larder.ask(&format!("GET /users/1\nIf-None-Match: {tag}"));
        assert_eq!(response.status, expected, "{method}");
    }
}

#[test]
fn why_says_whether_the_tag_is_current() {
    let larder = gateway(&counting(), "");
    let tag = tag(&larder, "/users/1");
    let reason = |shown: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["why", "--json", "http://site.test/users/1", "--admin", &larder.admin.to_string()]);
        let output = command.args(["-H", &format!("If-None-Match: {shown}")]).output().expect("it runs");
        let why: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
        let decision = &why["decision"];
        (decision["reason"].as_str().map(str::to_owned), decision["asks_origin"].as_bool())
    };
    assert_eq!(reason(&tag), (Some("tag-current".to_owned()), Some(false)));
    assert_eq!(reason("\"other\""), (Some("tag-unknown".to_owned()), Some(true)));
}

#[test]
fn why_says_what_no_tag_can_answer() {
    let larder = gateway(&counting(), "");
    let tag = tag(&larder, "/users/1");
    for (method, path, fields, content, expected) in [
        ("GET", "/users/1", &["Range: bytes=0-1"][..], "", "bypass"),
        ("GET", "/users/1", &["If-Match: \"other\""], "", "bypass"),
        ("GET", "//users", &[], "", "bypass"),
        ("GET", "/users/1", &["Content-Length: 1"], "x", "bypass"),
        ("HEAD", "/users/1", &["Content-Length: 1"], "x", "bypass"),
        ("HEAD", "/users/1", &[], "", "method"),
        ("GET", "/users/1", &[], "", "tag-current"),
        ("POST", "/feeds", &["Content-Length: 1"], "x", "method"),
    ] {
        let shown = format!("If-None-Match: {tag}");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["why", "--json", "--admin", &larder.admin.to_string(), "--method", method]);
        command.args(["-H", &shown]).args(fields.iter().flat_map(|field| ["-H", field]));
        let output = command.arg(format!("http://site.test{path}")).output().expect("it runs");
        let why: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
        assert_eq!(why["decision"]["reason"], expected, "{method} {path} {fields:?}");
        let lines: String = fields.iter().map(|field| format!("\n{field}")).collect();
        let response = larder.ask(&format!("{method} {path}\n{shown}{lines}\n\n{content}"));
        assert!(response.cache().contains(expected), "{method} {path} {fields:?}: {response:?}");
    }
}

#[test]
fn a_gateway_asks_the_backend_and_confirms_an_unchanged_tag() {
    let origin = Origin::by(|_| "200 OK\n\nalways the same".to_owned());
    let larder = gateway(&origin, "");
    let tag = tag(&larder, "/users/1");
    larder.ask("POST /users\n\nx");
    let response = larder.ask(&format!("GET /users/1\nIf-None-Match: {tag}"));
    assert_eq!(
        (response.status, response.cache().as_str()),
        (304, "fwd=miss; fwd-status=200; detail=tag-unknown")
    );
    assert_eq!(origin.count(), 3);
    assert!(is_current(&larder, "/users/1", &tag));
}

#[test]
fn any_unsafe_request_blanks_its_pool_and_coupled_pools_whatever_its_status() {
    for request in
        ["POST /users\n\nx", "PUT /users/2\n\nx", "PATCH /users\n\nx", "DELETE /USERS/1", "BREW /%75sers"]
    {
        for answer in ["200 OK", "404 Not Found", "500 Oops"] {
            let origin = Origin::by(move |seen| match seen.method.as_str() {
                "GET" => "200 OK\n\nx".to_owned(),
                _ => answer.to_owned(),
            });
            let larder = gateway(&origin, "");
            let tag = tag(&larder, "/users");
            larder.get("/paths");
            larder.get("/feeds");
            larder.ask(request);
            let current = ["/users", "/paths", "/feeds"].map(|target| is_current(&larder, target, &tag));
            assert_eq!(current, [false, false, true], "{request}: {answer}");
        }
    }
}

#[test]
fn a_backend_that_is_gone_leaves_doubt_only_if_it_was_there() {
    let origin = Origin::answering(|seen| match seen.method.as_str() {
        "GET" => Answer::with_body("200 OK", b"x"),
        _ => Answer::default().then_close(),
    });
    let larder = gateway(&origin, "retries = 0");
    let tag = tag(&larder, "/users");
    // `/paths` and `/feeds` get separate pools: doubt in a shared pool affects its other members at random.
    ["/paths", "/feeds"].iter().for_each(|target| drop(larder.get(target)));
    assert_eq!(larder.ask("POST /users\n\nx").status, 502);
    assert!(!is_current(&larder, "/users", &tag));
    assert!(!is_current(&larder, "/users", &tag), "it may still be at it");
    larder.get("/feeds");
    assert!(is_current(&larder, "/feeds", &tag));
}

#[test]
fn a_client_that_leaves_in_the_middle_blanks_as_well() {
    let origin = counting();
    let larder = gateway(&origin, "");
    let tag = tag(&larder, "/users");
    let mut client = larder.client();
    client.raw(b"POST /users HTTP/1.1\r\nHost: site.test\r\nContent-Length: 10\r\n\r\nabc");
    eventually("its arrival", || (!is_current(&larder, "/users", &tag)).then_some(()));
    drop(client);
    eventually("its end", || (pool(&larder, "blanked") >= 2).then_some(()));
    larder.get("/users");
    assert!(!is_current(&larder, "/users", &tag), "the backend may have taken what it got");
}

/// Returns a figure of the first pool.
fn pool(larder: &Larder, figure: &str) -> u64 {
    larder.stats()["gateways"][0]["pools"][0][figure].as_u64().expect("a number")
}

#[test]
fn content_that_is_too_large_goes_on_without_a_tag() {
    let body = vec![b'x'; 3_000];
    for head in ["200 OK", "200 OK\nTransfer-Encoding: chunked"] {
        let content = body.clone();
        let origin = Origin::answering(move |_| match head.contains("chunked") {
            true => Answer::with_body(head, b"").then([b"bb8\r\n", &content[..], b"\r\n0\r\n\r\n"].concat()),
            false => Answer::with_body(head, &content),
        });
        let larder = gateway(&origin, "tag_limit = '1KiB'");
        let mut client = larder.client();
        for _ in 0..2 {
            let response = client.ask("GET /large");
            assert_eq!((response.field("etag"), response.body == body), (None, true), "{head}");
        }
    }
}

#[test]
fn content_without_a_length_gets_one_and_a_tag() {
    let origin = Origin::answering(|_| {
        Answer::with_body("200 OK\nTransfer-Encoding: chunked", b"")
            .then("3\r\nabc\r\n2\r\nde\r\n0\r\nT: t\r\n\r\n")
    });
    let response = gateway(&origin, "").get("/");
    assert_eq!((response.text(), response.field("content-length")), ("abcde", Some("5")));
    assert!(response.field("etag").is_some());
}

#[test]
fn content_that_breaks_off_is_no_answer() {
    let origin =
        Origin::answering(|_| Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").then_close());
    let larder = gateway(&origin, "retries = 0");
    assert_eq!(larder.get("/").status, 502);
}

#[test]
fn events_are_passed_on_as_they_come() {
    let (gate, origin) = Origin::gated(|_, held| {
        Answer::with_body("200 OK\nContent-Type: text/event-stream\nTransfer-Encoding: chunked", b"")
            .then("3\r\none\r\n")
            .then_wait(held)
            .then("3\r\ntwo\r\n0\r\n\r\n")
    });
    let larder = gateway(&origin, "");
    let mut client = Client::to(larder.address());
    client.send("GET /events");
    let head = client.head();
    assert_eq!(client.exactly(8), b"3\r\none\r\n");
    gate.open();
    assert_eq!(client.content(&head).0, b"two");
}

#[test]
fn requests_outside_the_pools_pass_without_a_tag() {
    let origin = Origin::by(|seen| match seen.field("range") {
        Some(_) => "206 Partial Content\nContent-Range: bytes 0-1/3\n\nab".to_owned(),
        None => "200 OK\n\nabc".to_owned(),
    });
    let larder = gateway(&origin, "");
    assert_eq!(larder.ask("GET /\nRange: bytes=0-1").status, 206);
    assert_eq!(larder.ask("HEAD /").field("content-length"), Some("3"));
    assert_eq!(larder.ask("GET /\n\ncontent").field("etag"), None);
    assert_eq!(larder.ask("OPTIONS /").field("etag"), None);
}

#[test]
fn the_backend_receives_tags_and_no_date_beside_them() {
    let origin = counting();
    let larder = gateway(&origin, "");
    larder.ask("GET /\nIf-None-Match: \"a\"\nIf-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT");
    assert_eq!(
        (origin.last().field("if-none-match"), origin.last().field("if-modified-since")),
        (Some("\"a\""), None)
    );
    larder.ask("GET /\nIf-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT");
    assert!(origin.last().field("if-modified-since").is_some());
}

#[test]
fn pools_are_reported() {
    let larder = gateway(&counting(), "");
    let tag = tag(&larder, "/users");
    assert!(is_current(&larder, "/users", &tag));
    larder.ask("POST /users\n\nx");
    let figures = ["tags", "matched", "forwarded", "stored", "blanked"].map(|figure| pool(&larder, figure));
    assert_eq!(figures[..2], [0, 1]);
    assert!(figures[4] >= 2, "{figures:?}");
    let pools = larder.ask_admin("GET /pools").json();
    assert_eq!(pools[0]["pools"][0]["pool"], "users");
    assert!(
        larder
            .ask_admin("GET /metrics")
            .text()
            .contains("larder_pool_requests_total{site=\"site1\",pool=\"users\",fate=\"matched\"} 1\n")
    );
}

#[test]
fn doubt_ends() {
    let origin = Origin::answering(|seen| match seen.method.as_str() {
        "GET" => Answer::with_body("200 OK", b"x"),
        _ => Answer::default().then_close(),
    });
    let larder = gateway(&origin, "retries = 0\ntag_doubt = '1s'");
    let tag = tag(&larder, "/users");
    larder.ask("POST /users\n\nx");
    eventually("the end of doubt", || {
        larder.get("/users");
        is_current(&larder, "/users", &tag).then_some(())
    });
}

#[test]
fn pools_outlive_a_reload_that_does_not_concern_them() {
    let origin = counting();
    let config = |keys: &str| site(&[&origin], &format!("role = 'tags'\n{keys}"));
    let larder = Larder::start_settled(&config(""), &[("site1", &origin.url())]);
    let tag = tag(&larder, "/users");
    larder.reload(&config("retries = 5"));
    larder.wait_for_log("config reloaded");
    assert!(is_current(&larder, "/users", &tag));
    larder.reload(&config("tags = 5"));
    eventually("new pools", || (!is_current(&larder, "/users", &tag)).then_some(()));
}
