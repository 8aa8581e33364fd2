//! The measuring load driver: sends a list of requests over one of the proxy's protocols, and times every answer. The
//! experiments and `larder fetch` use it.
//!
//! In a closed loop, each client sends when its last answer has arrived. In an open loop, requests are due at times
//! that are independent of answers, and the latency of each counts from its due time: so a stall of the proxy adds to
//! the latency of all requests that were due meanwhile (no coordinated omission).
//!
//! A [`Connection`] alone is a client for loads of another order.

mod connection;
mod halt;
pub mod head;
mod http;
mod http2;
mod pace;
mod reply;
mod requests;
pub mod timer;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::LocalSet;

pub use self::connection::{Connection, Dialect, ForeignClient, Via};
pub use self::halt::Halt;
pub use self::http::Fault;
pub use self::pace::Pace;
pub use self::reply::Reply;
pub use self::requests::{More, RequestCollector, Requests, SentRequest};
use self::timer::Timer;

/// The default timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The requests to send, and the way to send them.
#[derive(Clone)]
pub struct Load {
    /// The server.
    pub to: SocketAddr,
    /// The protocol.
    pub via: Via,
    /// The form of the protocol.
    pub dialect: Dialect,
    /// The requests. The list is sent `times` times.
    pub requests: Requests,
    /// The number of times.
    pub times: usize,
    /// The times at which requests are sent.
    pub pace: Pace,
    /// The timeout of an answer.
    pub patience: Duration,
    /// Whether an answer with this status is no failure.
    pub accepts: fn(u16) -> bool,
    /// The number of requests that the origin has received. With one client at a time, it distinguishes hits from
    /// misses if the protocol does not.
    pub origin: Option<Arc<AtomicU64>>,
    /// Creates a client for `https` URLs, which are passed to it.
    pub foreign: Option<ForeignFactory>,
    /// Whether that client receives all URLs.
    pub is_foreign: bool,
    /// The time after which no further request is sent, if there is a limit.
    pub limit: Option<Duration>,
    /// Returns the number of the node that receives a URL, of several nodes; without it, they receive requests in turn.
    pub pick: Option<Pick>,
    /// Set when the user ends the run.
    pub stop: Arc<AtomicBool>,
}

/// Selects a node for a URL.
pub type Pick = Arc<dyn Fn(&str) -> usize>;

/// Creates a client of another kind, or returns the reason why it cannot, in one line.
pub type ForeignFactory = Arc<dyn Fn() -> Result<Box<dyn ForeignClient>, String>>;

/// Receives each answer when it arrives.
pub trait Onlooker {
    /// Whether the contents are needed.
    fn wants_content(&self) -> bool {
        false
    }

    /// Receives the answer to a request.
    fn see(&mut self, answered: &AnsweredRequest<'_>);
}

/// A request with its outcome.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredRequest<'a> {
    /// The request.
    pub sent: SentRequest<'a>,
    /// The outcome.
    pub outcome: Outcome,
    /// The time from the start of the load to that of the request.
    pub begun: Duration,
    /// The answer, even if its status is a failure; or the reason why there is none.
    pub reply: Result<&'a Reply, &'a str>,
    /// The time from when it was due, or otherwise sent, to the end of the answer.
    pub took: Duration,
    /// The time from when it was sent to the end of the answer.
    pub served: Duration,
}

/// An onlooker that ignores all answers.
struct NoOnlooker;

impl Onlooker for NoOnlooker {
    fn see(&mut self, _: &AnsweredRequest<'_>) {}
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the cache.
    Hit,
    /// Answered by the origin.
    Miss,
    /// Answered; the source is unknown.
    Answered,
    /// Not answered, or with an error.
    Failed,
}

/// The clients' results.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// The time from the first request to the last answer.
    pub elapsed: Duration,
    /// By request: its outcome, and its time in microseconds.
    pub answers: Vec<(Outcome, u32)>,
    /// Bytes of content.
    pub bytes: u64,
    /// The processor time of all clients together.
    pub processor: Duration,
    /// The reason of the first failure.
    pub failure: Option<String>,
}

impl LoadResult {
    /// Returns the number of requests with `outcome`.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.answers.iter().filter(|(became, _)| *became == outcome).count() as u64
    }

    /// Hits over requests.
    pub fn hit_ratio(&self) -> f64 {
        self.count(Outcome::Hit) as f64 / self.answers.len().max(1) as f64
    }

    /// Returns the mean time of requests with `outcome`, or of all requests, in milliseconds.
    pub fn mean(&self, outcome: Option<Outcome>) -> f64 {
        let counted =
            self.answers.iter().filter(|(became, _)| outcome.is_none_or(|outcome| outcome == *became));
        let (count, sum) =
            counted.fold((0, 0), |(count, sum), (_, time)| (count + 1, sum + u64::from(*time)));
        sum as f64 / 1e3 / f64::from(count.max(1))
    }

    /// Returns the time within which `share` of the requests were answered, in milliseconds.
    pub fn percentile(&self, share: f64) -> f64 {
        let Ok(mut times) = Histogram::<u64>::new_with_bounds(1, u32::MAX.into(), 3) else { return f64::NAN };
        self.answers.iter().for_each(|(_, time)| times.saturating_record(u64::from(*time)));
        times.value_at_quantile(share) as f64 / 1e3
    }
}

impl Load {
    /// Returns a load with one client, whose answers must have status 200.
    pub fn new(to: SocketAddr, via: Via, requests: Requests) -> Self {
        Self {
            to,
            via,
            dialect: Dialect::default(),
            requests,
            times: 1,
            pace: Pace::Closed { clients: 1 },
            patience: PATIENCE,
            accepts: |status| status == 200,
            origin: None,
            foreign: None,
            is_foreign: false,
            limit: None,
            pick: None,
            stop: Arc::default(),
        }
    }

    /// Sends all requests.
    ///
    /// # Errors
    /// If the user ends the run, or an answer is missing.
    pub fn run(self) -> Result<LoadResult, Halt> {
        let to = [self.to];
        self.run_over(&to)
    }

    /// Sends all requests as a load balancer does, each to the next of `nodes`, in place of the load's own server.
    ///
    /// # Errors
    /// The same as for [`run`](Self::run).
    pub fn run_over(self, nodes: &[SocketAddr]) -> Result<LoadResult, Halt> {
        let seen = self.send_over(nodes, Rc::new(RefCell::new(NoOnlooker)))?;
        match &seen.failure {
            None => Ok(seen),
            Some(why) => Err(Halt::Failed(format!(
                "{} of {} requests failed: {why}",
                seen.count(Outcome::Failed),
                seen.answers.len()
            ))),
        }
    }

    /// Sends all requests, and passes each answer to `onlooker`. Answers may be missing.
    ///
    /// # Errors
    /// If the user ends the run, or the system lacks resources.
    pub fn send(self, onlooker: Rc<RefCell<dyn Onlooker>>) -> Result<LoadResult, Halt> {
        let to = [self.to];
        self.send_over(&to, onlooker)
    }

    /// Sends the requests over several nodes, in place of the load's own server.
    ///
    /// # Errors
    /// The same as for [`send`](Self::send).
    pub fn send_over(
        self,
        nodes: &[SocketAddr],
        onlooker: Rc<RefCell<dyn Onlooker>>,
    ) -> Result<LoadResult, Halt> {
        let failed = |error| Halt::because("cannot send requests", error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let length = self.requests.len() * self.times;
        let dues = self.pace.dues(length);
        let count = self.pace.clients().min(length);
        let clients = runtime.block_on(self.connect(nodes, count))?;
        let timer = {
            let _inside = runtime.enter();
            Timer::new().map_err(failed)?
        };
        let before = spent_by_thread();
        let wants = onlooker.borrow().wants_content();
        let work = Rc::new(RunState {
            answers: RefCell::new(vec![(Outcome::Failed, 0); length]),
            dues,
            next: Cell::new(0),
            bytes: Cell::new(0),
            failure: RefCell::new(None),
            begun: Instant::now(),
            timer,
            onlooker,
            wants,
            load: self,
        });
        let tasks = LocalSet::new();
        for client in clients {
            tasks.spawn_local(client.work(Rc::clone(&work)));
        }
        runtime.block_on(async {
            tokio::select! {
                () = tasks => Ok(()),
                ended = work.timer.run() => ended.map_err(failed),
            }
        })?;
        let elapsed = work.begun.elapsed();
        if work.load.stop.load(Ordering::Relaxed) {
            return Err(Halt::Stopped);
        }
        Ok(LoadResult {
            elapsed,
            processor: spent_by_thread().saturating_sub(before),
            answers: work.answers.take(),
            bytes: work.bytes.get(),
            failure: work.failure.take(),
        })
    }

    /// Returns clients with connections to each node, before the measurement starts. A client without a connection
    /// tries again at its first request, and reports the error.
    async fn connect(&self, nodes: &[SocketAddr], count: usize) -> Result<Vec<Client>, Halt> {
        let mut all: Vec<Client> = Vec::with_capacity(count);
        for _ in 0..count {
            let mut ways = Vec::with_capacity(nodes.len());
            for (at, &node) in nodes.iter().enumerate() {
                let first = all.first().and_then(|client| client.ways[at].1.as_ref());
                let connection = match first.and_then(Connection::share) {
                    Some(shared) => Some(shared),
                    None => Connection::open(self.via, self.dialect, node).await.ok(),
                };
                ways.push((node, connection));
            }
            let foreign = self.foreign.as_ref().map(|make| make()).transpose().map_err(Halt::Failed)?;
            all.push(Client { ways, foreign });
        }
        Ok(all)
    }
}

/// The state that all clients share.
struct RunState {
    load: Load,
    dues: Option<Vec<Duration>>,
    timer: Timer,
    next: Cell<usize>,
    answers: RefCell<Vec<(Outcome, u32)>>,
    bytes: Cell<u64>,
    failure: RefCell<Option<String>>,
    onlooker: Rc<RefCell<dyn Onlooker>>,
    wants: bool,
    begun: Instant,
}

/// The times of a request, as in [`AnsweredRequest`].
struct Times {
    begun: Duration,
    took: Duration,
    served: Duration,
}

struct Client {
    /// The nodes, each with a connection if there is one.
    ways: Vec<(SocketAddr, Option<Connection>)>,
    foreign: Option<Box<dyn ForeignClient>>,
}

impl Client {
    /// Repeatedly takes the next request that no other client has taken.
    async fn work(mut self, work: Rc<RunState>) {
        let (load, count) = (&work.load, self.ways.len());
        let is_over = || load.limit.is_some_and(|limit| work.begun.elapsed() >= limit);
        while !load.stop.load(Ordering::Relaxed) && !is_over() {
            let at = work.next.replace(work.next.get() + 1);
            if at >= load.requests.len() * load.times {
                return;
            }
            let sent = load.requests.get(at % load.requests.len());
            let due = work.wait(at).await;
            let begun = Instant::now();
            let asked = || load.origin.as_ref().map(|count| count.load(Ordering::Relaxed));
            let before = asked();
            let node = load.pick.as_ref().map_or(at % count, |pick| pick(sent.url));
            let reply = tokio::time::timeout(load.patience, self.ask(&work, node, sent)).await;
            let late = |_| Err(format!("no answer in {} seconds", load.patience.as_secs_f64()));
            let reply = reply.unwrap_or_else(late);
            let served = begun.elapsed();
            let took = due.map_or(served, |due| due.elapsed());
            let times = Times { begun: begun - work.begun, took, served };
            work.note(at, sent, &reply, (before, asked()), times);
        }
    }

    /// Returns the answer to `sent`. If the server closed the connection before any byte arrived, the client opens it
    /// again once, unless the request may have been carried out (RFC 9110, section 9.2.2).
    async fn ask(&mut self, work: &RunState, node: usize, sent: SentRequest<'_>) -> Result<Reply, String> {
        let is_foreign = work.load.is_foreign || sent.url.starts_with("https:");
        if let Some(foreign) = self.foreign.as_mut().filter(|_| is_foreign) {
            return foreign.ask(sent, work.wants).await;
        }
        let Some((to, connection)) = self.ways.get_mut(node) else { return Err("no server".to_owned()) };
        let mut old = connection.take();
        loop {
            let (mut there, is_old) = match old.take() {
                Some(there) => (there, true),
                None => (Connection::open(work.load.via, work.load.dialect, *to).await?, false),
            };
            match there.ask(sent, work.wants).await {
                Ok((reply, is_kept)) => {
                    *connection = is_kept.then_some(there);
                    return Ok(reply);
                }
                Err(fault) if is_old && fault.is_closed && !matches!(sent.method, "POST" | "PATCH") => {}
                Err(fault) => return Err(fault.why),
            }
        }
    }
}

impl RunState {
    /// Waits until request `at` is due, and returns the due time, from which its latency counts. Returns `None` in a
    /// closed loop.
    async fn wait(&self, at: usize) -> Option<Instant> {
        let due = self.begun + *self.dues.as_ref()?.get(at)?;
        // Without a system timer, the request is early.
        let _ = self.timer.wait(due.saturating_duration_since(Instant::now())).await;
        Some(due)
    }

    /// Records the outcome of request `at`, with the origin's number of requests before and after it.
    fn note(
        &self,
        at: usize,
        sent: SentRequest<'_>,
        reply: &Result<Reply, String>,
        (before, after): (Option<u64>, Option<u64>),
        Times { begun, took, served }: Times,
    ) {
        let mut failed = None;
        let outcome = match reply {
            Ok(reply) if (self.load.accepts)(reply.status) => {
                self.bytes.set(self.bytes.get() + reply.bytes);
                match (reply.is_hit(), before) {
                    (Some(true), _) => Outcome::Hit,
                    (Some(false), _) => Outcome::Miss,
                    (None, Some(_)) if before == after => Outcome::Hit,
                    (None, Some(_)) => Outcome::Miss,
                    (None, None) => Outcome::Answered,
                }
            }
            Ok(Reply { status, reason, .. }) => {
                failed = Some(format!("{status} {reason}"));
                Outcome::Failed
            }
            Err(why) => {
                failed = Some(why.clone());
                Outcome::Failed
            }
        };
        if let Some(why) = failed {
            self.failure.borrow_mut().get_or_insert(why);
        }
        self.answers.borrow_mut()[at] = (outcome, u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        let reply = reply.as_ref().map_err(String::as_str);
        self.onlooker.borrow_mut().see(&AnsweredRequest { sent, outcome, begun, reply, took, served });
    }
}

/// Returns the processor time of this thread.
pub fn spent_by_thread() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
