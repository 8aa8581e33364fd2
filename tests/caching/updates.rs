//! RFC 9111 sections 3.2 and 4.3.4: an answer that confirms a stored response replaces its fields. What the response may
//! answer follows from the new ones, in whatever way they have come.

use larder_testkit::http2::Client;
use larder_testkit::{Answer, Larder, Origin, Response, Seen};

/// A way by which a stored response gets new fields.
struct Way {
    name: &'static str,
    /// Lines of the first response.
    first: &'static str,
    /// The request that the origin answers with the new fields: its method, and a line.
    method: &'static str,
    line: &'static str,
}

const WAYS: [Way; 5] = [
    Way { name: "validation", first: "Age: 100", method: "GET", line: "X: -" },
    Way { name: "condition", first: "Age: 100", method: "GET", line: "If-None-Match: \"a\"" },
    Way { name: "head", first: "Age: 100", method: "HEAD", line: "X: -" },
    Way {
        name: "background",
        first: "Age: 100\nCache-Control: stale-while-revalidate=999",
        method: "GET",
        line: "X: -",
    },
    Way { name: "reload", first: "X: -", method: "GET", line: "Cache-Control: no-cache" },
];

/// An origin whose first response to a URL is confirmed with new fields.
struct Updated {
    origin: Origin,
    larder: Larder,
}

impl Updated {
    fn new(old: &'static str, new: &'static str) -> Self {
        let answer = move |seen: &Seen| {
            let way = WAYS.iter().find(|way| seen.target[1..].starts_with(way.name)).expect("a way");
            let first = way.first;
            match (seen.method.as_str(), seen.field("if-none-match"), seen.field("begin")) {
                ("HEAD", ..) => format!("200 OK\nContent-Length: 5\nETag: \"a\"\n{new}"),
                (_, Some(_), _) => format!("304 Not Modified\nETag: \"a\"\n{new}"),
                (.., Some(_)) => {
                    format!("200 OK\nCache-Control: max-age=100\n{first}\nETag: \"a\"\n{old}\n\nfirst")
                }
                _ => "200 OK\nCache-Control: no-store\n\nanother".to_owned(),
            }
        };
        let origin = Origin::by(answer);
        let larder = Larder::before(&origin);
        Self { origin, larder }
    }

    /// Stores the first response, and updates it for a client with these fields.
    fn update(&self, way: &Way, fields: &str) -> Response {
        let before = self.origin.count();
        self.larder.ask(&format!("GET /{}\nBegin: 1\nX-V: 1\nX-W: 1", way.name));
        let reply = self.larder.ask(&format!("{} /{}\n{}\n{fields}", way.method, way.name, way.line));
        self.origin.wait_for(before + 2);
        self.larder.settle();
        reply
    }

    /// Whether the first response answers a client with these fields without the origin.
    fn answers(&self, way: &Way, query: &str, fields: &str) -> bool {
        let ask = format!("GET /{}{query}\nCache-Control: only-if-cached\n{fields}", way.name);
        let response = self.larder.ask(&ask);
        response.cache().starts_with("hit") && response.text() == "first"
    }
}

/// The fields of the first response and of its update, those of the client that asked, and those of others with whether
/// the response answers them.
type Change = (&'static str, &'static str, &'static str, &'static [(&'static str, bool)]);

#[test]
fn section_4_1_new_selecting_fields_separate_requests_at_once() {
    const FRESH: &str = "Cache-Control: max-age=999";
    let table: [Change; 10] = [
        ("X: -", "Vary: X-V", "X-V: 2", &[("X-V: 2", true), ("X-V: 3", false), ("X-V: 1", false)]),
        ("X: -", "Vary: X-V", "X: -", &[("X: 2", true), ("X-V: 3", false)]),
        (
            "Vary: X-V",
            "Vary: X-V, X-W",
            "X-V: 1\nX-W: 2",
            &[("X-V: 1\nX-W: 2", true), ("X-V: 1\nX-W: 3", false), ("X-V: 1\nX-W: 1", false)],
        ),
        ("X: -", "Vary: Cookie", "Cookie: user=2", &[("Cookie: user=2", true), ("X: -", false)]),
        (
            "X: -",
            "Vary: Origin\nAccess-Control-Allow-Origin: http://a.example",
            "Origin: http://a.example",
            &[("Origin: http://a.example", true), ("Origin: http://b.example", false)],
        ),
        ("Vary: X-V, X-W", "Vary: X-V", "X-V: 1\nX-W: 1", &[("X-V: 1", true), ("X-W: 1", false)]),
        ("Vary: X-V", "Vary: ", "X-V: 1", &[("X-V: 2", true)]),
        ("Vary: X-V", "X: new", "X-V: 1", &[("X-V: 1", true), ("X-V: 2", false)]),
        ("Vary: X-V", "Vary: *", "X-V: 1", &[("X-V: 1", false)]),
        ("X: -", "Vary: X-Forwarded-For", "X-V: 1", &[("X-V: 1", false)]),
    ];
    for (old, new, asked, others) in table {
        let updated = Updated::new(old, format!("{FRESH}\n{new}").leak());
        for way in &WAYS {
            updated.update(way, asked);
            for (fields, expected) in others {
                let found = updated.answers(way, "", fields);
                assert_eq!(found, *expected, "{}: {old}, then {new}: {fields}", way.name);
            }
        }
    }
}

#[test]
fn section_3_2_new_directives_and_queries_decide_about_reuse() {
    let table = [
        ("X: -", "Cache-Control: max-age=999", "", true),
        ("X: -", "Cache-Control: private, max-age=999", "", false),
        ("X: -", "Cache-Control: no-store", "", false),
        ("X: -", "Cache-Control: no-cache", "", false),
        ("X: -", "Cache-Control: max-age=999\nAge: 1000", "", false),
        ("X: -", "Cache-Control: max-age=999\nCDN-Cache-Control: no-store", "", false),
        ("CDN-Cache-Control: no-cache", "CDN-Cache-Control: max-age=999", "", true),
        ("X: -", "Cache-Control: max-age=999\nNo-Vary-Search: params=(\"a\")", "?a=1", true),
        (
            "No-Vary-Search: params=(\"a\")",
            "Cache-Control: max-age=999\nNo-Vary-Search: params=(\"b\")",
            "?a=1",
            false,
        ),
        ("Set-Cookie: a=b", "Cache-Control: max-age=0\nExpires: 0", "", false),
    ];
    for (old, new, query, expected) in table {
        let updated = Updated::new(old, new);
        for way in &WAYS {
            updated.update(way, "X-V: 1");
            assert_eq!(updated.answers(way, query, "X-V: 1"), expected, "{}: {old}, then {new}", way.name);
        }
    }
}

#[test]
fn rfc_9875_purges_reach_the_groups_and_tags_of_the_last_answer() {
    for field in ["Cache-Groups", "Surrogate-Key", "Cache-Tag", "xkey"] {
        let (quote, kind) =
            if field == "Cache-Groups" { ("\"", "host=site.test&group") } else { ("", "tag") };
        let old = format!("{field}: {quote}old{quote}").leak();
        let new = format!("Cache-Control: max-age=999\n{field}: {quote}new{quote}").leak();
        let updated = Updated::new(old, new);
        for way in &WAYS {
            updated.update(way, "X-V: 1");
            for (name, expected) in [("old", true), ("new", false)] {
                updated.larder.ask_admin(&format!("POST /purge?{kind}={name}&hard\nLarder-Admin: 1"));
                let found = updated.answers(way, "", "X-V: 1");
                assert_eq!(found, expected, "{}: {field}, purge of {name}", way.name);
            }
        }
    }
}

#[test]
fn section_4_3_4_a_304_that_forbids_storing_reaches_the_client() {
    for directive in ["private", "no-store", "private=\"x-user\", no-store"] {
        let new = format!("Cache-Control: {directive}\nSet-Cookie: user=2\nX-User: 2\nX-Old: new").leak();
        let updated = Updated::new("X-Old: old\nX-Kept: yes", new);
        for way in WAYS.iter().filter(|way| way.name != "background") {
            let reply = updated.update(way, "X-V: 1");
            let expected = if way.name == "condition" { 304 } else { 200 };
            assert_eq!(
                (reply.status, reply.field("cache-control")),
                (expected, Some(directive)),
                "{}",
                way.name
            );
            assert_eq!(reply.field("set-cookie"), Some("user=2"), "{}: {directive}", way.name);
            if ["validation", "reload"].contains(&way.name) {
                assert_eq!((reply.text(), reply.field("x-kept")), ("first", Some("yes")), "{}", way.name);
                assert_eq!([reply.field("x-user"), reply.field("x-old")], [Some("2"), Some("new")]);
            }
            assert!(!updated.answers(way, "", "X-V: 1"), "{}: {directive}", way.name);
        }
    }
}

#[test]
fn section_3_1_private_fields_of_a_304_reach_only_its_client() {
    let updated = Updated::new("X: -", "Cache-Control: max-age=999, private=\"x-user\"\nX-User: 2");
    let reply = updated.update(&WAYS[0], "X-V: 1");
    assert_eq!((reply.text(), reply.field("x-user")), ("first", Some("2")));
    let other = updated.larder.get("/validation");
    assert_eq!((other.text(), other.field("x-user"), other.is_hit()), ("first", None, true));
}

#[test]
fn section_4_1_over_http2_new_selecting_fields_separate_requests_too() {
    let updated = Updated::new("X: -", "Cache-Control: max-age=999\nVary: X-V");
    let mut client = Client::new(&updated.larder);
    let mut ask = |stream, fields: &[(&str, &str)]| {
        client.ask(stream, "GET", "/validation", fields);
        String::from_utf8(client.response(stream).body).expect("text")
    };
    assert_eq!(ask(1, &[("begin", "1"), ("x-v", "1")]), "first");
    updated.larder.settle();
    for (stream, value, expected) in
        [(3, "2", "first"), (5, "3", "another"), (7, "1", "another"), (9, "2", "first")]
    {
        assert_eq!(ask(stream, &[("x-v", value)]), expected, "{value}");
    }
}

#[test]
fn section_4_3_4_a_date_does_not_confirm_newly_varying_responses() {
    const DATED: &str = "Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\nVary: ";
    let origin = Origin::by(|seen| match (seen.number, seen.field("if-modified-since")) {
        (0, _) => format!("200 OK\nCache-Control: max-age=100\nAge: 100\n{DATED}\n\nanonymous"),
        (_, Some(_)) => format!("304 Not Modified\nCache-Control: max-age=100\n{DATED}Cookie"),
        _ => format!("200 OK\nCache-Control: max-age=100\n{DATED}Cookie\n\nof user 2"),
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    for expected in ["of user 2", "of user 2"] {
        assert_eq!(larder.ask("GET /\nCookie: user=2").text(), expected);
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn section_4_3_4_a_304_too_long_to_store_fetches_all() {
    let long = "x".repeat(40_000);
    let origin = Origin::by(move |seen| match seen.field("if-none-match") {
        Some(_) => format!("304 Not Modified\nETag: \"a\"\nCache-Control: max-age=100\nX-New: {long}"),
        None => format!("200 OK\nETag: \"a\"\nCache-Control: max-age=100\nAge: 100\nX-Old: {long}\n\nwhole"),
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    for asked in [3, 5] {
        let answer = larder.get("/");
        assert_eq!((answer.status, answer.text(), origin.count()), (200, "whole", asked));
    }
    assert_eq!(larder.ask("GET /\nIf-None-Match: \"a\"").status, 304);
}

#[test]
fn rfc_9110_section_15_4_5_a_304_without_condition_confirms_nothing() {
    for asked in ["GET /", "GET /\nIf-None-Match: \"mine\"", "HEAD /"] {
        let origin = Origin::by(|seen| match seen.number {
            0 => "200 OK\nCache-Control: max-age=100, stale-if-error=0\nAge: 100\n\nbody".to_owned(),
            _ => "304 Not Modified\nCache-Control: max-age=999".to_owned(),
        });
        let larder = Larder::before(&origin);
        larder.get("/");
        let expected = if asked.contains("None") { 304 } else { 502 };
        assert_eq!(larder.ask(asked).status, expected, "{asked}");
        assert_eq!(larder.ask("GET /\nCache-Control: only-if-cached").status, 504, "{asked}");
    }
}

#[test]
fn rfc_9110_section_9_3_3_stored_post_responses_obey_their_vary() {
    for (vary, expected) in [("X-V", true), ("X-Forwarded-For", false), ("*", false)] {
        let lines = "200 OK\nCache-Control: max-age=100\nContent-Location: /";
        let origin = Origin::always(format!("{lines}\nVary: {vary}\n\nfirst").leak());
        let larder = Larder::with_site(&[&origin], "store_post = true");
        larder.ask("POST /\nX-V: 1\n\nnew");
        let ask = |value| larder.ask(&format!("GET /\nCache-Control: only-if-cached\nX-V: {value}")).is_hit();
        assert_eq!([ask(1), ask(2)], [expected, false], "{vary}");
    }
}

#[test]
fn section_3_4_a_joined_response_uses_the_vary_of_its_remainder() {
    const LINES: &str = "Cache-Control: max-age=100\r\nETag: \"a\"";
    let origin = Origin::answering(|seen| match (seen.number, seen.field("range")) {
        (0, _) => {
            Answer::raw(format!("HTTP/1.1 200 OK\r\n{LINES}\r\nContent-Length: 5\r\n\r\nfi")).then_close()
        }
        (_, Some(_)) => Answer::raw(format!(
            "HTTP/1.1 206 Part\r\n{LINES}\r\nVary: X-V\r\nContent-Range: bytes 2-4/5\r\nContent-Length: 3\r\n\r\nrst"
        )),
        _ => Answer::with_body("200 OK\nCache-Control: no-store", b"another"),
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("GET /\nX-V: 1");
    client.rest();
    larder.settle();
    for (value, expected) in [(2, "first"), (3, "another"), (1, "another"), (2, "first")] {
        assert_eq!(larder.ask(&format!("GET /\nX-V: {value}")).text(), expected, "{value}");
    }
}
