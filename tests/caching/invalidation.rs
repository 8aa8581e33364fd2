//! RFC 9111 section 4.4: invalidation by unsafe requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use larder_testkit::{Answer, Larder, Origin, locked, seed};

/// Returns, for each of `paths`, whether it is still a hit after `unsafe_request`, which the origin answers with
/// `answer`.
fn kept(paths: &[&str], unsafe_request: &str, answer: &'static str) -> Vec<bool> {
    let origin = Origin::by(move |seen| match seen.method.as_str() {
        "GET" => "200 OK\nCache-Control: max-age=100\n\nbody".to_owned(),
        _ => answer.to_owned(),
    });
    let larder = Larder::before(&origin);
    for path in paths {
        larder.get(path);
    }
    larder.ask(unsafe_request);
    paths.iter().map(|path| larder.get(path).is_hit()).collect()
}

#[test]
fn section_4_4_an_unsafe_request_that_succeeds_removes_its_target() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "BREW"] {
        assert_eq!(kept(&["/a", "/b"], &format!("{method} /a"), "200 OK"), [false, true], "{method}");
    }
    assert_eq!(kept(&["/a"], "POST /a", "303 See Other\nLocation: /b"), [false]);
    let spelled = ["/%C3%A9", "/%c3%a9", "/%C3%A8", "/%c3%A9?x"];
    assert_eq!(kept(&spelled, "POST /%c3%A9", "200 OK"), [false, false, true, true]);
    for method in ["OPTIONS", "PROPFIND", "QUERY"] {
        assert_eq!(kept(&["/a"], &format!("{method} /a\n\nselect"), "200 OK"), [true], "{method}");
    }
}

#[test]
fn section_4_4_one_that_fails_removes_nothing() {
    for answer in ["400 Bad", "404 Not Found", "500 Oops"] {
        assert_eq!(kept(&["/a", "/b"], "POST /a", answer), [true, true], "{answer}");
    }
}

#[test]
fn section_4_4_urls_named_by_a_response_are_invalidated_too() {
    let paths = ["/b", "/c", "/d"];
    let answer = "201 Created\nLocation: /b\nContent-Location: http://site.test/c";
    assert_eq!(kept(&paths, "POST /a", answer), [false, false, true]);
    let elsewhere = "201 Created\nLocation: http://other.test/b\nContent-Location: https://site.test/c";
    assert_eq!(kept(&paths, "POST /a", elsewhere), [true, true, true]);
}

#[test]
fn rfc_4918_a_copy_or_move_removes_its_destination() {
    let kept = |method: &str, destination, answer| {
        kept(&["/b", "/c"], &format!("{method} /a\nDestination: {destination}"), answer)
    };
    for method in ["COPY", "MOVE"] {
        for destination in ["http://site.test/b", "/b"] {
            assert_eq!(kept(method, destination, "204 No Content"), [false, true], "{method} {destination}");
        }
        assert_eq!(kept(method, "http://other.test/b", "204 No Content"), [true, true], "{method}");
        assert_eq!(kept(method, "/b", "412 Precondition Failed"), [true, true], "{method}");
    }
    assert_eq!(kept("POST", "/b", "204 No Content"), [true, true]);
}

#[test]
fn section_4_4_all_variants_go() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nVary: Colour\n\nbody");
    let larder = Larder::before(&origin);
    for request in ["GET /\nColour: red", "GET /\nColour: blue", "PUT /\n\nnew"] {
        larder.ask(request);
    }
    for colour in ["red", "blue"] {
        assert_eq!(
            larder.ask(&format!("GET /\nColour: {colour}\nCache-Control: only-if-cached")).status,
            504
        );
    }
}

const KEPT: &str = "200 OK\nCache-Control: max-age=100, stale-if-error=100\nETag: \"1\"\n\nbody";

#[test]
fn a_response_with_a_strong_tag_is_validated_after_a_change() {
    let confirmed = "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=100";
    let changed = "200 OK\nCache-Control: max-age=100\nETag: \"2\"\n\nother";
    for (answer, text) in [(confirmed, "body"), (changed, "other")] {
        let origin = Origin::in_order([KEPT, "204 No Content", answer]);
        let larder = Larder::before(&origin);
        larder.get("/");
        larder.ask("PUT /\n\nnew");
        assert_eq!(larder.get("/").text(), text);
        assert_eq!(origin.last().field("if-none-match"), Some("\"1\""));
        assert!(larder.get("/").is_hit());
        assert_eq!(origin.count(), 3);
    }
}

#[test]
fn after_a_change_what_was_stored_never_stands_in() {
    let origin = Origin::in_order([KEPT, "204 No Content", "503 Service Unavailable"]);
    let larder = Larder::before(&origin);
    larder.get("/");
    larder.ask("PUT /\n\nnew");
    assert_eq!(larder.get("/").status, 503);
    assert_eq!(larder.ask("GET /\nCache-Control: only-if-cached").status, 504);
    origin.die();
    assert_eq!(larder.ask("GET /\nCache-Control: max-stale").status, 502);
}

#[test]
fn a_get_after_a_change_with_an_unreliable_validator_is_unconditional() {
    let now = "Date: Thu, 01 Jan 1970 00:01:40 GMT\nLast-Modified: Thu, 01 Jan 1970 00:01:40 GMT";
    for (method, validator) in [
        ("PUT", "ETag: W/\"1\""),
        ("PUT", "Last-Modified: Thu, 01 Jan 1970 00:01:40 GMT"),
        ("PUT", &format!("ETag: \"1\"\n{now}")),
        ("DELETE", "ETag: \"1\""),
    ] {
        let stored = format!("200 OK\nCache-Control: max-age=100\n{validator}\n\nbody");
        let origin = Origin::by(move |_| stored.clone());
        let larder = Larder::before(&origin);
        larder.get("/");
        larder.ask(&format!("{method} /"));
        larder.get("/");
        let (last, count) = (origin.last(), origin.count());
        let conditions = [last.field("if-none-match"), last.field("if-modified-since")];
        assert_eq!((count, conditions), (3, [None, None]), "{method} {validator}");
    }
}

/// The origin's content under some URLs, and the number of the change that put it there.
#[derive(Default)]
struct Contents {
    changes: AtomicU64,
    stored: Mutex<[u64; 4]>,
    confirmed: AtomicU64,
}

/// Clients change pages, at times to an earlier content, and read them: no read may return content from before an
/// acknowledged change. Returns the number of reads that did, and the number of validations that the origin confirmed.
fn read_what_is_written(status: &'static str) -> (u64, u64) {
    let seed = seed();
    let contents = Arc::new(Contents::default());
    let kept = Arc::clone(&contents);
    let origin = Origin::by(move |seen| {
        let page: usize = seen.target[1..].parse().expect("a number");
        let mut stored = locked(&kept.stored);
        if seen.method == "PUT" {
            stored[page] = std::str::from_utf8(&seen.body).expect("digits").parse().expect("a number");
            return status.to_owned();
        }
        let content = stored[page];
        if seen.field("if-none-match") == Some(&format!("\"{content}\"")) {
            kept.confirmed.fetch_add(1, Ordering::SeqCst);
            return format!("304 Not Modified\nETag: \"{content}\"\nCache-Control: max-age=100");
        }
        format!("200 OK\nETag: \"{content}\"\nCache-Control: max-age=100\n\n{content}")
    });
    let larder = Larder::before(&origin);
    let faults = AtomicU64::new(0);
    // Each client writes a page that no other client writes, and reads it over connections that all clients share.
    std::thread::scope(|scope| {
        for page in 0..4_u64 {
            let (larder, contents, faults) = (&larder, &contents, &faults);
            scope.spawn(move || {
                let (mut rng, mut client) = (Rng::with_seed(seed + page), larder.client());
                let mut written = 0;
                for _ in 0..250 {
                    if rng.u8(..4) == 0 {
                        let changes = contents.changes.fetch_add(1, Ordering::SeqCst);
                        written = if rng.bool() { written } else { 1 + changes };
                        client.ask(&format!("PUT /{page}\n\n{written}"));
                    } else {
                        let is_old = client.ask(&format!("GET /{page}")).text() != written.to_string();
                        faults.fetch_add(u64::from(is_old), Ordering::SeqCst);
                    }
                }
            });
        }
    });
    (faults.into_inner(), contents.confirmed.load(Ordering::SeqCst))
}

#[test]
fn clients_read_what_they_wrote_and_what_is_equal_is_confirmed() {
    let (faults, confirmed) = read_what_is_written("204 No Content");
    assert_eq!(faults, 0);
    assert!(confirmed > 20, "{confirmed}");
}

#[test]
fn the_checker_finds_stale_reads_when_an_error_status_hides_a_change() {
    let (faults, _) = read_what_is_written("500 Committed All The Same");
    assert!(faults > 0);
}

#[test]
fn after_a_change_a_head_without_a_tag_confirms_nothing() {
    const FRESH: &str = "200 OK\nCache-Control: max-age=100";
    let origin = Origin::answering(|seen| match (seen.method.as_str(), seen.field("if-none-match")) {
        ("HEAD", _) => {
            Answer::raw("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 4\r\n\r\n")
        }
        ("PUT", _) => Answer::with_body("200 OK", b""),
        (_, None) => Answer::with_body(&format!("{FRESH}\nETag: \"1\""), b"body"),
        (_, Some(_)) => Answer::with_body(&format!("{FRESH}\nETag: \"2\""), b"news"),
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    larder.ask("PUT /\n\nnew");
    larder.ask("HEAD /");
    assert_eq!(larder.get("/").text(), "news");
}
