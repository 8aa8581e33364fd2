//! The requests that got an error from this proxy or its origins in the last minutes, by URL and by cause. They are
//! noted even if no client asks, so that a user who looks after the begin of an outage sees what fails. Only failing
//! requests pay for it.
//!
//! As the [most requested URLs](super::top), they are summed over half of the time and then over the other half.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::StatusCode;
use larder_semantics::status::Why;
use parking_lot::Mutex;
use serde::Serialize;

use crate::base::outcome::{Kind, Outcome};
use crate::base::shown::cut;

/// Maximum of URLs with their own sums in half of the time.
const URLS: usize = 1_000;
/// Maximum of URLs in a report, and of the bytes of each.
const SHOWN: usize = 50;
const LONGEST: usize = 2 << 10;
/// Half of the time.
const HALF: Duration = Duration::from_secs(300);

/// The failed requests of the last minutes.
#[derive(Debug)]
pub struct Failures(Mutex<[Half; 2]>);

/// The failed requests of half of the time.
#[derive(Debug)]
struct Half {
    begun: Instant,
    urls: HashMap<Box<str>, Sum>,
    causes: HashMap<Cause, u64>,
}

/// Why requests failed: the reason of this proxy, or the status of an origin's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cause {
    Proxy(Why),
    Origin(StatusCode),
}

/// The failed requests for a URL, with the last one's cause, status and time.
#[derive(Clone, Copy, Debug)]
struct Sum {
    requests: u64,
    cause: Cause,
    status: StatusCode,
    last: Instant,
}

/// The report about the last minutes.
#[derive(Debug, Serialize)]
pub struct FailuresReport {
    /// The covered time in seconds.
    seconds: f64,
    requests: u64,
    /// The causes, the most frequent first.
    causes: Vec<FailureCause>,
    /// The URLs with the most failed requests.
    urls: Vec<FailingUrl>,
}

#[derive(Debug, Serialize)]
struct FailureCause {
    cause: String,
    requests: u64,
}

#[derive(Debug, Serialize)]
struct FailingUrl {
    url: Box<str>,
    requests: u64,
    /// The cause of the last failure, its status, and the seconds since then.
    cause: String,
    status: u16,
    ago: u64,
}

impl Half {
    fn new(begun: Instant) -> Self {
        Self { begun, urls: HashMap::new(), causes: HashMap::new() }
    }
}

impl Cause {
    /// Returns the cause of a failure; `None` if a response with this outcome and status is none.
    fn of(outcome: &Outcome, status: StatusCode) -> Option<Self> {
        match outcome.kind {
            Kind::Failed => Some(Self::Proxy(outcome.why)),
            Kind::Refused => None,
            _ => status.is_server_error().then_some(Self::Origin(status)),
        }
    }

    fn word(self) -> String {
        match self {
            Self::Proxy(why) => why.token().to_owned(),
            Self::Origin(status) => format!("status {} of the origin", status.as_u16()),
        }
    }
}

impl Default for Failures {
    fn default() -> Self {
        let now = Instant::now();
        Self(Mutex::new([Half::new(now), Half::new(now)]))
    }
}

impl Failures {
    /// Notes the response to a request for `url`, if it is an error of this proxy or of an origin.
    pub(crate) fn note(&self, outcome: &Outcome, status: StatusCode, url: impl FnOnce() -> String) {
        if let Some(cause) = Cause::of(outcome, status) {
            let mut url = url();
            cut(&mut url, LONGEST);
            self.add(url, Sum { requests: 1, cause, status, last: Instant::now() });
        }
    }

    fn add(&self, url: String, failure: Sum) {
        let halves = &mut *self.0.lock();
        if failure.last.saturating_duration_since(halves[1].begun) >= HALF {
            halves.swap(0, 1);
            halves[1] = Half::new(failure.last);
        }
        let [_, Half { urls, causes, .. }] = halves;
        *causes.entry(failure.cause).or_default() += 1;
        let has_room = urls.len() < URLS;
        if let Some(sum) = urls.get_mut(&*url) {
            *sum = Sum { requests: sum.requests + 1, ..failure };
        } else if has_room {
            urls.insert(url.into(), failure);
        }
    }

    /// Returns the report at the time `now`.
    pub fn report(&self, now: Instant) -> FailuresReport {
        let halves = &*self.0.lock();
        let (mut causes, mut urls) = (HashMap::new(), HashMap::new());
        let left = halves.iter().filter(|half| now.saturating_duration_since(half.begun) < 2 * HALF);
        for half in left.clone() {
            half.causes.iter().for_each(|(cause, requests)| *causes.entry(*cause).or_default() += requests);
            for (url, sum) in &half.urls {
                let earlier = urls.get(url).map_or(0, |earlier: &Sum| earlier.requests);
                urls.insert(url, Sum { requests: earlier + sum.requests, ..*sum });
            }
        }
        let mut causes: Vec<_> = causes.into_iter().collect();
        causes.sort_by_key(|(cause, requests)| (u64::MAX - requests, cause.word()));
        let mut urls: Vec<_> = urls.into_iter().collect();
        urls.sort_by_key(|(url, sum)| (u64::MAX - sum.requests, *url));
        let seconds = left.map(|half| now.saturating_duration_since(half.begun)).max().unwrap_or_default();
        FailuresReport {
            seconds: seconds.as_secs_f64(),
            requests: causes.iter().map(|(_, requests)| requests).sum(),
            causes: causes
                .into_iter()
                .map(|(cause, requests)| FailureCause { cause: cause.word(), requests })
                .collect(),
            urls: urls.into_iter().take(SHOWN).map(|(url, sum)| FailingUrl::of(url, &sum, now)).collect(),
        }
    }
}

impl FailingUrl {
    fn of(url: &str, sum: &Sum, now: Instant) -> Self {
        let ago = now.saturating_duration_since(sum.last).as_secs();
        let (cause, status) = (sum.cause.word(), sum.status.as_u16());
        Self { url: url.into(), requests: sum.requests, cause, status, ago }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BAD: StatusCode = StatusCode::BAD_GATEWAY;

    fn shown(failures: &Failures, now: Instant) -> Value {
        serde_json::to_value(failures.report(now)).expect("json")
    }

    #[test]
    fn failures_are_summed_by_cause_and_by_url() {
        let failures = Failures::default();
        let note = |url: &str, kind, why, status| {
            failures.note(&Outcome::forwarded(kind, why), status, || url.to_owned());
        };
        note("http://a/1", Kind::Failed, Why::OriginUnreachable, BAD);
        note("http://a/1", Kind::Failed, Why::OriginTimeout, StatusCode::GATEWAY_TIMEOUT);
        note("http://a/2", Kind::Miss, Why::Absent, StatusCode::INTERNAL_SERVER_ERROR);
        note("http://a/3", Kind::Miss, Why::Absent, StatusCode::NOT_FOUND);
        note("http://a/4", Kind::Refused, Why::OriginForbidden, StatusCode::FORBIDDEN);
        let report = shown(&failures, Instant::now());
        let causes = ["origin-timeout", "origin-unreachable", "status 500 of the origin"];
        let causes = causes.map(|cause| json!({"cause": cause, "requests": 1}));
        assert_eq!((&report["requests"], &report["causes"]), (&json!(3), &json!(causes)));
        let first =
            json!({"url": "http://a/1", "requests": 2, "cause": "origin-timeout", "status": 504, "ago": 0});
        assert_eq!((&report["urls"][0], &report["urls"][1]["status"]), (&first, &json!(500)));
    }

    #[test]
    fn failures_are_forgotten_after_ten_minutes_and_their_urls_are_bounded() {
        let (failures, begun) = (Failures::default(), Instant::now());
        let sum = |last| Sum { requests: 1, cause: Cause::Proxy(Why::OriginTls), status: BAD, last };
        for at in 0..URLS + 7 {
            failures.add(format!("http://a/{at}"), sum(begun));
        }
        assert_eq!(failures.0.lock()[1].urls.len(), URLS);
        failures.add("http://a/0".to_owned(), sum(begun + HALF));
        let report = shown(&failures, begun + HALF);
        assert_eq!((&report["requests"], &report["urls"][0]["requests"]), (&json!(URLS + 8), &json!(2)));
        assert_eq!(shown(&failures, begun + 2 * HALF + HALF / 2)["requests"], 1);
        assert_eq!(shown(&failures, begun + 4 * HALF)["requests"], 0);
    }
}
