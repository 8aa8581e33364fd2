//! The measuring load driver: sends a list of requests over one of the proxy's protocols, and times every answer.
//!
//! In a closed loop each client sends when its last answer has arrived. In an open loop requests are due at moments that do
//! not depend on answers, and the time of each counts from when it was due: so a proxy that stalls is charged for all
//! requests that were due meanwhile (no coordinated omission).

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hdrhistogram::Histogram;
use larder_rpc::line::Form;
use larder_rpc::thrift::{Protocol, Transport};
use larder_rpc::{Answer, Call, Calling, Limits, line, onc, thrift};
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Exp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::machine::spent_by_thread;
use super::{Halt, http};
use crate::workload::Random;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// HTTP/1.1, as to a forward proxy.
    Http,
    /// Thrift, framed and binary.
    Thrift,
    /// ONC RPC over TCP.
    Onc,
    /// The line protocol, framed.
    Line,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By so many clients, each after its last answer.
    Closed {
        /// How many.
        clients: usize,
    },
    /// At random moments (a Poisson process).
    Open {
        /// Requests a second.
        rate: f64,
        /// How many may be under way; what is due beyond them waits, and its time counts.
        clients: usize,
        /// For the moments.
        seed: u64,
    },
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// To whom.
    pub to: SocketAddr,
    /// By which protocol.
    pub via: Via,
    /// Every URL once.
    pub urls: Vec<String>,
    /// Which of them is asked for, in order.
    pub order: Vec<u32>,
    /// When.
    pub pace: Pace,
    /// How many requests the origin has seen. With one client at a time it tells hits from misses where the protocol
    /// does not say it.
    pub origin: Option<Arc<AtomicU64>>,
    /// Set when the user wants an end.
    pub stop: Arc<AtomicBool>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the cache.
    Hit,
    /// The origin was asked.
    Miss,
    /// Answered; the source is unknown.
    Answered,
    /// Not answered, or with an error.
    Failed,
}

/// What the clients saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// By request: its outcome, and after how many microseconds.
    pub answers: Vec<(Outcome, u32)>,
    /// Bytes of content.
    pub bytes: u64,
    /// What all clients together took of the processor.
    pub processor: Duration,
    /// Why requests failed; the first of them.
    pub failure: Option<String>,
}

impl Seen {
    /// How many requests became `outcome`.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.answers.iter().filter(|(became, _)| *became == outcome).count() as u64
    }

    /// Hits over requests.
    pub fn hit_ratio(&self) -> f64 {
        crate::replay::ratio(self.count(Outcome::Hit) as f64, self.answers.len() as f64)
    }

    /// What requests took on average that became `outcome`, or all of them, in milliseconds.
    pub fn mean(&self, outcome: Option<Outcome>) -> f64 {
        let counted =
            self.answers.iter().filter(|(became, _)| outcome.is_none_or(|outcome| outcome == *became));
        let (count, sum) =
            counted.fold((0, 0), |(count, sum), (_, time)| (count + 1, sum + u64::from(*time)));
        crate::replay::ratio(sum as f64 / 1e3, f64::from(count))
    }

    /// What `share` of the requests took at most, in milliseconds.
    pub fn percentile(&self, share: f64) -> f64 {
        let Ok(mut times) = Histogram::<u64>::new_with_bounds(1, u32::MAX.into(), 3) else { return f64::NAN };
        self.answers.iter().for_each(|(_, time)| times.saturating_record(u64::from(*time)));
        times.value_at_quantile(share) as f64 / 1e3
    }
}

impl Load {
    /// Sends it all.
    ///
    /// # Errors
    /// When the user wants an end, or an answer is missing.
    pub fn run(self) -> Result<Seen, Halt> {
        let to = [self.to];
        self.run_over(&to)
    }

    /// Sends it all as a balancer does, each request to the next of `nodes`, wherever the load itself says.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_over(self, nodes: &[SocketAddr]) -> Result<Seen, Halt> {
        let seen = self.send_over(nodes)?;
        match &seen.failure {
            None => Ok(seen),
            Some(why) => Err(Halt::Failed(format!(
                "{} of {} requests failed: {why}",
                seen.count(Outcome::Failed),
                seen.answers.len()
            ))),
        }
    }

    /// Sends it all, where answers may be missing.
    ///
    /// # Errors
    /// When the user wants an end, or the system has no room.
    pub fn send(self) -> Result<Seen, Halt> {
        let to = [self.to];
        self.send_over(&to)
    }

    fn send_over(self, nodes: &[SocketAddr]) -> Result<Seen, Halt> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Halt::because("cannot send requests", error))?;
        let dues = self.pace.dues(self.order.len());
        let count = self.pace.clients().min(self.order.len());
        let connections = runtime.block_on(connect(self.via, nodes, count));
        let before = spent_by_thread();
        let work = Rc::new(Work {
            answers: RefCell::new(vec![(Outcome::Failed, 0); self.order.len()]),
            dues,
            next: Cell::new(0),
            bytes: Cell::new(0),
            failure: RefCell::new(None),
            begun: Instant::now(),
            load: self,
        });
        let clients = LocalSet::new();
        for nodes in connections {
            clients.spawn_local(client(Rc::clone(&work), nodes));
        }
        runtime.block_on(clients);
        let elapsed = work.begun.elapsed();
        if work.load.stop.load(Ordering::Relaxed) {
            return Err(Halt::Stopped);
        }
        Ok(Seen {
            elapsed,
            processor: spent_by_thread().saturating_sub(before),
            answers: work.answers.take(),
            bytes: work.bytes.get(),
            failure: work.failure.take(),
        })
    }
}

impl Pace {
    fn clients(self) -> usize {
        let (Self::Closed { clients } | Self::Open { clients, .. }) = self;
        clients.max(1)
    }

    /// When each of `count` requests is due, from the start; nothing where answers say so.
    fn dues(self, count: usize) -> Option<Vec<Duration>> {
        let Self::Open { rate, seed, .. } = self else { return None };
        let gaps = Exp::new(rate).or_else(|_| Exp::new(1.0)).expect("positive");
        let mut random = Random::seed_from_u64(seed);
        let mut due = 0.0;
        let next = |_| {
            due += gaps.sample(&mut random);
            Duration::from_secs_f64(due)
        };
        Some((0..count).map(next).collect())
    }
}

/// What all clients share.
struct Work {
    load: Load,
    dues: Option<Vec<Duration>>,
    next: Cell<usize>,
    answers: RefCell<Vec<(Outcome, u32)>>,
    bytes: Cell<u64>,
    failure: RefCell<Option<String>>,
    begun: Instant,
}

/// A way to a node: where it is, and a connection to it if there is one.
type Way = (SocketAddr, Option<Connection>);

/// Connections of each client to each node, before the clock runs. A client that gets none tries again with the first
/// request, and reports the error.
async fn connect(via: Via, nodes: &[SocketAddr], clients: usize) -> Vec<Vec<Way>> {
    let mut all = Vec::with_capacity(clients);
    for _ in 0..clients {
        let mut ways = Vec::with_capacity(nodes.len());
        for &node in nodes {
            ways.push((node, Connection::open(via, node).await.ok()));
        }
        all.push(ways);
    }
    all
}

/// Takes the next request that no other client has, again and again.
async fn client(work: Rc<Work>, mut nodes: Vec<Way>) {
    let count = nodes.len();
    while !work.load.stop.load(Ordering::Relaxed) {
        let at = work.next.replace(work.next.get() + 1);
        let Some(&page) = work.load.order.get(at) else { return };
        let Some((to, connection)) = nodes.get_mut(at % count) else { return };
        let from = work.wait(at).await;
        let answer = tokio::time::timeout(PATIENCE, work.ask(connection, *to, page)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer in {} seconds", PATIENCE.as_secs())));
        let outcome = match answer {
            Ok((outcome, bytes)) => {
                work.bytes.set(work.bytes.get() + bytes);
                outcome
            }
            Err(why) => {
                *connection = None;
                work.failure.borrow_mut().get_or_insert(why);
                Outcome::Failed
            }
        };
        let took = u32::try_from(from.elapsed().as_micros()).unwrap_or(u32::MAX);
        work.answers.borrow_mut()[at] = (outcome, took);
    }
}

impl Work {
    /// Waits until request `at` is due; says from when its time counts.
    async fn wait(&self, at: usize) -> Instant {
        let Some(dues) = &self.dues else { return Instant::now() };
        let due = self.begun + dues[at];
        tokio::time::sleep_until(due.into()).await;
        due
    }

    async fn ask(
        &self,
        connection: &mut Option<Connection>,
        to: SocketAddr,
        page: u32,
    ) -> Result<(Outcome, u64), String> {
        let asked = || self.load.origin.as_ref().map(|count| count.load(Ordering::Relaxed));
        let before = asked();
        let there = match connection.take() {
            Some(there) => there,
            None => Connection::open(self.load.via, to).await?,
        };
        let there = connection.insert(there);
        let (said, bytes) = there.ask(&self.load.urls[page as usize]).await?;
        let outcome = match (said, before) {
            (Outcome::Answered, Some(_)) if asked() == before => Outcome::Hit,
            (Outcome::Answered, Some(_)) => Outcome::Miss,
            (said, _) => said,
        };
        Ok((outcome, bytes))
    }
}

enum Connection {
    Http(http::Connection),
    Rpc { stream: TcpStream, codec: Box<dyn Calling>, buffer: BytesMut },
}

impl Connection {
    async fn open(via: Via, to: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(to).await;
        let stream = stream.map_err(|error| format!("cannot connect to {to}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let limits = Limits::default();
        let codec: Box<dyn Calling> = match via {
            Via::Http => return Ok(Self::Http(http::Connection::new(stream))),
            Via::Thrift => Box::new(thrift::Client::new(Transport::Framed, Protocol::Binary, limits)),
            Via::Onc => Box::new(onc::Client::new(std::process::id(), limits)),
            Via::Line => Box::new(line::Client::new(Form::Framed, limits)),
        };
        Ok(Self::Rpc { stream, codec, buffer: BytesMut::new() })
    }

    /// What the answer says of itself, and how long its content is.
    async fn ask(&mut self, url: &str) -> Result<(Outcome, u64), String> {
        match self {
            Self::Http(connection) => {
                let http::Answer { cache, bytes } = connection.get(url).await?;
                let outcome = match cache {
                    None => Outcome::Answered,
                    Some(is_hit) if is_hit => Outcome::Hit,
                    Some(_) => Outcome::Miss,
                };
                Ok((outcome, bytes))
            }
            Self::Rpc { stream, codec, buffer } => {
                let call = codec.encode(&Call::Fetch { url: url.to_owned() }).map_err(|error| error.0)?;
                stream.write_all(&call).await.map_err(|error| error.to_string())?;
                loop {
                    match codec.decode(buffer).map_err(|error| error.0)? {
                        Some(Answer::Page(page)) => return Ok((Outcome::Answered, page.len() as u64)),
                        Some(Answer::Failure(failure)) => return Err(failure.why),
                        Some(_) => return Err("an answer to another call".to_owned()),
                        None => {}
                    }
                    buffer.reserve(64 << 10);
                    if stream.read_buf(buffer).await.map_err(|error| error.to_string())? == 0 {
                        return Err("the connection closed before the answer was whole".to_owned());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::course::{Course, Page};
    use crate::live::origin::{Effort, Model, Origin};

    fn load(origin: &Origin, course: &Course, pace: Pace) -> Load {
        Load {
            to: origin.address(),
            via: Via::Http,
            urls: course.urls(origin.address()),
            order: course.order.clone(),
            pace,
            origin: None,
            stop: Arc::default(),
        }
    }

    #[test]
    fn every_page_comes_whole_and_in_time() {
        let course = Course::once(20, Page { size: 70_000, cost: 10_000 });
        let origin = Origin::start(Model::of(&course.pages)).unwrap();
        let seen = load(&origin, &course, Pace::Closed { clients: 20 }).run().unwrap();
        assert_eq!((seen.bytes, seen.count(Outcome::Answered)), (20 * 70_000, 20));
        assert_eq!(origin.requests().load(Ordering::Relaxed), 20);
        assert!(seen.percentile(0.0) >= 9.9, "{}", seen.percentile(0.0));
        assert!(origin.processor() > Duration::ZERO);
    }

    #[test]
    fn several_are_asked_in_turn() {
        let course = Course::once(9, Page { size: 1, cost: 0 });
        let origins = [(); 3].map(|()| Origin::start(Model::of(&course.pages)).unwrap());
        let nodes = origins.each_ref().map(Origin::address);
        let load = load(&origins[0], &course, Pace::Closed { clients: 2 });
        assert_eq!(load.run_over(&nodes).unwrap().count(Outcome::Answered), 9);
        assert!(origins.iter().all(|origin| origin.requests().load(Ordering::Relaxed) == 3));
    }

    #[test]
    fn an_open_loop_charges_for_what_was_due() {
        // One at a time and 5 ms each, but due all at once.
        let course = Course::once(10, Page { size: 1, cost: 5_000 });
        let origin = Origin::start(Model { effort: Effort::Compute, ..Model::of(&course.pages) }).unwrap();
        let pace = Pace::Open { rate: 1e6, clients: 10, seed: 1 };
        let seen = load(&origin, &course, pace).run().unwrap();
        assert!(seen.percentile(1.0) >= 49.0, "{}", seen.percentile(1.0));
        assert!(seen.mean(None) >= 25.0, "{}", seen.mean(None));
    }

    #[test]
    fn failures_are_told_with_their_cause() {
        let course = Course::once(3, Page { size: 1, cost: 0 });
        let origin = Origin::start(Model { failures: 1.0, ..Model::of(&course.pages) }).unwrap();
        let failed = load(&origin, &course, Pace::Closed { clients: 1 }).run().unwrap_err();
        assert_eq!(failed.to_string(), "3 of 3 requests failed: 503 Service Unavailable");
    }

    #[test]
    fn who_is_told_to_stop_stops() {
        let course = Course::once(3, Page { size: 1, cost: 0 });
        let origin = Origin::start(Model::of(&course.pages)).unwrap();
        let load = load(&origin, &course, Pace::Closed { clients: 1 });
        load.stop.store(true, Ordering::Relaxed);
        assert_eq!(load.run().unwrap_err(), Halt::Stopped);
        assert_eq!(origin.requests().load(Ordering::Relaxed), 0);
    }
}
