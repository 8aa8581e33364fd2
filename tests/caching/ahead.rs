//! `refresh_ahead`: popular responses are refreshed before they expire.

use crate::support::{Larder, Origin, eventually, site};

const KEYS: &str = "refresh_ahead = '100%'\nheuristic = '0%'";

#[test]
fn a_popular_response_is_refreshed_without_a_client_that_waits() {
    let origin =
        Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\nETag: \"{0}\"\n\n{0}", seen.number));
    let larder = Larder::start(&site(&[&origin], KEYS));
    assert_eq!(larder.get("/a").text(), "0");
    let first = larder.get("/a");
    assert!(first.is_hit() && origin.count() == 1, "asked for once is not popular");
    let second = larder.get("/a");
    assert_eq!((second.is_hit(), second.text()), (true, "0"), "the stored response answers");
    origin.wait_for(2);
    assert_eq!(origin.last().field("if-none-match"), Some("\"0\""));
    let newer =
        eventually("the newer response", || Some(larder.get("/a")).filter(|answer| answer.text() != "0"));
    assert!(newer.is_hit(), "{:?}", newer.field("cache-status"));
    larder.get("/b");
    assert_eq!(origin.count_of("/b"), 1);
}

#[test]
fn what_is_not_at_its_end_or_not_popular_is_left_alone() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "refresh_ahead = '10%'\n[[site.rule]]\nmatch = { path = '/never' }\nrefresh_ahead = '0%'\n";
    let larder = Larder::start(&site(&[&origin], rules));
    for path in ["/a", "/a", "/a", "/a", "/never", "/never", "/never"] {
        larder.get(path);
    }
    larder.settle();
    assert_eq!((origin.count(), larder.stats()["refreshes_ahead"]["started"].as_u64()), (2, Some(0)));
}

#[test]
fn a_failing_origin_takes_nothing_away_and_is_not_asked_without_end() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let larder = Larder::start(&site(&[&origin], KEYS));
    larder.get("/a");
    origin.die();
    for _ in 0..50 {
        let answer = larder.get("/a");
        assert!(answer.is_hit() && answer.text() == "x", "{:?}", answer.field("cache-status"));
    }
    let started = larder.stats()["refreshes_ahead"]["started"].as_u64().expect("a number");
    assert!((1..=10).contains(&started), "{started}");
}

#[test]
fn refreshes_are_measured_by_their_use() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=1\n\nx");
    let larder = Larder::start(&site(&[&origin], KEYS));
    eventually("a refresh that was of use", || {
        larder.get("/a");
        let figures = &larder.stats()["refreshes_ahead"];
        let figure = |name: &str| figures[name].as_u64().expect("a number");
        assert!(figure("used") <= figure("measured") && figure("measured") <= figure("started"));
        (figure("used") > 0).then_some(())
    });
    let metrics = larder.ask_admin("GET /metrics").text().to_owned();
    assert!(metrics.contains("larder_refreshes_ahead_measured_total{used=\"yes\"} "), "{metrics}");
}
