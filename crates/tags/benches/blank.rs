//! Measures the time to ask a pool of a million tags, and to blank it, and the effect on threads that ask another
//! pool. `cargo bench -p larder-tags` measures; a plain build runs it once with few tags, to test that it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_tags::{Pools, Settings, TagDecision};

/// The number of times that the pool is blanked while other threads ask, and the pause between two.
const BLANKS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(1);

fn main() {
    let count: u32 = if std::env::args().any(|word| word == "--bench") { 1_000_000 } else { 1_000 };
    let settings = Settings { tags: u64::from(count), bytes: u64::from(count) << 10, ..Settings::default() };
    let pools = Arc::new(Pools::new(settings, || 0));
    let shown = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static("\"1\""))]);
    let answer = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("\"1\""))]);
    let ask_at = |method: &Method, target: String| pools.ask(method, b"site.test", target.as_bytes(), &shown);
    let ask = |method: &Method, id: u32| ask_at(method, format!("/users/{id}"));
    let store = |asked| match asked {
        TagDecision::Forward(ticket) => drop(ticket.answer(&shown, StatusCode::OK, &answer, None)),
        _ => panic!("no tag was stored"),
    };
    print("store a tag", count, timed(|| (0..count).for_each(|id| store(ask(&Method::GET, id)))));
    let hit = |asked| assert!(matches!(asked, TagDecision::NotModified(_)), "a tag has gone");
    print("match a tag", count, timed(|| (0..count).for_each(|id| hit(ask(&Method::GET, id)))));
    store(ask_at(&Method::GET, "/paths/1".to_owned()));
    let beside = || timed(|| hit(ask_at(&Method::GET, "/paths/1".to_owned())));
    print("match beside it, p99", 1, p99((0..count).map(|_| beside()).collect()));
    let blank = || match ask(&Method::POST, 0) {
        TagDecision::Change(mut change) => change.answered(StatusCode::OK),
        _ => panic!("a POST is a change"),
    };
    let stop = AtomicBool::new(false);
    let meanwhile = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let asks = std::iter::repeat_with(beside);
            asks.take_while(|_| !stop.load(Ordering::Relaxed)).collect::<Vec<_>>()
        });
        print("blank them all, twice", 1, timed(blank));
        for _ in 1..BLANKS {
            thread::sleep(PAUSE);
            blank();
        }
        stop.store(true, Ordering::Relaxed);
        asking.join().expect("it asks until it is told to stop")
    });
    print("the same while blanked", 1, p99(meanwhile));
    let miss = |id| assert!(!matches!(ask(&Method::GET, id), TagDecision::NotModified(_)));
    print("find none of them", count, timed(|| (0..count).for_each(miss)));
}

fn timed(run: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    run();
    begun.elapsed()
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

fn print(what: &str, times: u32, took: Duration) {
    println!("{what:<22} {:>10.3} us", took.as_secs_f64() * 1e6 / f64::from(times));
}
