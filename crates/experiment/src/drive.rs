//! Clients of the [services](super::services), directly or through proxies: each sends a request as soon as it has
//! received the answer to the one before. Answers are checked against acknowledged writes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use larder_lab::workload::{self, Crud, Method, Pages, Rate, Sent, Sizes, Workload, WorkloadRequest};
use larder_load::{Connection, Dialect, Reply, Via};
use serde::Deserialize;
use tokio::task::LocalSet;

use super::{Ledger, Slots, Stale, Versions};

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
#[derive(Debug)]
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
    pub examples: Vec<(String, Stale)>,
    /// All answers in the order of arrival.
    pub exchanges: Vec<Exchange>,
    /// The time from the first request to the last answer.
    pub elapsed: Duration,
}

/// The times of answers, from the request's first byte to the answer's last.
#[derive(Debug)]
pub struct Times(Histogram<u64>);

impl Times {
    fn new() -> Self {
        Self(Histogram::new_with_max(LONGEST, 3).expect("three digits are within what it takes"))
    }

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
/// If the connection is refused, or the runtime cannot be created.
pub fn drive(plan: &Plan) -> io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The services define the sizes of their answers, and the clients decide when to send.
    let pages = Pages { sizes: Sizes::Fixed(0), latency: workload::Latency::Constant(0) };
    let Workload { steps, .. } = plan.workload.workload(&pages, Rate(1.0), plan.seed);
    let shared = Rc::new(Shared {
        to: plan.to.clone(),
        stop: Arc::clone(&plan.stop),
        begun: Instant::now(),
        limit: plan.limit.unwrap_or(Duration::MAX),
        steps: RefCell::new(steps),
        ledger: RefCell::default(),
        outcome: RefCell::new(Outcome {
            reads: Times::new(),
            writes: Times::new(),
            statuses: BTreeMap::new(),
            failed: 0,
            stale: 0,
            examples: Vec::new(),
            exchanges: Vec::new(),
            elapsed: Duration::ZERO,
        }),
    });
    let tasks = LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        let mut clients = Vec::new();
        for _ in 0..plan.clients {
            let mut connections = Vec::new();
            for &to in plan.to.addresses() {
                connections.push(Some(connect(to).await?));
            }
            clients.push(tokio::task::spawn_local(Rc::clone(&shared).work(connections)));
        }
        for client in clients {
            client.await.map_err(io::Error::other)?;
        }
        Ok::<_, io::Error>(())
    }))?;
    drop(tasks);
    let shared = Rc::into_inner(shared).ok_or_else(|| io::Error::other("a client is still at work"))?;
    let elapsed = shared.begun.elapsed();
    Ok(Outcome { elapsed, ..shared.outcome.into_inner() })
}

async fn connect(to: SocketAddr) -> io::Result<Connection> {
    Connection::open(Via::Http, Dialect::default(), to).await.map_err(io::Error::other)
}

/// The state that all clients share.
struct Shared {
    to: Slots,
    begun: Instant,
    limit: Duration,
    stop: Arc<AtomicBool>,
    steps: RefCell<Box<dyn Iterator<Item = WorkloadRequest>>>,
    ledger: RefCell<Ledger>,
    outcome: RefCell<Outcome>,
}

/// A complete answer, with the times of the request's first byte and of its own last one.
struct Answer {
    reply: Reply,
    sent: Duration,
    received: Duration,
}

#[derive(Deserialize)]
struct Body {
    versions: Versions,
}

impl Shared {
    /// Runs one client, with a connection to each address.
    async fn work(self: Rc<Self>, mut connections: Vec<Option<Connection>>) {
        while self.begun.elapsed() < self.limit && !self.stop.load(Ordering::Relaxed) {
            let Some(step) = self.steps.borrow_mut().next() else { return };
            let at = self.to.pick(&step.path);
            let connection = &mut connections[at];
            if connection.is_none() {
                *connection = connect(self.to.addresses()[at]).await.ok();
            }
            let answer = self.ask(connection, &step).await;
            self.note(&step, answer);
        }
    }

    /// Returns the answer over `connection`, which stays open if it can be used again.
    async fn ask(&self, connection: &mut Option<Connection>, step: &WorkloadRequest) -> Option<Answer> {
        let mut open = connection.take()?;
        let request = Sent { method: step.method.name(), url: &step.path, fields: &[], body: &step.body };
        let sent = self.begun.elapsed();
        let (reply, is_kept) = tokio::time::timeout(PATIENCE, open.ask(request, true)).await.ok()?.ok()?;
        let received = self.begun.elapsed();
        *connection = is_kept.then_some(open);
        Some(Answer { reply, sent, received })
    }

    fn note(&self, step: &WorkloadRequest, answer: Option<Answer>) {
        let mut outcome = self.outcome.borrow_mut();
        let Some(Answer { reply, sent, received }) = answer else {
            outcome.failed += 1;
            return;
        };
        let read = (step.method == Method::Get).then(|| source(&reply.cache));
        let bytes = u32::try_from(reply.bytes).unwrap_or(u32::MAX);
        outcome.exchanges.push(Exchange { read, bytes, took: received - sent });
        *outcome.statuses.entry(reply.status).or_default() += 1;
        let latency = if step.method == Method::Get { &mut outcome.reads } else { &mut outcome.writes };
        latency.0.saturating_record(u64::try_from((received - sent).as_nanos()).unwrap_or(u64::MAX));
        let body = serde_json::from_slice(&reply.content).ok().filter(|_| reply.status < 500);
        let Some(Body { versions }) = body else {
            outcome.failed += 1;
            return;
        };
        if step.method != Method::Get {
            if (200..300).contains(&reply.status) {
                self.ledger.borrow_mut().acknowledge(&versions, received);
            }
            return;
        }
        if let Some(stale) = self.ledger.borrow().judge(&versions, sent) {
            outcome.stale += 1;
            if outcome.examples.len() < EXAMPLES {
                outcome.examples.push((step.path.clone(), stale));
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
