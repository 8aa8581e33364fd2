//! Requests to record, and the expected figures of a database, computed without one.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use larder_stats::outcome::{self, OUTCOMES};
use larder_stats::{Content, Counts, Dimension, Prediction, Transaction};

pub(crate) const HOUR: u64 = 3_600_000;

/// Returns milliseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Returns an ordinary hit.
pub(crate) fn hit(time: u64, url: &str) -> Transaction {
    Transaction {
        time,
        door: "http".into(),
        site: "docs.example".into(),
        route: "guide".into(),
        method: "GET".into(),
        url: url.to_owned(),
        status: 200,
        outcome: outcome::HIT.into(),
        reason: "fresh".into(),
        bytes: 1_000,
        service_us: 40,
        origin_us: None,
        age: Some(7),
        tier: "memory".into(),
        client: "192.0.2.1".into(),
        http_version: "1.1".into(),
    }
}

/// Returns `count` requests of all kinds, spread over the three hours before `now`; the same for the same seed.
pub(crate) fn varied(count: usize, now: u64, seed: u64) -> Vec<Transaction> {
    let mut random = fastrand::Rng::with_seed(seed);
    let request = |_| {
        let outcome = OUTCOMES[random.usize(..OUTCOMES.len())];
        let (route, page) = (["guide", "api", "it's", "ü\\"][random.usize(..4)], random.u32(..40));
        let asked = !outcome.is_hit && outcome.word != outcome::REFUSED;
        Transaction {
            time: now - random.u64(..3 * HOUR),
            door: ["http", "thrift", "onc"][random.usize(..3)].into(),
            site: ["docs.example", "shop.example"][random.usize(..2)].into(),
            route: route.into(),
            method: "GET".into(),
            url: format!("http://docs.example/{route}/{page}"),
            status: [200, 304, 404, 500][random.usize(..4)],
            outcome: outcome.word.into(),
            reason: ["fresh", "absent", "expired"][random.usize(..3)].into(),
            bytes: random.u64(..1 << 32),
            service_us: random.u64(..1 << 20),
            origin_us: asked.then(|| random.u64(..1 << 20)),
            age: outcome.from_cache.then(|| random.u64(..3_600)),
            tier: if outcome.from_cache { "memory" } else { "" }.into(),
            client: format!("192.0.2.{}", random.u8(..)).into(),
            http_version: ["1.0", "1.1", "2", ""][random.usize(..4)].into(),
        }
    };
    (0..count).map(request).collect()
}

/// Returns the sums of all requests.
pub(crate) fn totals<'t>(requests: impl IntoIterator<Item = &'t Transaction>) -> Counts {
    let mut counts = Counts::default();
    requests.into_iter().for_each(|request| add(&mut counts, request));
    counts
}

fn add(counts: &mut Counts, request: &Transaction) {
    let (is_hit, is_validated, is_miss) = match &*request.outcome {
        "hit" | "stale-hit" | "coalesced" => (true, false, false),
        "revalidated" => (false, true, false),
        "miss" => (false, false, true),
        _ => (false, false, false),
    };
    let bytes_if = |is| if is { request.bytes } else { 0 };
    counts.requests += 1;
    counts.hits += u64::from(is_hit);
    counts.validated += u64::from(is_validated);
    counts.misses += u64::from(is_miss);
    counts.bytes += request.bytes;
    counts.bytes_cacheable += bytes_if(is_hit || is_validated || is_miss);
    counts.bytes_from_cache += bytes_if(is_hit || is_validated);
    counts.service_us += request.service_us;
    counts.origin_requests += u64::from(request.origin_us.is_some());
    counts.origin_us += request.origin_us.unwrap_or(0);
}

/// Returns the sums of all requests with a common name.
pub(crate) fn grouped(
    requests: &[Transaction],
    name: impl Fn(&Transaction) -> String,
) -> BTreeMap<String, Counts> {
    let mut groups = BTreeMap::new();
    requests.iter().for_each(|request| add(groups.entry(name(request)).or_default(), request));
    groups
}

pub(crate) fn name(dimension: Dimension, request: &Transaction) -> String {
    match dimension {
        Dimension::Site => request.site.to_string(),
        Dimension::Route => format!("{}/{}", request.site, request.route),
        Dimension::Status => request.status.to_string(),
        Dimension::Door => request.door.to_string(),
        Dimension::Outcome => request.outcome.to_string(),
        Dimension::Hour => (request.time - request.time % HOUR).to_string(),
    }
}

/// Returns `count` objects in a cache.
pub(crate) fn contents(count: u64) -> Vec<Content> {
    let content = |number| Content {
        hash: format!("{number:016x}"),
        url: format!("http://docs.example/guide/{number}"),
        size: 1_000 + number,
        stored: now(),
        expires: now() + HOUR,
        hits: number % 3,
        tags: "guide docs".to_owned(),
        tier: "memory".into(),
    };
    (0..count).map(content).collect()
}

/// Returns the predictions for `count` policies.
pub(crate) fn predictions(count: u64) -> Vec<Prediction> {
    let prediction = |number| Prediction {
        hour: now() - now() % HOUR,
        tier: "memory".into(),
        policy: format!("policy{number}"),
        size: 1_000,
        requests: 100,
        hits: number * 10,
        is_running: number == 0,
        ..Prediction::default()
    };
    (0..count).map(prediction).collect()
}
