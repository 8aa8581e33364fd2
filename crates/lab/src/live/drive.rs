//! Clients at work on the [services](super::services), through whatever stands before them: each sends a request as soon
//! as it has the answer to the one before. What they are told is checked against what they have been told of.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::{Ledger, Stale, Versions};
use crate::workload::{self, Crud, Method, Pages, Rate, Sizes, Step, Workload};

/// After so long an answer counts as none.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest time that is told from longer ones, in nanoseconds: no answer is waited for so long.
const LONGEST: u64 = 60_000_000_000;
/// How many stale answers are described.
const EXAMPLES: usize = 10;

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Whom they ask.
    pub to: SocketAddr,
    /// How many there are.
    pub clients: u32,
    /// What they ask for, all of them together.
    pub workload: Crud,
    /// What that is drawn from.
    pub seed: u64,
    /// After so long no further request is sent.
    pub limit: Option<Duration>,
}

/// What became of it.
#[derive(Debug)]
pub struct Outcome {
    /// Answers to GET.
    pub reads: Times,
    /// Answers to all else.
    pub writes: Times,
    /// How many answers there were of each status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without an answer, or with one that is not of the services.
    pub failed: u64,
    /// Stale answers.
    pub stale: u64,
    /// The first of them: a path, and what was wrong.
    pub examples: Vec<(String, Stale)>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
}

/// How long answers took, from the request's first byte to the answer's last.
#[derive(Debug)]
pub struct Times(Histogram<u64>);

impl Times {
    fn new() -> Self {
        Self(Histogram::new_with_max(LONGEST, 3).expect("three digits are within what it takes"))
    }

    /// How many answers there were.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Within this time came so many percent of the answers; zero if there were none.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(percent / 100.0))
    }

    /// The arithmetic mean; zero if there were none.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }
}

/// Lets clients work until all requests are sent, or their time is over.
///
/// # Errors
/// When nobody listens there, or the runtime cannot be made.
pub fn drive(plan: &Plan) -> io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The services say themselves how large their answers are, and the clients when they ask.
    let pages = Pages { sizes: Sizes::Fixed(0), latency: workload::Latency::Constant(0) };
    let Workload { steps, .. } = plan.workload.workload(&pages, Rate(1.0), plan.seed);
    let shared = Rc::new(Shared {
        to: plan.to,
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
            elapsed: Duration::ZERO,
        }),
    });
    let tasks = LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        let mut clients = Vec::new();
        for _ in 0..plan.clients {
            let connection = connect(plan.to).await?;
            clients.push(tokio::task::spawn_local(Rc::clone(&shared).work(connection)));
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

type Connection = SendRequest<Full<Bytes>>;

async fn connect(to: SocketAddr) -> io::Result<Connection> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // How it ends is told to whoever waits for an answer.
    tokio::task::spawn_local(async { drop(connection.await) });
    Ok(sender)
}

/// What clients have in common.
struct Shared {
    to: SocketAddr,
    begun: Instant,
    limit: Duration,
    steps: RefCell<Box<dyn Iterator<Item = Step>>>,
    ledger: RefCell<Ledger>,
    outcome: RefCell<Outcome>,
}

/// An answer, whole.
struct Answer {
    status: StatusCode,
    /// `None` if it is not of the services.
    versions: Option<Versions>,
    sent: Duration,
    received: Duration,
}

#[derive(Deserialize)]
struct Body {
    versions: Versions,
}

impl Shared {
    /// One client's work.
    async fn work(self: Rc<Self>, connection: Connection) {
        let mut connection = Some(connection);
        while self.begun.elapsed() < self.limit {
            let Some(step) = self.steps.borrow_mut().next() else { return };
            if connection.is_none() {
                connection = connect(self.to).await.ok();
            }
            let answer = match &mut connection {
                Some(connection) => self.ask(connection, &step).await,
                None => None,
            };
            if answer.is_none() {
                connection = None;
            }
            self.note(&step, answer);
        }
    }

    async fn ask(&self, connection: &mut Connection, step: &Step) -> Option<Answer> {
        connection.ready().await.ok()?;
        let request = Request::builder()
            .method(step.method.name())
            .uri(&step.path)
            .header(HOST, self.to.to_string())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(step.body.clone())))
            .ok()?;
        let sent = self.begun.elapsed();
        let whole = async {
            let (head, body) = connection.send_request(request).await.ok()?.into_parts();
            Some((head.status, body.collect().await.ok()?.to_bytes()))
        };
        let (status, body) = tokio::time::timeout(PATIENCE, whole).await.ok()??;
        let received = self.begun.elapsed();
        let versions = serde_json::from_slice(&body).ok().map(|Body { versions }| versions);
        Some(Answer { status, versions, sent, received })
    }

    fn note(&self, step: &Step, answer: Option<Answer>) {
        let mut outcome = self.outcome.borrow_mut();
        let Some(Answer { status, versions, sent, received }) = answer else {
            outcome.failed += 1;
            return;
        };
        *outcome.statuses.entry(status.as_u16()).or_default() += 1;
        let latency = if step.method == Method::Get { &mut outcome.reads } else { &mut outcome.writes };
        latency.0.saturating_record(u64::try_from((received - sent).as_nanos()).unwrap_or(u64::MAX));
        let Some(versions) = versions.filter(|_| !status.is_server_error()) else {
            outcome.failed += 1;
            return;
        };
        if step.method != Method::Get {
            if status.is_success() {
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
