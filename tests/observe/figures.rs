//! `/stats`: the figures by site, by reason, and the durations of requests.

use larder_testkit::{Answer, Larder, Origin, eventually, mixed};
use serde_json::{Value, json};

use super::site;

/// Returns the values of these fields.
fn values(of: &Value, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| of[name].as_u64().unwrap_or_else(|| panic!("no {name} in {of}"))).collect()
}

const COUNTS: &[&str] = &["requests", "hits", "misses", "passes", "refused", "errors", "origin_bytes"];

#[test]
fn each_site_counts_for_itself_and_keeps_its_counts_over_a_reload() {
    let origin = Origin::by(mixed);
    let table = |name: &str, host: &str| {
        format!("[[site]]\nname = '{name}'\nhosts = ['{host}']\norigin = '{}'\n", origin.url())
    };
    let larder = Larder::start(&(table("one", "one.test") + &table("two", "two.test")));
    for request in ["GET /a\nHost: one.test", "GET /a\nHost: one.test", "POST /a\nHost: one.test\n\nx"] {
        larder.ask(request);
    }
    larder.ask("GET /f\nHost: two.test");
    larder.ask("GET /a\nHost: unknown.test");
    larder.wait_for("requests", 5);
    let stats = larder.stats();
    assert_eq!(values(site(&stats, "one"), COUNTS), [3, 1, 1, 1, 0, 0, 12]);
    assert_eq!(values(site(&stats, "two"), COUNTS), [1, 0, 1, 0, 0, 0, 6]);
    assert_eq!(values(site(&stats, ""), COUNTS), [1, 0, 0, 0, 1, 0, 0]);
    assert_eq!(values(&stats, COUNTS), [5, 1, 2, 1, 1, 0, 18]);
    assert_eq!(site(&stats, "one")["hit_ratio"], 0.5);

    larder.reload(&(table("new", "new.test") + &table("one", "one.test")));
    eventually("the new site", || {
        larder.stats()["sites"].as_array()?.iter().any(|site| site["site"] == "new").then_some(())
    });
    larder.ask("GET /a\nHost: one.test");
    larder.wait_for("requests", 6);
    let stats = larder.stats();
    assert_eq!(values(site(&stats, "one"), COUNTS)[0], 4);
    assert_eq!((values(site(&stats, "two"), COUNTS)[0], &site(&stats, "two")["origins"]), (1, &json!([])));
}

#[test]
fn reasons_are_counted() {
    let origin = Origin::by(mixed);
    let larder = Larder::before(&origin);
    for request in ["GET /a", "GET /a", "GET /a", "GET /v", "GET /v", "POST /a", "GET /a\nA b: c"] {
        larder.ask(request);
    }
    larder.wait_for("requests", 7);
    let expected = json!({"absent": 2, "fresh": 2, "expired": 1, "method": 1, "refused": 1});
    assert_eq!(larder.stats()["reasons"], expected);
}

#[test]
fn times_are_those_of_hits_misses_the_rest_and_origins() {
    let origin = Origin::by(mixed);
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for request in ["GET /a", "GET /a", "GET /a", "GET /b", "GET /v", "GET /v", "POST /a"] {
        client.ask(request);
    }
    // Two hits follow a miss in one packet.
    client.raw(&"GET /c HTTP/1.1\r\nHost: site.test\r\n\r\n".repeat(3).into_bytes());
    (0..3).for_each(|_| drop(client.receive("GET")));
    // A duration is counted once the response has been sent.
    let counts = [("hit", 4), ("validated", 1), ("miss", 4), ("other", 1), ("origin", 6)];
    let latency = eventually("all times", || {
        let latency = larder.stats()["latency"].clone();
        counts.iter().all(|(name, count)| latency[name]["count"] == *count).then_some(latency)
    });
    for (name, _) in counts {
        let times = values(&latency[name], &["p50_us", "p90_us", "p99_us", "p999_us"]);
        assert!(times.is_sorted() && times[0] > 0 && times[3] < 20_000_000, "{name}: {latency}");
    }
    assert!(latency["origin"]["p50_us"].as_u64() <= latency["miss"]["p999_us"].as_u64(), "{latency}");
}

#[test]
fn an_origin_that_fails_is_seen_to() {
    let [bad, good] = [Origin::always("200 OK\n\nbad"), Origin::always("200 OK\n\ngood")];
    bad.die();
    let larder = Larder::with_site(&[&bad, &good], "name = 's'\nmax_fails = 2\nfail_timeout = '1h'");
    for _ in 0..8 {
        larder.get("/");
    }
    let origins = site(&larder.stats(), "s")["origins"].clone();
    let told = (&origins[0]["address"], &origins[0]["healthy"], &origins[0]["failures"]);
    assert_eq!(told, (&json!(bad.url()), &json!(false), &json!(2)));
    assert!(origins[0]["down_seconds"].as_u64().is_some_and(|seconds| seconds < 60), "{origins}");
    assert!(origins[0]["trouble"].as_str().is_some_and(|why| why.contains("refused")), "{origins}");
    assert_eq!(
        origins[1],
        json!({"address": good.url(), "state": "up", "healthy": true, "failures": 0, "answers": {"2xx": 8}})
    );
}

#[test]
fn answers_of_an_origin_count_by_status_and_errors_as_failures() {
    let origin = Origin::by(|seen| format!("{} X\nETag: \"1\"\n\n", &seen.target[1..]));
    let larder = Larder::with_site(&[&origin], "name = 's'");
    for status in [200, 201, 404, 410, 500, 503, 503, 599] {
        larder.get(&format!("/{status}"));
    }
    let shown = site(&larder.stats(), "s")["origins"][0].clone();
    let answers = json!({"2xx": 2, "404": 1, "4xx": 1, "500": 1, "503": 2, "5xx": 1});
    assert_eq!((&shown["answers"], &shown["failures"], &shown["state"]), (&answers, &json!(4), &json!("up")));
    let page = larder.ask_admin("GET /metrics").text().to_owned();
    for (code, sum) in [("2xx", 2), ("503", 2), ("5xx", 1), ("304", 0)] {
        let labels = format!("site=\"s\",origin=\"{}\",code=\"{code}\"", origin.url());
        assert!(page.contains(&format!("\nlarder_origin_responses_total{{{labels}}} {sum}\n")), "{page}");
    }
}

#[test]
fn an_origin_is_unknown_until_asked_and_up_once_it_answers() {
    let origin = Origin::answering(|seen| match seen.number {
        0 => Answer::default().then_close(),
        _ => Answer::with_body("200 OK", b"well"),
    });
    let larder = Larder::with_site(&[&origin], "max_fails = 1\nfail_timeout = '1h'\nretries = 0");
    let shown = || larder.stats()["sites"][0]["origins"][0]["state"].clone();
    assert_eq!(shown(), "unknown");
    let healthy = || larder.ask_admin("GET /metrics").text().contains("larder_origin_healthy{");
    assert!(!healthy(), "there is no health of an origin that was never asked");
    assert_eq!((larder.get("/").status, shown()), (502, json!("down")));
    assert_eq!((larder.get("/").status, shown()), (200, json!("up")));
    assert!(healthy());
}
