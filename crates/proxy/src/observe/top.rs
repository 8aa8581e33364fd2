//! The most frequent requests of the last minutes: sums over URLs and routes.
//!
//! Sums are kept for the current half of the window and for the previous one, so they cover half of the window to all of
//! it. Each half has a maximum of URLs; requests for further URLs are counted, but not by URL.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_stats::outcome::{Outcome as Class, classify};
use larder_words::named;
use serde::Serialize;

use super::watch::EndedRequest;
use crate::counts::counters::{Ratios, Totals};

/// Maximum of URLs with their own sums in half of the window.
const URLS: usize = 10_000;
/// Maximum of routes with their own sums in half of the window; further ones share the sum `*`.
const ROUTES: usize = 1_000;
/// Maximum of URLs and routes in a report.
const SHOWN: usize = 50;

named! {
    /// The order of URLs in a report.
    #[derive(Default)]
    pub enum Rank, name {
        /// Requests.
        #[default]
        Requests = "requests",
        /// Hits.
        Hits = "hits",
        /// Requests after which the origin confirmed the response.
        Validated = "validated",
        /// Misses.
        Misses = "misses",
        /// Bytes sent.
        Bytes = "bytes",
        /// The time of origins.
        Time = "time",
    }
}

impl Rank {
    fn of(self, sums: &Sums) -> u64 {
        match self {
            Self::Requests => sums.requests,
            Self::Hits => sums.hits,
            Self::Validated => sums.validated,
            Self::Misses => sums.misses,
            Self::Bytes => sums.bytes,
            Self::Time => sums.origin_us,
        }
    }
}

/// Sums over requests, counted as in `GET /stats`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Sums {
    requests: u64,
    hits: u64,
    validated: u64,
    misses: u64,
    bytes: u64,
    /// Time until the first byte of origins' responses, in microseconds.
    origin_us: u64,
    #[serde(skip)]
    bytes_cacheable: u64,
    #[serde(skip)]
    bytes_from_cache: u64,
    /// The reason of the last request that went to an origin; if none did, of the last request.
    why: &'static str,
    #[serde(skip)]
    has_asked: bool,
}

impl Sums {
    fn count(&mut self, seen: &EndedRequest) {
        let outcome = seen.ended.outcome;
        let class = classify(outcome.kind.word());
        let is = |of: fn(&Class) -> bool| u64::from(class.as_ref().is_some_and(of));
        let (validated, miss) = (is(|class| class.is_validated), is(|class| class.is_miss));
        self.add(&Self {
            requests: 1,
            hits: is(|class| class.is_hit),
            validated,
            misses: miss,
            bytes: seen.ended.bytes,
            origin_us: outcome.origin_time.map_or(0, |time| time.as_micros() as u64),
            bytes_cacheable: seen.ended.bytes * is(Class::is_cacheable),
            bytes_from_cache: seen.ended.bytes * is(|class| class.from_cache),
            why: outcome.why.token(),
            has_asked: validated + miss > 0,
        });
    }

    /// Adds the sums of a later time.
    fn add(&mut self, later: &Self) {
        self.requests += later.requests;
        self.hits += later.hits;
        self.validated += later.validated;
        self.misses += later.misses;
        self.bytes += later.bytes;
        self.origin_us += later.origin_us;
        self.bytes_cacheable += later.bytes_cacheable;
        self.bytes_from_cache += later.bytes_from_cache;
        if later.has_asked || !self.has_asked {
            (self.why, self.has_asked) = (later.why, later.has_asked);
        }
    }
}

type SiteRoute = (Arc<str>, String);

/// The sums of half of the window.
#[derive(Debug, Default)]
struct Half {
    urls: HashMap<String, Sums>,
    routes: HashMap<SiteRoute, Sums>,
    /// Requests for URLs beyond the maximum.
    others: u64,
}

impl Half {
    fn count(&mut self, seen: &EndedRequest) {
        let has_room = self.urls.len() < URLS;
        match self.urls.get_mut(&seen.memo.target) {
            Some(sums) => sums.count(seen),
            None if has_room => self.urls.entry(seen.memo.target.clone()).or_default().count(seen),
            None => self.others += 1,
        }
        let site = seen.memo.site.clone().unwrap_or_else(|| Arc::from(""));
        let has_room = self.routes.len() < ROUTES;
        match self.routes.entry((site, seen.memo.route().to_owned())) {
            Entry::Vacant(vacant) if !has_room => {
                let (site, _) = vacant.into_key();
                self.routes.entry((site, "*".to_owned())).or_default().count(seen);
            }
            entry => entry.or_default().count(seen),
        }
    }
}

/// The sums of the last minutes.
#[derive(Debug)]
pub struct Top {
    halves: [Half; 2],
    /// The beginning of each of them, and its length.
    begun: [Instant; 2],
    length: Duration,
}

/// The report about the last minutes.
#[derive(Debug, Serialize)]
pub struct TopReport<'t> {
    /// The covered time in seconds.
    seconds: f64,
    /// The first URLs in the requested order.
    urls: Vec<Url<'t>>,
    /// The first URLs by misses.
    misses: Vec<Url<'t>>,
    routes: Vec<Route<'t>>,
    /// Requests for URLs beyond the maximum.
    others: u64,
    /// Requests that were not counted.
    dropped: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Url<'t> {
    url: &'t str,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Debug, Serialize)]
struct Route<'t> {
    site: &'t str,
    route: &'t str,
    requests: u64,
    hits: u64,
    validated: u64,
    misses: u64,
    #[serde(flatten)]
    ratios: Ratios,
}

impl Top {
    /// Creates the sums over `window`, which begins now.
    pub fn new(now: Instant, window: Duration) -> Self {
        Self { halves: Default::default(), begun: [now; 2], length: window / 2 }
    }

    /// Counts a request.
    pub fn count(&mut self, seen: &EndedRequest, now: Instant) {
        if now - self.begun[1] >= self.length {
            self.halves.swap(0, 1);
            self.halves[1] = Half::default();
            self.begun = [self.begun[1], now];
        }
        self.halves[1].count(seen);
    }

    /// Returns the report at the time `now`; `dropped` requests were not counted.
    pub fn report(&self, rank: Rank, now: Instant, dropped: u64) -> TopReport<'_> {
        let urls = merged(self.halves.iter().flat_map(|half| &half.urls));
        let urls: Vec<_> = urls.into_iter().map(|(url, sums)| Url { url, sums }).collect();
        let routes = merged(self.halves.iter().flat_map(|half| &half.routes));
        let mut routes: Vec<_> = routes.into_iter().map(|(place, sums)| Route::of(place, &sums)).collect();
        routes.sort_by(|one, other| {
            let order = |route: &Route<'_>| Reverse(route.requests);
            order(one).cmp(&order(other)).then_with(|| (one.site, one.route).cmp(&(other.site, other.route)))
        });
        routes.truncate(SHOWN);
        TopReport {
            seconds: (now - self.begun[0]).as_secs_f64(),
            urls: first(urls.clone(), rank),
            misses: first(urls, Rank::Misses),
            routes,
            others: self.halves.iter().map(|half| half.others).sum(),
            dropped,
        }
    }
}

/// Merges the sums of each key; `sums` are in the order of time.
fn merged<'t, K: std::hash::Hash + Eq>(
    sums: impl Iterator<Item = (&'t K, &'t Sums)>,
) -> HashMap<&'t K, Sums> {
    let mut all: HashMap<&K, Sums> = HashMap::new();
    for (key, sums) in sums {
        all.entry(key).or_default().add(sums);
    }
    all
}

fn first(mut urls: Vec<Url<'_>>, rank: Rank) -> Vec<Url<'_>> {
    urls.retain(|url| rank.of(&url.sums) > 0);
    urls.sort_by(|one, other| {
        rank.of(&other.sums).cmp(&rank.of(&one.sums)).then_with(|| one.url.cmp(other.url))
    });
    urls.truncate(SHOWN);
    urls
}

impl<'t> Route<'t> {
    fn of((site, route): &'t SiteRoute, sums: &Sums) -> Self {
        let Sums { requests, hits, validated, misses, bytes_cacheable, bytes_from_cache, .. } = *sums;
        let totals =
            Totals { hits, validated, misses, bytes_cacheable, bytes_from_cache, ..Totals::default() };
        Self { site, route, requests, hits, validated, misses, ratios: totals.ratios() }
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::status::Why;
    use serde_json::{Value, json};

    use super::*;
    use crate::base::outcome::{Kind, Outcome};
    use crate::exchange::route::SiteNumber;
    use crate::observe::memo::{RequestRecord, RequestResult};

    fn seen(url: &str, kind: Kind, why: Why, bytes: u64) -> EndedRequest {
        let outcome =
            Outcome { origin_time: Some(Duration::from_micros(5)), ..Outcome::forwarded(kind, why) };
        let mut memo = RequestRecord::unread(([127, 0, 0, 1], 1).into());
        url.clone_into(&mut memo.target);
        EndedRequest {
            memo,
            ended: RequestResult {
                status: 200,
                site: SiteNumber::NONE,
                hash: 0,
                outcome,
                age: None,
                bytes,
                saved: None,
            },
            took: Duration::ZERO,
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    fn shown(top: &Top, rank: Rank, now: Instant) -> Value {
        serde_json::to_value(top.report(rank, now, 3)).unwrap()
    }

    #[test]
    fn urls_and_routes_are_summed_over_two_minutes() {
        let begun = Instant::now();
        let mut top = Top::new(begun, 2 * MINUTE);
        top.count(&seen("http://a/x/1", Kind::Miss, Why::NoFreshness, 10), begun);
        top.count(&seen("http://a/x/1", Kind::Hit, Why::Fresh, 30), begun + MINUTE);
        top.count(&seen("http://a/y", Kind::Pass, Why::Method, 99), begun + MINUTE);
        let report = shown(&top, Rank::Requests, begun + MINUTE);
        let url = json!({"url": "http://a/x/1", "requests": 2, "hits": 1, "validated": 0, "misses": 1, "bytes": 40,
                         "origin_us": 10, "why": "no-freshness"});
        let route = json!({"site": "", "route": "x", "requests": 2, "hits": 1, "validated": 0, "misses": 1,
                           "hit_ratio": 0.5, "validated_hit_ratio": 0.5, "byte_hit_ratio": 0.75});
        assert_eq!((&report["urls"][0], &report["misses"]), (&url, &json!([url])));
        assert_eq!((&report["routes"][0], &report["seconds"]), (&route, &json!(60.0)));
        assert_eq!(shown(&top, Rank::Bytes, begun)["urls"][0]["url"], "http://a/y");
        top.count(&seen("http://a/z", Kind::Hit, Why::Fresh, 1), begun + 2 * MINUTE);
        let report = shown(&top, Rank::Requests, begun + 2 * MINUTE);
        assert_eq!((&report["urls"][0]["misses"], &report["dropped"]), (&json!(0), &json!(3)));
    }

    #[test]
    fn requests_without_room_in_the_top_list_are_counted_as_others() {
        let begun = Instant::now();
        let mut top = Top::new(begun, 2 * MINUTE);
        for at in 0..URLS + 7 {
            top.count(&seen(&format!("http://a/{at}"), Kind::Miss, Why::Absent, 1), begun);
        }
        top.count(&seen("http://a/0", Kind::Hit, Why::Fresh, 1), begun);
        let report = shown(&top, Rank::Requests, begun);
        assert_eq!((&report["others"], &report["urls"][0]["url"]), (&json!(7), &json!("http://a/0")));
        assert_eq!(report["routes"][0]["requests"], json!(URLS + 7 - ROUTES));
    }
}
