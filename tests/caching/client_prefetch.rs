//! Prefetches by clients (`Sec-Purpose`): answered, or declined if no stored response can be used; they do not count as
//! popularity.

use larder_testkit::{Larder, Origin, eventually, site};
use serde_json::Value;

const CACHED_ONLY: &str = "client_prefetch = 'cached-only'";
const PREFETCH: &str = "Sec-Purpose: prefetch";

fn figure(larder: &Larder, name: &str) -> u64 {
    larder.stats()["refreshes_ahead"][name].as_u64().expect("a number")
}

#[test]
fn by_default_the_origin_is_asked_and_told() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let larder = Larder::before(&origin);
    let first = larder.ask(&format!("GET /a\n{PREFETCH};prerender"));
    assert_eq!((first.status, first.text()), (200, "x"));
    assert_eq!(origin.last().field("sec-purpose"), Some("prefetch;prerender"));
    assert!(larder.get("/a").is_hit(), "it is stored for all");
    larder.wait_for("client_prefetches", 1);
}

#[test]
fn cached_only_declines_what_nothing_stored_answers() {
    let origin = Origin::by(|seen| match seen.target.as_str() {
        "/stale" => {
            "200 OK\nCache-Control: max-age=1, stale-while-revalidate=100\nAge: 5\nETag: \"1\"\n\nold"
                .to_owned()
        }
        "/expired" => "200 OK\nCache-Control: max-age=1\nAge: 5\nETag: \"1\"\n\nold".to_owned(),
        _ => "200 OK\nCache-Control: max-age=100\n\nx".to_owned(),
    });
    let rule = "[[site.rule]]\nmatch = { path = '/asks' }\nclient_prefetch = 'serve'\n\
                [[site.rule]]\nmatch = { path = '/uncached' }\ncache = false\n";
    let larder = Larder::start(&site(&[&origin], &format!("{CACHED_ONLY}\n{rule}")));
    for request in ["GET /a", "HEAD /a", "GET /uncached"] {
        for field in [PREFETCH, "Purpose: prefetch", "sec-purpose: prefetch;prerender"] {
            let answer = larder.ask(&format!("{request}\n{field}"));
            assert_eq!(
                (answer.status, answer.cache().as_str()),
                (503, "detail=prefetch-not-stored"),
                "{request}"
            );
        }
    }
    assert_eq!(origin.count(), 0);
    assert_eq!((larder.get("/a").status, larder.ask("GET /asks\nSec-Purpose: prefetch").status), (200, 200));
    let asked = origin.count();
    assert!(larder.ask(&format!("GET /a\n{PREFETCH}")).is_hit());
    for path in ["/stale", "/expired"] {
        larder.get(path);
    }
    let stale = larder.ask(&format!("GET /stale\n{PREFETCH}"));
    assert_eq!((stale.status, stale.cache().as_str()), (200, "hit; detail=stale-while-revalidate"));
    assert_eq!(larder.ask(&format!("GET /expired\n{PREFETCH}")).status, 503);
    assert_eq!(origin.count(), asked + 2, "none of them asked the origin");
    assert_eq!(
        larder.ask(&format!("POST /a\n{PREFETCH}\n\nx")).status,
        200,
        "only GET and HEAD are prefetches"
    );
    larder.wait_for("client_prefetches", 14);
    assert_eq!(larder.stats()["reasons"]["prefetch-not-stored"], 10);
    let metrics = larder.ask_admin("GET /metrics").text().to_owned();
    assert!(metrics.contains("larder_client_prefetches_total{site=\"site1\"} 14\n"), "{metrics}");
}

#[test]
fn prefetches_make_nothing_popular() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let larder = Larder::start(&site(&[&origin], "refresh_ahead = '100%'"));
    larder.get("/a");
    for _ in 0..5 {
        assert!(larder.ask(&format!("GET /a\n{PREFETCH}")).is_hit());
    }
    assert_eq!((origin.count(), figure(&larder, "started")), (1, 0));
    let objects = larder.ask_admin("GET /objects").json();
    assert_eq!(objects["objects"][0]["hits"], 0, "{objects}");
    larder.get("/a");
    larder.get("/a");
    origin.wait_for(2);
}

#[test]
fn a_refresh_caused_by_a_prefetch_carries_no_prefetch_field() {
    let keys = "stale_while_revalidate = '1h'";
    let origin = Origin::always("200 OK\nCache-Control: max-age=1\nAge: 5\nETag: \"1\"\n\nx");
    let larder = Larder::start(&site(&[&origin], keys));
    larder.get("/a");
    assert_eq!(larder.ask(&format!("GET /a\n{PREFETCH}\nPurpose: prefetch")).status, 200);
    origin.wait_for(2);
    assert_eq!((origin.last().field("sec-purpose"), origin.last().field("purpose")), (None, None));
}

#[test]
fn logs_say_what_a_request_was_for() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("access.log");
    let log = format!("access_log = 'json'\naccess_log_file = '{}'\n", file.display());
    let larder = Larder::start(&format!("{log}{}", site(&[&origin], "")));
    for request in ["GET /a", "GET /a\nSec-Purpose: prefetch", "GET /b\nSec-Purpose: prefetch"] {
        larder.ask(request);
    }
    let lines = eventually("three lines", || {
        let text = std::fs::read_to_string(&file).ok()?;
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("json")).collect();
        (lines.len() == 3).then_some(lines)
    });
    // The workers write the log's lines in no fixed order.
    let mut purposes: Vec<_> = lines.iter().map(|line| line["purpose"].as_str()).collect();
    purposes.sort();
    assert_eq!(purposes, [None, Some("prefetch"), Some("prefetch")]);
}
