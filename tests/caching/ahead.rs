//! `refresh_ahead`: popular responses are refreshed before they expire.

use std::time::{SystemTime, UNIX_EPOCH};

use larder_testkit::{Answer, Larder, Origin, eventually, site};

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
fn an_unpopular_or_young_response_is_not_refreshed_ahead() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "refresh_ahead = '10%'\n[[site.rule]]\nmatch = { path = '/never' }\nrefresh_ahead = '0%'\n";
    let larder = Larder::start(&site(&[&origin], rules));
    for path in ["/a", "/a", "/a", "/a", "/never", "/never", "/never"] {
        larder.get(path);
    }
    larder.settle();
    assert_eq!((origin.count(), larder.stats()["refreshes_ahead"]["started"].as_u64()), (2, Some(0)));
}

/// Waits for the next second of the clock.
fn next_second() {
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let now = second();
    eventually("the next second", || (second() > now).then_some(()));
}

#[test]
fn popular_is_what_is_asked_for_often_in_one_lifetime() {
    let origin =
        Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\nETag: \"{0}\"\n\n{0}", seen.number));
    let larder = Larder::start(&site(&[&origin], &format!("{KEYS}\nrefresh_ahead_hits = 3")));
    for _ in 0..4 {
        larder.get("/a");
    }
    origin.wait_for(2);
    eventually("the newer response", || {
        (larder.client().ask("GET /a\nSec-Purpose: prefetch").text() == "1").then_some(())
    });
    larder.settle();
    next_second();
    larder.get("/a");
    larder.get("/a");
    assert_eq!(origin.count(), 2, "what was asked for before counts no more");
    eventually("the third request of the origin", || {
        larder.get("/a");
        (origin.count() == 3).then_some(())
    });
}

#[test]
fn refreshes_take_a_part_of_the_permits_only() {
    let (gate, origin) = Origin::gated(|seen, held| {
        let answer = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 1\r\n\r\nx";
        if seen.number < 3 { Answer::raw(answer) } else { Answer::default().then_wait(held).then(answer) }
    });
    let keys = format!("{KEYS}\nrefresh_ahead_hits = 1");
    let larder = Larder::start(&format!("[limits]\nin_flight = 16\n{}", site(&[&origin], &keys)));
    for path in ["/a", "/b", "/c"] {
        larder.get(path);
    }
    for path in ["/a", "/b", "/c"] {
        assert!(larder.client().ask(&format!("GET {path}")).is_hit());
    }
    origin.wait_for(5);
    let stats = larder.stats();
    let figures = ["started", "skipped"].map(|name| stats["refreshes_ahead"][name].as_u64());
    assert_eq!(figures, [Some(2), Some(1)], "an eighth of 16 permits");
    gate.open();
    larder.settle();
    assert_eq!(origin.count_of("/c"), 1);
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
