//! `why` predicts the outcome of a request; then the request is sent, and its outcome is the predicted one.

use larder_testkit::{Answer, Larder, Origin, Seen, eventually, site};
use serde_json::{Value, json};

use super::json;

const MODIFIED: &str = "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT";

fn answer(seen: &Seen) -> String {
    let head = match seen.target.as_str() {
        "/fresh" => "Cache-Control: max-age=100".to_owned(),
        "/stale" => "Cache-Control: max-age=100\nAge: 150\nETag: \"1\"".to_owned(),
        "/refreshed" => "Cache-Control: max-age=1, stale-while-revalidate=1000\nAge: 10".to_owned(),
        "/no-store" => "Cache-Control: no-store".to_owned(),
        "/private" => "Cache-Control: private, max-age=100".to_owned(),
        "/cookie" => format!("Set-Cookie: secret=1\n{MODIFIED}"),
        "/varies" => "Cache-Control: max-age=100\nVary: V".to_owned(),
        "/any" => "Cache-Control: max-age=100\nVary: *".to_owned(),
        "/nothing" => "Server: x".to_owned(),
        _ => MODIFIED.to_owned(),
    };
    format!("200 OK\n{head}\n\nbody")
}

/// Returns the response to `GET /why` for a path of the site, with these fields.
fn why(larder: &Larder, method: &str, path: &str, fields: &[&str]) -> Value {
    let url = format!("http://site.test{path}");
    let mut words = vec!["why", "--json", "--method", method, &url];
    fields.iter().for_each(|field| words.extend(["-H", field]));
    json(larder, &words)
}

/// The path, whether it was requested before, the method and the fields; then the outcome, the reason, and the reason
/// that the origin's last response is not stored, if it is known and was not stored.
type Case = (
    &'static str,
    bool,
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
    Option<&'static str>,
);

#[test]
fn a_url_may_have_letters_that_clients_encode() {
    let origin = Origin::by(answer);
    let larder = Larder::before(&origin);
    assert_eq!(why(&larder, "GET", "/fresh?\u{e9}", &[])["decision"]["outcome"], "miss");
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::before(&origin);
    larder.get("/caf%C3%A9");
    let said = why(&larder, "GET", "/caf\u{e9}", &[]);
    assert_eq!(
        (&said["decision"]["outcome"], &said["url"]),
        (&json!("hit"), &json!("http://site.test/caf%C3%A9"))
    );
}

#[test]
fn an_explanation_names_the_outcome_that_the_request_gets() {
    let origin = Origin::by(answer);
    let larder = Larder::before(&origin);
    let table: &[Case] = &[
        ("/unknown", false, "GET", &[], "miss", "absent", None),
        ("/fresh", true, "GET", &[], "hit", "fresh", None),
        ("/fresh", true, "HEAD", &[], "hit", "fresh", None),
        ("/fresh", true, "GET", &["Range: bytes=0-1"], "hit", "fresh", None),
        ("/fresh", true, "GET", &["Cache-Control: no-cache"], "miss", "request-no-cache", None),
        ("/fresh", true, "GET", &["Authorization: Basic eDp5"], "hit", "fresh", Some("authorization")),
        ("/fresh", true, "POST", &[], "pass", "method", None),
        ("/fresh", true, "GET", &["Connection: upgrade", "Upgrade: websocket"], "pass", "bypass", None),
        ("/stale", true, "GET", &[], "miss", "expired", None),
        ("/stale", true, "GET", &["Cache-Control: max-stale"], "stale-hit", "max-stale", None),
        ("/refreshed", true, "GET", &[], "stale-hit", "stale-while-revalidate", None),
        ("/no-store", true, "GET", &[], "miss", "absent", Some("response-no-store")),
        ("/private", true, "GET", &[], "miss", "absent", Some("private")),
        ("/cookie", true, "GET", &[], "miss", "absent", Some("set-cookie")),
        ("/varies", true, "GET", &["V: 2"], "miss", "variant-absent", None),
        ("/any", true, "GET", &[], "miss", "absent", Some("vary-any")),
        ("/nothing", true, "GET", &[], "miss", "absent", Some("no-freshness")),
        ("/guessed", true, "GET", &[], "hit", "fresh", None),
        ("/missing", false, "GET", &["Cache-Control: only-if-cached"], "failed", "only-if-cached", None),
    ];
    for (path, known, method, fields, outcome, reason, refused) in table {
        if *known {
            larder.get(path);
        }
        let said = why(&larder, method, path, fields);
        let shown = format!("{method} {path} {fields:?}: {said:#}");
        assert_eq!(
            (&said["decision"]["outcome"], &said["decision"]["reason"]),
            (&json!(outcome), &json!(reason)),
            "{shown}"
        );
        assert_eq!(said["answer"]["why_not"]["reason"].as_str(), *refused, "{shown}");
        let asks = matches!(*outcome, "miss" | "pass");
        assert_eq!(said["decision"]["asks_origin"], asks, "{shown}");
        if fields.iter().any(|field| field.starts_with("Upgrade")) {
            continue;
        }
        let lines = fields.iter().map(|field| format!("\n{field}")).collect::<String>();
        let asked_before = origin.count();
        let really = larder.ask(&format!("{method} {path}{lines}"));
        if *reason != "stale-while-revalidate" {
            assert_eq!(origin.count() > asked_before, asks, "{shown}");
        }
        assert_eq!(really.status == 504, *outcome == "failed", "{shown}");
    }
}

#[test]
fn an_explanation_names_the_stale_response_for_a_failing_origin() {
    let stale = "200 OK\nCache-Control: max-age=1, stale-if-error=1000\nAge: 10\nETag: \"1\"";
    let origin = Origin::always(stale);
    let larder = Larder::before(&origin);
    larder.get("/page");
    let said = why(&larder, "GET", "/page", &[]);
    assert_eq!((&said["decision"]["reason"], said.get("failing")), (&json!("expired"), None));
    origin.die();
    assert!(larder.get("/page").cache().contains("stale-if-error"));
    let said = why(&larder, "GET", "/page", &[]);
    assert_eq!(
        (&said["decision"]["outcome"], &said["decision"]["reason"], &said["decision"]["asks_origin"]),
        (&json!("stale-hit"), &json!("stale-if-error"), &json!(true))
    );
    assert_eq!(said["failing"], json!([origin.url()]));
    assert_eq!(why(&larder, "GET", "/other", &[])["decision"]["reason"], "absent");
}

#[test]
fn explaining_changes_no_state_and_sends_no_request() {
    let origin = Origin::by(answer);
    let larder = Larder::before(&origin);
    larder.get("/fresh");
    for path in ["/fresh", "/unknown"] {
        why(&larder, "GET", path, &[]);
    }
    assert_eq!((origin.count(), larder.stat("requests"), larder.stat("objects")), (1, 1, 1));
}

#[test]
fn a_stored_response_is_shown_with_the_source_of_its_lifetime() {
    let origin = Origin::by(answer);
    let larder = Larder::with_site(&[&origin], "name = 'shop'");
    for (path, lifetime, from) in [("/fresh", Some(100), "max-age"), ("/guessed", None, "Last-Modified")] {
        larder.get(path);
        let said = why(&larder, "GET", path, &[]);
        let stored = &said["stored"];
        assert_eq!(
            (&stored["tier"], &stored["bytes"], &stored["lifetime_from"]),
            (&json!("memory"), &json!(4), &json!(from))
        );
        assert!(lifetime.is_none_or(|lifetime| stored["lifetime"] == lifetime), "{said}");
        assert_eq!(stored["fresh"], true);
    }
    larder.ask("GET /varies\nV: 1");
    let said = why(&larder, "GET", "/varies", &["V: 1"]);
    assert_eq!((&said["stored"]["vary"], &said["site"]), (&json!({"v": "1"}), &json!("shop")));
    assert_eq!((&said["origins"], &said["key"]), (&json!([origin.url()]), &json!("http://site.test/varies")));
}

#[test]
fn why_says_that_only_a_rule_lets_a_response_be_stored() {
    for (path, rule, refused) in [
        ("/nothing", "ttl = '1h'", "no-freshness"),
        ("/nothing", "ttl_default = '1h'", "no-freshness"),
        ("/nothing", "match = { status = 200 }\nttl = '1h'", "no-freshness"),
        ("/private", "ignore = ['private']", "private"),
    ] {
        let larder = Larder::with_site(&[&Origin::by(answer)], &format!("[[site.rule]]\n{rule}"));
        larder.get(path);
        let said = why(&larder, "GET", path, &[]);
        assert_eq!(
            (&said["decision"]["outcome"], &said["stored"]["only_by_rules"]),
            (&json!("hit"), &json!(true))
        );
        let without = &said["without_rules"];
        assert_eq!((&without["outcome"], &without["reason"]), (&json!("miss"), &json!(refused)), "{rule}");
    }
    let larder = Larder::with_site(&[&Origin::by(answer)], "[[site.rule]]\nttl = '1h'");
    larder.get("/fresh");
    let said = why(&larder, "GET", "/fresh", &[]);
    assert_eq!(
        (said["stored"].get("only_by_rules"), &said["without_rules"]["outcome"]),
        (None, &json!("hit"))
    );
}

#[test]
fn the_remedy_in_why_names_lifetimes_by_rules_for_either_role() {
    let origin = Origin::by(answer);
    let larder = Larder::start(&format!("[forward]\nallow_private = true\n{}", site(&[&origin], "")));
    let url = format!("{}/nothing", origin.url());
    larder_testkit::Client::to(larder.forward).ask(&format!("GET {url}\nHost: {}", origin.address));
    larder.get("/nothing");
    for (url, table) in [(&*url, "[[forward.rule]]"), ("http://site.test/nothing", "[[site.rule]]")] {
        let said = json(&larder, &["why", "--json", url]);
        let help = said["answer"]["why_not"]["help"].as_str().unwrap_or_default();
        assert!(
            help.contains(&format!("set ttl_default in a {table}")) && help.contains("max-age"),
            "{said:#}"
        );
    }
}

#[test]
fn stored_is_not_claimed_where_the_admission_filter_refuses() {
    let origin = Origin::answering(|seen| match seen.target.as_str() {
        "/small" => Answer::with_body("200 OK\nCache-Control: max-age=60", b"x"),
        "/large" => Answer::with_body("200 OK\nCache-Control: max-age=60", &[b'x'; 9_000]),
        _ => Answer::with_body("200 OK\nCache-Control: max-age=60", &vec![b'x'; 9_000_000]),
    });
    let larder = Larder::with(&origin, "[memory]\npolicy = 'size:max=4KiB+lru'");
    assert_eq!(larder.get("/small").cache(), "fwd=uri-miss; fwd-status=200; stored");
    assert_eq!(larder.get("/large").cache(), "fwd=miss; fwd-status=200; detail=not-admitted");
    // The filter decides after the head is sent.
    assert_eq!(larder.get("/huge").cache(), "fwd=uri-miss; fwd-status=200");
    for path in ["/large", "/huge"] {
        let said = why(&larder, "GET", path, &[]);
        let refused = &said["answer"]["why_not"];
        assert_eq!(refused["reason"], "not-admitted", "{said:#}");
        assert!(
            refused["explanation"].as_str().is_some_and(|text| text.contains("filter 'size'")),
            "{said:#}"
        );
    }
}

#[test]
fn an_explanation_finds_a_response_that_only_the_disk_has() {
    let (directory, origin) = (tempfile::tempdir().expect("a directory"), Origin::by(answer));
    let disk = format!("[[disk]]\npath = '{}'\n[memory]\nentries = 1\n", directory.path().display());
    let larder = Larder::start(&format!("{disk}{}", site(&[&origin], "")));
    larder.get("/fresh");
    larder.get("/guessed");
    eventually("both on the disk", || (larder.stats()["disks"][0]["bytes_queued"] == 0).then_some(()));
    let tier = |path| why(&larder, "GET", path, &[])["stored"]["tier"].clone();
    let tiers = eventually("one of them on the disk only", || {
        let tiers = [tier("/fresh"), tier("/guessed")];
        tiers.contains(&json!("disk")).then_some(tiers)
    });
    assert!(!tiers.contains(&Value::Null), "{tiers:?}");
}

#[test]
fn a_forward_proxy_explains_itself_too() {
    let origin = Origin::by(answer);
    let larder = Larder::start("[forward]\nallow_private = true");
    let url = format!("{}/fresh", origin.url());
    larder_testkit::Client::to(larder.forward).ask(&format!("GET {url}\nHost: {}", origin.address));
    larder.settle();
    let said = json(&larder, &["why", "--json", &url]);
    assert_eq!(
        (&said["decision"]["outcome"], &said["role"], &said["site"]),
        (&json!("hit"), &json!("forward"), &json!("forward"))
    );
    let guarded = Larder::start("");
    let said = json(&guarded, &["why", "--json", "http://169.254.169.254/latest"]);
    assert_eq!(
        (&said["decision"]["outcome"], &said["decision"]["reason"]),
        (&json!("refused"), &json!("origin-forbidden"))
    );
}

#[test]
fn a_request_that_the_proxy_would_refuse_is_explained_as_refused() {
    let origin = Origin::by(answer);
    let larder = Larder::with_site(&[&origin], "hosts = ['site.test']");
    let decision = |words: &[&str]| {
        json(&larder, &[&["why", "--json", "--role", "reverse"], words].concat())["decision"].clone()
    };
    let stranger = decision(&["http://other.test/"]);
    assert_eq!(
        (&stranger["outcome"], &stranger["explanation"]),
        (&json!("refused"), &json!("no site is configured for this host"))
    );
    let twice = decision(&["http://site.test/", "-H", "Content-Length: 1", "-H", "Content-Length: 2"]);
    assert_eq!(twice["reason"], "refused");
    let named = json(&larder, &["why", "--json", "http://127.0.0.1:8080/fresh", "-H", "Host: site.test"]);
    assert_eq!(named["key"], "http://site.test/fresh");
}

#[test]
fn an_explanation_says_that_no_listener_serves_the_request() {
    let origin = Origin::by(answer);
    let larder = Larder::before(&origin);
    let said = super::printed(&larder, &["why", "https://site.test/fresh", "--role", "reverse"]);
    for line in [
        "decision  refused: no listener of a site serves https: set reverse.listen_tls and a [[tls]], or ask about http:// ",
        "origin    not asked\n",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let trusting = Larder::with(&origin, "trust = ['127.0.0.1']");
    let said = super::printed(&trusting, &["why", "https://site.test/fresh", "--role", "reverse"]);
    assert!(said.contains("decision     miss: "), "a proxy in trust may ask: {said}");
}

#[test]
fn with_a_watcher_the_last_requests_are_shown() {
    let origin = Origin::by(answer);
    let larder = Larder::before(&origin);
    let mut log = super::Events::of(&larder, "/log");
    for _ in 0..2 {
        larder.get("/fresh");
        log.next();
    }
    let said = why(&larder, "GET", "/fresh", &[]);
    let last = said["last"].as_array().expect("a list");
    let told: Vec<_> = last.iter().map(|ended| ended["outcome"].as_str().unwrap_or_default()).collect();
    assert_eq!(told, ["hit", "miss"], "{said}");
    assert_eq!([&last[0]["http_version"], &last[1]["http_version"]], ["1.1", "1.1"], "{said}");
    assert_eq!(why(&larder, "GET", "/other", &[])["last"], json!([]));
}

#[test]
fn without_a_watcher_the_last_requests_come_from_the_statistics() {
    let (origin, folder) = (Origin::by(answer), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("statistics.db");
    let larder = Larder::with(&origin, &format!("[stats]\nurl = 'sqlite:{}'", file.display()));
    larder.get("/fresh");
    larder.get("/fresh");
    eventually("both requests", || {
        let said = why(&larder, "GET", "/fresh", &[]);
        let told: Vec<_> = said["last"].as_array()?.iter().map(|ended| ended["reason"].clone()).collect();
        (told == ["fresh", "absent"]).then_some(())
    });
    assert_eq!(why(&larder, "GET", "/other", &[])["last"], json!([]));
}

#[test]
fn people_read_it_in_lines() {
    let origin = Origin::by(answer);
    let larder = Larder::before(&origin);
    larder.get("/cookie");
    let said = super::printed(&larder, &["why", "http://site.test/cookie"]);
    for line in [
        "request      GET http://site.test/cookie\n",
        "decision     miss: nothing is stored under this URI (absent, RFC 9111 2)\n",
        "stored       nothing\n",
        "             set-cookie: ...\n",
        "storing      no: the response sets a cookie and has no lifetime of its own (set-cookie, RFC 6265 4.1)\n",
        "what helps   set no cookie with it, ",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    assert!(!said.contains("secret"), "{said}");
}
