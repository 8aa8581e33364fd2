//! The benefit and the cost of prefetching, on traces for which they are known.

use std::num::NonZeroUsize;

use larder_evict::{By, Capacity, Spec};
use larder_lab::prefetch::{Counts, Plan};
use larder_lab::subject::Subject;
use larder_lab::sweep;
use larder_lab::trace::{Builder, Record, Trace};
use larder_predict::budget::Share;
use larder_predict::{Predictor, Predictors};

/// The cost of fetching an object, in microseconds, and the time between two requests.
const COST: u32 = 100_000;
const PAUSE: u64 = 2_000_000;

/// Returns a trace of requests for these names, each by its client.
fn trace(requests: &[(String, u32)]) -> Trace {
    let mut builder = Builder::default();
    for (at, (name, client)) in requests.iter().enumerate() {
        builder.by(*client);
        // A column of equal costs would not be stored.
        let cost = COST + u32::from(at == 0);
        let record = Record { key: &**name, time: at as u64 * PAUSE, size: 1_000 + at as u64 % 2, cost };
        builder.push_name(record).expect("few requests");
    }
    builder.finish()
}

fn run(trace: Trace, kinds: &[Predictor], percent: f64) -> Counts {
    let specs = vec![Spec::parse("lru").expect("a policy")];
    let base = sweep::Plan { specs, warmup: 0.0, seed: 1, threads: NonZeroUsize::MIN };
    let plan = Plan { base, kinds: Predictors::of(kinds), share: Share::percent(percent) };
    let subject = Subject::whole("test", trace);
    let cells = plan.run(&subject, &[Capacity { by: By::Entries, amount: 10 }], &|_| true);
    cells[0].counts
}

/// Pages in random order, each followed by its picture.
fn pages(clients: u32) -> Vec<(String, u32)> {
    let mut random = fastrand::Rng::with_seed(27);
    let mut requests = Vec::new();
    for _ in 0..5_000 {
        let (page, client) = (random.u32(..100), 1 + random.u32(..clients));
        requests.push((format!("http://a/page/{page}.html"), client));
        requests.push((format!("http://a/picture/{page}.png"), client));
    }
    requests
}

#[test]
fn objects_that_follow_a_page_are_prefetched_before_their_request() {
    let counts = run(trace(&pages(1)), &[Predictor::Association], 5.0);
    assert_eq!(counts.requests, 10_000);
    assert!(counts.precision() > Some(0.99), "{counts:?}");
    assert!(counts.early > 3_000 && counts.hits > counts.plain_hits + 2_500, "{counts:?}");
    assert!(counts.extra_requests() <= 10_000 / 20, "{counts:?}");
    // Each prefetched object was completely fetched two seconds before its request.
    assert_eq!(counts.saved, u128::from(counts.early) * u128::from(COST));
    assert_eq!(counts, run(trace(&pages(1)), &[Predictor::Association], 5.0));
}

#[test]
fn clients_that_alternate_are_distinguished() {
    let requests = pages(40);
    let (one, other) = requests.split_at(5_000);
    let mixed: Vec<_> = one.iter().zip(other).flat_map(|(one, other)| [one.clone(), other.clone()]).collect();
    let early = |requests: &[(String, u32)]| run(trace(requests), &[Predictor::Association], 5.0).early;
    let merged: Vec<_> = mixed.iter().map(|(name, _)| (name.clone(), 1)).collect();
    let (apart, merged) = (early(&mixed), early(&merged));
    assert!(apart > 2_000 && merged * 10 < apart, "{apart} and {merged}");
}

#[test]
fn segments_of_videos_that_were_never_asked_for_are_early() {
    let segment = |video: u32| move |number: u32| (format!("http://a/{video}/seg-{number:03}.ts"), 1 + video);
    let requests: Vec<_> = (0..100).flat_map(|video| (1..=50).map(segment(video))).collect();
    let counts = run(trace(&requests), &[Predictor::Sequence], 5.0);
    assert_eq!((counts.requests, counts.plain_hits), (5_000, 0));
    // The first two segments of a video are excluded, and those before the budget could pay for a prefetch: a prefetch
    // may have 16 KiB, and each request pays in 50 bytes. No segment follows the last one of a video.
    assert!((4_400..=4_800).contains(&counts.early), "{counts:?}");
    assert!((85..=100).contains(&counts.extra_requests()), "{counts:?}");
}

#[test]
fn without_order_nothing_is_prefetched() {
    let mut random = fastrand::Rng::with_seed(7);
    let requests: Vec<_> = (0..10_000).map(|_| (format!("http://a/x{}y", random.u32(..300)), 1)).collect();
    let counts = run(trace(&requests), &Predictor::ALL, 5.0);
    assert!(counts.prefetches < 100, "{counts:?}");
    assert_eq!(run(trace(&pages(1)), &Predictor::ALL, 0.0).prefetches, 0);
}
