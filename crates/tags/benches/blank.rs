//! What it costs to ask a pool of a million tags, and to blank it. `cargo bench -p larder-tags` measures; a plain
//! build runs it once over few tags, to see that it still works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_tags::{Asked, Pools, Settings};

fn main() {
    let count: u32 = if std::env::args().any(|word| word == "--bench") { 1_000_000 } else { 1_000 };
    let settings = Settings { tags: u64::from(count), bytes: u64::from(count) << 10, ..Settings::default() };
    let pools = Arc::new(Pools::new(settings, || 0));
    let shown = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static("\"1\""))]);
    let answer = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("\"1\""))]);
    let ask =
        |method: &Method, id: u32| pools.ask(method, b"site.test", format!("/users/{id}").as_bytes(), &shown);
    let store = |id| match ask(&Method::GET, id) {
        Asked::Forward(ticket) => drop(ticket.answer(&shown, StatusCode::OK, &answer, None)),
        _ => panic!("a tag that nobody stored"),
    };
    print("store a tag", count, timed(|| (0..count).for_each(store)));
    let hit = |id| assert!(matches!(ask(&Method::GET, id), Asked::NotModified(_)), "a tag has gone");
    print("match a tag", count, timed(|| (0..count).for_each(hit)));
    print(
        "blank them all, twice",
        1,
        timed(|| match ask(&Method::POST, 0) {
            Asked::Change(mut change) => change.answered(StatusCode::OK),
            _ => panic!("a POST is a change"),
        }),
    );
    print(
        "find none of them",
        count,
        timed(|| {
            (0..count).for_each(|id| assert!(!matches!(ask(&Method::GET, id), Asked::NotModified(_))));
        }),
    );
}

fn timed(run: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    run();
    begun.elapsed()
}

fn print(what: &str, times: u32, took: Duration) {
    println!("{what:<22} {:>10.3} us", took.as_secs_f64() * 1e6 / f64::from(times));
}
