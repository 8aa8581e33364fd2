//! Clients of the [services](super::services), directly or through proxies: each sends a request as soon as it has
//! received the answer to the one before. Answers are checked against acknowledged writes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;
use larder_lab::workload::{self, Crud, Method, Pages, Rate, Sizes};
use larder_load::{AnsweredRequest, Load, Onlooker, Pace, Via};
use serde::Deserialize;

use super::{Halt, Ledger, Slots, StaleError, Versions};

/// The timeout for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum of the histogram, in nanoseconds: no answer takes so long.
const LONGEST: u64 = 60_000_000_000;
/// The number of stale answers that are described.
const EXAMPLES: usize = 10;

/// The work of clients.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Their servers.
    pub to: Slots,
    /// The number of clients.
    pub clients: u32,
    /// The requests of all clients together.
    pub workload: Crud,
    /// The seed of the requests.
    pub seed: u64,
    /// The time after which no further request is sent.
    pub limit: Option<Duration>,
    /// Set to stop sending requests.
    pub stop: Arc<AtomicBool>,
}

/// The source of the content of an answer to a GET, from its `Cache-Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cache, without a request to the backend.
    Cache,
    /// The cache, after the backend confirmed that the content is unchanged.
    Confirmed,
    /// The backend.
    Backend,
}

/// One request and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// The source of the content for a GET; `None` for other methods.
    pub read: Option<Source>,
    /// Bytes of content.
    pub bytes: u32,
    /// The time from the request's first byte to the answer's last.
    pub took: Duration,
}

/// The outcome of a plan.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Answers to GET.
    pub reads: Times,
    /// Answers to other methods.
    pub writes: Times,
    /// The number of answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without an answer, or with an answer that is not from the services.
    pub failed: u64,
    /// Stale answers.
    pub stale: u64,
    /// The first stale answers: a path, and the error.
    pub examples: Vec<(String, StaleError)>,
    /// All answers in the order of arrival.
    pub exchanges: Vec<Exchange>,
    /// The time from the first request to the last answer.
    pub elapsed: Duration,
}

/// The times of answers, from the request's first byte to the answer's last.
#[derive(Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new_with_max(LONGEST, 3).expect("three digits are within what it takes"))
    }
}

impl Times {
    /// Returns the number of answers.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time within which `percent` percent of the answers arrived; zero if there were none.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(percent / 100.0))
    }

    /// Returns the arithmetic mean; zero if there were none.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }
}

/// Runs the clients until all requests are sent, or their time is over.
///
/// # Errors
/// If a server refuses a connection, or the user ends the run.
pub fn drive(plan: &Plan) -> Result<Outcome, Halt> {
    for to in plan.to.addresses() {
        TcpStream::connect(to).map_err(|error| Halt::because("cannot connect", error))?;
    }
    // The services define the sizes of their answers, and the clients decide when to send.
    let pages = Pages { sizes: Sizes::Fixed(0), latency: workload::Latency::Constant(0) };
    let requests = plan.workload.workload(&pages, Rate(1.0), plan.seed).requests();
    let (slots, addresses) = (plan.to.clone(), plan.to.addresses());
    let load = Load {
        pace: Pace::Closed { clients: plan.clients as usize },
        patience: PATIENCE,
        accepts: |_| true,
        limit: plan.limit,
        pick: Some(Arc::new(move |path| slots.pick(path))),
        stop: Arc::clone(&plan.stop),
        ..Load::new(addresses[0], Via::Http, requests)
    };
    let observer = Rc::new(RefCell::new(Observer::default()));
    let elapsed = load.send_over(addresses, observer.clone())?.elapsed;
    let outcome = std::mem::take(&mut observer.borrow_mut().outcome);
    Ok(Outcome { elapsed, ..outcome })
}

/// Judges the answers, and collects their times.
#[derive(Default)]
struct Observer {
    ledger: Ledger,
    outcome: Outcome,
}

#[derive(Deserialize)]
struct Body {
    versions: Versions,
}

impl Onlooker for Observer {
    fn wants_content(&self) -> bool {
        true
    }

    fn see(&mut self, answered: &AnsweredRequest<'_>) {
        let Self { ledger, outcome } = self;
        let Ok(reply) = answered.reply else {
            outcome.failed += 1;
            return;
        };
        let is_read = answered.sent.method == Method::Get.name();
        let bytes = u32::try_from(reply.bytes).unwrap_or(u32::MAX);
        let read = is_read.then(|| source(&reply.cache));
        outcome.exchanges.push(Exchange { read, bytes, took: answered.served });
        *outcome.statuses.entry(reply.status).or_default() += 1;
        let latency = if is_read { &mut outcome.reads } else { &mut outcome.writes };
        latency.0.saturating_record(u64::try_from(answered.served.as_nanos()).unwrap_or(u64::MAX));
        let body = serde_json::from_slice(&reply.content).ok().filter(|_| reply.status < 500);
        let Some(Body { versions }) = body else {
            outcome.failed += 1;
            return;
        };
        if !is_read {
            if (200..300).contains(&reply.status) {
                ledger.acknowledge(&versions, answered.begun + answered.served);
            }
            return;
        }
        if let Some(stale) = ledger.judge(&versions, answered.begun) {
            outcome.stale += 1;
            if outcome.examples.len() < EXAMPLES {
                outcome.examples.push((answered.sent.url.to_owned(), stale));
            }
        }
    }
}

/// Returns the source of an answer from its lines of `Cache-Status`: each cache on its path has added an entry, and the
/// one next to the client is the last (RFC 9211).
fn source(lines: &[String]) -> Source {
    let mut caches = lines.iter().rev().flat_map(|line| line.rsplit(','));
    let Some(nearest) = caches.next() else { return Source::Backend };
    let is_hit = |cache: &str| has(cache, "hit");
    match has(nearest, "fwd-status=304") {
        _ if is_hit(nearest) => Source::Cache,
        true if caches.next().is_some_and(is_hit) => Source::Cache,
        true => Source::Confirmed,
        false => Source::Backend,
    }
}

fn has(cache: &str, parameter: &str) -> bool {
    cache.split(';').any(|part| part.trim() == parameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_the_content_follows_from_the_status_of_the_caches() {
        let gateway = "Larder; hit; detail=tag-current";
        let blank = "Larder; fwd=miss; fwd-status=200; detail=tag-unknown";
        let asked = "Larder; fwd=stale; fwd-status=304; ttl=0; detail=always-validated";
        for (said, expected) in [
            (&[][..], Source::Backend),
            (&[blank], Source::Backend),
            (&["Larder; hit; ttl=300"], Source::Cache),
            (&[blank, "Larder; fwd=uri-miss; fwd-status=200; stored"], Source::Backend),
            (&[gateway, asked], Source::Cache),
            (&[blank, asked], Source::Confirmed),
            (&["Larder; hit; detail=tag-current, Larder; fwd=stale; fwd-status=304"], Source::Cache),
            (&[gateway, "Larder; fwd=stale; fwd-status=404; stored"], Source::Backend),
        ] {
            let lines: Vec<_> = said.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(source(&lines), expected, "{said:?}");
        }
    }
}
