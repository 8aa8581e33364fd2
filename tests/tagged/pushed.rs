//! A gateway that sends groups and invalidations to caches (RFC 9875).

use std::sync::atomic::{AtomicU32, Ordering};

use larder_testkit::Origin;

use crate::{cache, gateway};

#[test]
fn answers_say_where_they_belong_and_changes_what_they_spoil() {
    let origin = Origin::by(|seen| match seen.method.as_str() {
        "GET" | "HEAD" => "200 OK\n\nbody".to_owned(),
        _ => "500 Oops".to_owned(),
    });
    let larder = gateway(&origin, "push = true\npush_lifetime = '1h'");
    let response = larder.get("/users/1");
    assert_eq!(
        (response.field("cache-groups"), response.field("cache-control")),
        (Some("\"users\", \"*\""), Some("s-maxage=3600"))
    );
    assert_eq!(larder.ask("HEAD /feeds").field("cache-groups"), Some("\"feeds\", \"*\""));
    let tag = response.field("etag").expect("a tag");
    let unchanged = larder.ask(&format!("GET /users/1\nIf-None-Match: {tag}"));
    assert_eq!((unchanged.status, unchanged.field("cache-groups")), (304, Some("\"users\", \"*\"")));
    assert_eq!(
        larder.ask("POST /users\n\nx").field("cache-group-invalidation"),
        Some("\"users\", \"paths\"")
    );
    assert_eq!(larder.ask("POST /x/../y\n\nx").field("cache-group-invalidation"), Some("\"*\""));
}

#[test]
fn a_change_that_got_no_answer_spoils_as_much() {
    let origin = Origin::always("200 OK");
    let larder = gateway(&origin, "push = true");
    larder.get("/");
    origin.die();
    let response = larder.ask("PUT /users/1\n\nx");
    assert_eq!(
        (response.status, response.field("cache-group-invalidation")),
        (502, Some("\"users\", \"paths\""))
    );
}

#[test]
fn a_gateway_that_pushes_keeps_the_backends_own_fields() {
    let answer = "200 OK\nCache-Groups: \"theirs\"\nCache-Control: max-age=5\nETag: \"1\"";
    let response = gateway(&Origin::always(answer), "push = true").get("/users");
    let lines = |name: &str| {
        let lines = response.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(lines("cache-groups"), ["\"theirs\"", "\"users\", \"*\""]);
    assert_eq!(lines("cache-control"), ["max-age=5"]);
}

#[test]
fn without_push_nothing_is_told() {
    let larder = gateway(&Origin::always("200 OK"), "");
    assert_eq!(larder.get("/users").field("cache-groups"), None);
    assert_eq!(larder.ask("POST /users\n\nx").field("cache-group-invalidation"), None);
}

#[test]
fn a_cache_in_front_keeps_answers_until_it_is_told() {
    let changes = AtomicU32::new(0);
    let origin = Origin::by(move |seen| match seen.method.as_str() {
        "GET" => format!("200 OK\n\nversion {}", changes.load(Ordering::SeqCst)),
        _ => format!("204 No Content\nX-Version: {}", changes.fetch_add(1, Ordering::SeqCst)),
    });
    let behind = gateway(&origin, "push = true");
    let front = cache(&format!("http://{}", behind.address()), "");
    for (request, text, asked) in [
        ("GET /paths/1", "version 0", 1),
        ("GET /paths/1", "version 0", 1),
        ("POST /feeds\n\nx", "", 2),
        ("GET /paths/1", "version 0", 2),
        ("POST /users\n\nx", "", 3),
        ("GET /paths/1", "version 2", 4),
        ("GET /paths/1", "version 2", 4),
        ("DELETE /x/../y", "", 5),
        ("GET /paths/1", "version 3", 6),
        ("GET /paths/1\nCookie: me", "version 3", 7),
    ] {
        assert_eq!((front.ask(request).text(), origin.count()), (text, asked), "{request}");
    }
}
