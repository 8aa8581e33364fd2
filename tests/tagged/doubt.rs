//! Changes with an unknown result: the responses of a gateway to caches meanwhile, and the behaviour of a cache that
//! has timed out.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use larder_testkit::{Answer, Gate, Larder, Origin, Response, eventually};

use crate::late::{Data, shown};
use crate::{cache, gateway, is_current, started};

/// Gives held changes up early, and no other request: a busy machine can take as long for that.
pub(crate) const IMPATIENT: &str = "[[site.rule]]\nmatch = { field = 'Hold' }\nfirst_byte = '100ms'\n";
/// A change that the backend holds.
const HELD: &str = "PUT /users/1\nHold: it\n\nx";

/// Whether the response is a hit of the cache in front; the gateway behind it also adds a member to Cache-Status.
fn is_hit(response: &Response) -> bool {
    response.fields.iter().any(|(_, value)| value.starts_with("front; hit"))
}

fn lifetime(larder: &Larder, request: &str) -> (Option<String>, Option<String>) {
    let response = larder.ask(request);
    let field = |name| response.field(name).map(str::to_owned);
    (field("cache-control"), field("etag"))
}

#[test]
fn in_doubt_a_gateway_gives_no_lifetime_and_no_tag() {
    let data = Data::default();
    let origin = data.origin("200 OK");
    let larder = started(&origin, IMPATIENT, "push = true");
    for target in ["/users/1", "/paths/1", "/feeds/1"] {
        assert_eq!(lifetime(&larder, &format!("GET {target}")).0.as_deref(), Some("s-maxage=3600"));
    }
    assert_eq!(larder.ask(HELD).status, 504);
    let forbidden = (Some("no-store".to_owned()), None);
    for request in
        ["GET /users/1", "GET /paths/1", "GET /new/../x", "HEAD /users/1", "GET /paths/1\nRange: bytes=0-0"]
    {
        assert_eq!(lifetime(&larder, request), forbidden, "{request}");
    }
    let (lifetime, tag) = lifetime(&larder, "GET /feeds/1");
    assert_eq!((lifetime.as_deref(), tag.is_some()), (Some("s-maxage=3600"), true));
    data.commit("it");
}

#[test]
fn in_doubt_a_304_of_the_backend_renews_no_lifetime() {
    let data = Data::default();
    let origin = data.origin("200 OK\nETag: \"same\"\nCDN-Cache-Control: max-age=60");
    let larder = started(&origin, IMPATIENT, "push = true");
    assert_eq!(larder.ask(HELD).status, 504);
    let response = larder.ask("GET /users/1\nIf-None-Match: \"same\"");
    let told = ["cache-control", "cdn-cache-control"].map(|name| {
        let lines = response.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.clone()).collect::<Vec<_>>().join(", ")
    });
    assert_eq!((response.status, told), (304, ["no-store", "max-age=60, no-store"].map(str::to_owned)));
    data.commit("it");
}

#[test]
fn an_answer_that_a_change_overlaps_has_no_lifetime() {
    let (gate, origin) = Origin::gated(|seen, held| {
        if seen.field("hold").is_some() {
            held.pass();
        }
        Answer::with_body("200 OK", b"0 0")
    });
    let larder = gateway(&origin, "push = true");
    let mut reader = larder.client();
    reader.send("GET /paths/1\nHold: it");
    origin.wait_for(1);
    assert_eq!(larder.ask("PUT /users/1\n\nx").status, 200);
    gate.open();
    assert_eq!(reader.receive("GET").field("cache-control"), Some("no-store"));
    assert_eq!(lifetime(&larder, "GET /paths/1").0.as_deref(), Some("s-maxage=3600"));
}

#[test]
fn a_response_that_a_change_overlapped_is_stored_again_after_it() {
    for lines in
        ["", "ETag: \"1\"\n", "ETag: \"1\"\nCDN-Cache-Control: max-age=60\n", "Cache-Control: max-age=60\n"]
    {
        for number in [0, 1] {
            let (gate, origin) = Origin::gated(move |seen, held| {
                if seen.number == number {
                    held.pass();
                }
                match seen.field("if-none-match").filter(|tag| *tag == "\"1\"") {
                    Some(_) => Answer::raw("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"),
                    None => Answer::with_body(&format!("200 OK\n{lines}X: y"), b"0 0"),
                }
            });
            let behind = gateway(&origin, "push = true");
            let front = cache(&format!("http://{}", behind.address()), "");
            // The first response overlaps, or the validation of it.
            (0..number).for_each(|_| _ = front.get("/paths/1"));
            let mut reader = front.client();
            reader.send("GET /paths/1\nCache-Control: no-cache");
            origin.wait_for(number + 1);
            assert_eq!(behind.ask("PUT /users/1\n\nx").status, 200);
            gate.open();
            assert_eq!(reader.receive("GET").text(), "0 0");
            assert!(!is_hit(&front.get("/paths/1")), "{lines}");
            assert!(is_hit(&front.get("/paths/1")), "{lines}");
        }
    }
}

#[test]
fn a_late_change_is_seen_at_once_after_either_side_gave_up() {
    for (gateway_keys, cache_keys) in [(IMPATIENT, ""), ("", IMPATIENT)] {
        let data = Data::default();
        let origin = data.origin("200 OK");
        let behind = started(&origin, gateway_keys, "push = true");
        let front = cache(&format!("http://{}", behind.address()), cache_keys);
        for target in ["/users/1", "/paths/1", "/paths/2"] {
            front.get(target);
            assert!(is_hit(&front.get(target)), "{target}");
        }
        assert_eq!(front.ask(HELD).status, 504);
        for target in ["/users/1", "/paths/1", "/paths/1"] {
            assert_eq!(shown(front.get(target).text()), (0, 0), "{target}");
        }
        data.commit("it");
        // A gateway that still waits for the backend learns of the commit from the response.
        behind.wait_for("in_flight", 0);
        for target in ["/users/1", "/paths/1"] {
            assert_eq!(shown(front.get(target).text()), (1, 0), "{target}: {gateway_keys}");
        }
    }
}

#[test]
fn a_cache_that_gives_up_doubts_the_url_without_groups_as_well() {
    let data = Data::default();
    let origin = data.origin("200 OK\nCache-Control: max-age=3600");
    let front = cache(&origin.url(), IMPATIENT);
    for target in ["/users/1", "/users/2"] {
        front.get(target);
    }
    assert_eq!(front.ask(HELD).status, 504);
    assert_eq!(shown(front.get("/users/1").text()), (0, 0));
    data.commit("it");
    assert_eq!(shown(front.get("/users/1").text()), (1, 0));
    assert!(is_hit(&front.get("/users/2")), "it has nothing to do with that");
}

#[test]
fn a_502_of_a_server_in_between_leaves_the_same_doubt() {
    let data = Data::default();
    let origin = data.origin("200 OK\nCache-Control: max-age=3600");
    let between =
        Larder::start(&format!("[[site]]\norigin = '{}'\ncache = false\n{IMPATIENT}", origin.url()));
    let front = cache(&format!("http://{}", between.address()), "");
    front.get("/users/1");
    assert_eq!(front.ask(HELD).status, 504);
    assert_eq!(shown(front.get("/users/1").text()), (0, 0));
    data.commit("it");
    assert_eq!(shown(front.get("/users/1").text()), (1, 0));
}

#[test]
fn after_the_doubt_what_is_new_is_kept_again() {
    for (gateway_keys, cache_keys) in [(IMPATIENT, ""), ("", IMPATIENT)] {
        // The guarantee requires a commit before the doubt ends, so a slow run is repeated.
        eventually("a commit within a second", || after_the_doubt(gateway_keys, cache_keys).then_some(()));
    }
}

fn after_the_doubt(gateway_keys: &str, cache_keys: &str) -> bool {
    let data = Data::default();
    let origin = data.origin("200 OK");
    let behind = started(&origin, gateway_keys, "push = true\ntag_doubt = '1s'");
    let front = cache(&format!("http://{}", behind.address()), &format!("tag_doubt = '1s'\n{cache_keys}"));
    front.get("/paths/1");
    let begun = Instant::now();
    assert_eq!(front.ask(HELD).status, 504);
    let old = shown(front.get("/paths/1").text());
    data.commit("it");
    // A gateway that still waits for the backend learns of the commit from the response.
    behind.wait_for("in_flight", 0);
    if begun.elapsed() > Duration::from_secs(1) {
        return false;
    }
    assert_eq!(old, (0, 0));
    eventually("a hit", || {
        let response = front.get("/paths/1");
        assert_eq!(shown(response.text()), (1, 0));
        is_hit(&response).then_some(())
    });
    true
}

#[test]
fn a_head_does_not_revive_what_a_change_has_invalidated() {
    let data = Data::default();
    let origin = data.origin("200 OK");
    let behind = gateway(&origin, "push = true");
    let front = cache(&format!("http://{}", behind.address()), "");
    front.get("/paths/1");
    front.ask("PUT /users/1\n\nx");
    assert_eq!(front.ask("HEAD /paths/1").status, 200);
    assert_eq!(shown(front.get("/paths/1").text()), (1, 0));
}

#[test]
fn an_unanswered_try_leaves_doubt_even_if_a_retry_succeeds() {
    let forgetful = || {
        Origin::answering(|seen| match (seen.method.as_str(), seen.number) {
            ("GET", _) => Answer::with_body("200 OK\nCache-Control: max-age=3600", b"0 0"),
            (_, 0) => Answer::default().then_close(),
            _ => Answer::with_body("200 OK", b""),
        })
    };
    let origin = forgetful();
    let larder = gateway(&origin, "retries = 1");
    assert_eq!(larder.ask("DELETE /users/1").status, 200);
    assert_eq!((origin.count(), larder.get("/users/1").field("etag")), (2, None));

    let origin = forgetful();
    let front = cache(&origin.url(), "retries = 1");
    assert_eq!(front.ask("DELETE /users/1").status, 200);
    for count in 3..5 {
        front.get("/users/1");
        assert_eq!(origin.count(), count, "each use is validated");
    }
}

#[test]
fn a_try_lost_on_an_idle_connection_leaves_doubt_despite_a_retry() {
    let forgetful = || {
        Origin::answering(|seen| match (seen.method.as_str(), seen.number) {
            ("GET", _) => Answer::with_body("200 OK\nCache-Control: max-age=3600", b"0 0"),
            (_, 1) => Answer::default().then_close(),
            _ => Answer::with_body("200 OK", b""),
        })
    };
    // With one connection, the client uses one worker and its idle connections to the origin. The site does not retry.
    let changed = |larder: &Larder, origin: &Origin| {
        let mut client = larder.client();
        for request in ["GET /feeds/1", "DELETE /users/1"] {
            assert_eq!(client.ask(request).status, 200, "{request}");
        }
        assert_eq!((origin.count(), origin.connections()), (3, 2));
    };
    let origin = forgetful();
    let larder = gateway(&origin, "retries = 0");
    changed(&larder, &origin);
    assert_eq!(larder.get("/users/1").field("etag"), None);

    let origin = forgetful();
    let front = cache(&origin.url(), "retries = 0");
    changed(&front, &origin);
    for count in 4..6 {
        front.get("/users/1");
        assert_eq!(origin.count(), count, "each use is validated");
    }
}

/// Starts a backend that holds the first DELETE at `first`, then commits it and closes the connection, and holds the
/// next DELETE at `second`.
fn cutting(first: &Gate, second: &Gate) -> Origin {
    let (first, second, version) = (first.clone(), second.clone(), AtomicU32::new(0));
    Origin::answering(move |seen| {
        if seen.method == "GET" {
            let body = format!("{} 0", version.load(Ordering::SeqCst));
            return Answer::with_body("200 OK\nCache-Control: max-age=3600", body.as_bytes());
        }
        if version.load(Ordering::SeqCst) == 0 {
            first.pass();
            version.store(1, Ordering::SeqCst);
            return Answer::default().then_close();
        }
        second.pass();
        Answer::with_body("200 OK", b"")
    })
}

#[test]
fn an_unanswered_try_begins_the_doubt_before_its_retry_ends() {
    let (first, second) = (Gate::default(), Gate::default());
    let origin = cutting(&first, &second);
    let larder = gateway(&origin, "retries = 1");
    let mut writer = larder.client();
    writer.send("DELETE /users/1");
    origin.wait_for(1);
    let old = larder.get("/users/1").field("etag").expect("a tag").to_owned();
    assert!(is_current(&larder, "/users/1", &old));
    first.open();
    origin.wait_for(3);
    let read = larder.ask(&format!("GET /users/1\nIf-None-Match: {old}"));
    assert_eq!((read.status, shown(read.text()), read.field("etag")), (200, (1, 0), None));
    second.open();
    assert_eq!(writer.receive("DELETE").status, 200);

    let (first, second) = (Gate::default(), Gate::default());
    let origin = cutting(&first, &second);
    let front = cache(&origin.url(), "retries = 1");
    front.get("/users/1");
    let mut writer = front.client();
    writer.send("DELETE /users/1");
    origin.wait_for(2);
    assert!(is_hit(&front.get("/users/1")));
    first.open();
    origin.wait_for(3);
    assert_eq!(shown(front.get("/users/1").text()), (1, 0));
    second.open();
    assert_eq!(writer.receive("DELETE").status, 200);
}
