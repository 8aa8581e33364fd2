//! Sends requests by the load driver, and records the results.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use http::StatusCode;
use larder_lab::workload::Requests;
use larder_load::{AnsweredRequest, Load, Onlooker, Outcome, Pace, Reply};

use super::client::describe;
use super::explanations::{first_line, reason};
use super::page_output::PageOutput;
use super::server::Server;
use crate::cli::Failure;
use crate::cli::progress::Bar;
use crate::cli::units::{about_count, about_time};

/// The longest time that is recorded exactly, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;
/// The most failures that are kept as text.
const KEPT: usize = 1_000;
/// The interval at which the progress line changes.
const BETWEEN: Duration = Duration::from_millis(100);
/// The seed of the times at which requests are due.
const SEED: u64 = 1;

/// The requests to send, and the way to send them.
pub(super) struct Plan {
    pub(super) requests: Requests,
    /// How often all requests are sent.
    pub(super) times: usize,
    pub(super) connections: usize,
    /// Requests per second; `None`: a request follows each answer.
    pub(super) rate: Option<f64>,
    /// Whether an answer with this status counts as a success.
    pub(super) accepts: fn(u16) -> bool,
}

/// The client's measurements.
pub(super) struct ClientFigures {
    /// Requests so far.
    pub(super) requests: u64,
    /// Requests that failed.
    pub(super) errors: u64,
    /// Answers from a cache, and other answers, according to `Cache-Status`.
    pub(super) hits: u64,
    pub(super) misses: u64,
    /// Bytes of content of all answers.
    pub(super) bytes: u64,
    /// The number of answers with each status.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// The time from the first request to the last answer.
    pub(super) elapsed: Duration,
    /// Times from the moment at which a request was due to its answer, in microseconds.
    pub(super) times: Histogram<u64>,
    /// Times from the sending of a request to its answer, in microseconds.
    pub(super) served: Histogram<u64>,
    /// The planned requests per second; `None` if answers decided.
    pub(super) rate: Option<f64>,
    /// Failed requests with the reason; only the first ones if there are many.
    pub(super) failures: Vec<String>,
}

/// Sends the requests of `plan`, and keeps pages as `keep` says. Errors: no requests can be sent. A request that fails
/// is only counted.
pub(super) fn run(server: &Server, plan: Plan, keep: PageOutput) -> Result<ClientFigures, Failure> {
    let total = plan.requests.len().saturating_mul(plan.times);
    let (via, dialect) = server.dialect();
    let (clients, to) = (plan.connections, resolved(&server.address)?);
    let pace = match plan.rate {
        Some(rate) => Pace::Open { rate, clients, seed: SEED },
        None => Pace::Closed { clients },
    };
    let has_https = plan.requests.urls().iter().any(|url| url.starts_with("https:"));
    let load = Load {
        dialect,
        times: plan.times,
        pace,
        patience: server.patience,
        accepts: plan.accepts,
        foreign: if has_https || server.speaks_http2() { server.tunnels() } else { None },
        is_foreign: server.speaks_http2(),
        ..Load::new(to, via, plan.requests)
    };
    let watch = Watch {
        seen: ClientFigures::new(plan.rate)?,
        keep,
        name: server.via.name(),
        bar: Bar::new(server.via.name(), total),
        begun: Instant::now(),
        shown: Instant::now(),
    };
    let watch = Rc::new(RefCell::new(watch));
    let sent = load.send(Rc::clone(&watch) as Rc<RefCell<dyn Onlooker>>);
    let watch =
        Rc::into_inner(watch).ok_or_else(|| Failure::Failed("a client is still at work".to_owned()))?;
    let Watch { mut seen, bar, .. } = watch.into_inner();
    bar.finish();
    seen.elapsed = sent.map_err(|halt| Failure::Failed(halt.to_string()))?.elapsed;
    Ok(seen)
}

fn resolved(server: &str) -> Result<SocketAddr, Failure> {
    let failed = |why: String| Failure::Failed(format!("cannot connect to {server}: {why}"));
    let addresses = server.to_socket_addrs().map_err(|error| failed(describe(&error)))?;
    let addresses: Vec<_> = addresses.collect();
    // A name may have an address without a listener, such as that of the other version of IP.
    let answers = |to: &&SocketAddr| std::net::TcpStream::connect(*to).is_ok();
    let found = if addresses.len() > 1 { addresses.iter().find(answers) } else { None };
    found.or(addresses.first()).copied().ok_or_else(|| failed("no such address".to_owned()))
}

impl ClientFigures {
    pub(super) fn new(rate: Option<f64>) -> Result<Self, Failure> {
        let times = Histogram::new_with_bounds(1, LONGEST, 3);
        let times = times.map_err(|error| Failure::Failed(format!("cannot measure: {error}")))?;
        Ok(Self {
            requests: 0,
            errors: 0,
            hits: 0,
            misses: 0,
            bytes: 0,
            statuses: BTreeMap::new(),
            elapsed: Duration::ZERO,
            served: times.clone(),
            times,
            rate,
            failures: Vec::new(),
        })
    }

    /// Records a request and its answer.
    fn note(&mut self, answered: &AnsweredRequest<'_>) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(LONGEST).max(1);
        self.requests += 1;
        if let Ok(reply) = answered.reply {
            *self.statuses.entry(reply.status).or_default() += 1;
            self.times.saturating_record(micros(answered.took));
            self.served.saturating_record(micros(answered.served));
            self.bytes += reply.bytes;
        }
        match answered.outcome {
            Outcome::Hit => self.hits += 1,
            Outcome::Miss => self.misses += 1,
            Outcome::Answered => {}
            Outcome::Failed => {
                let why = answered.reply.map_or_else(str::to_owned, why);
                self.fail(answered, &why);
            }
        }
    }

    fn fail(&mut self, answered: &AnsweredRequest<'_>, why: &str) {
        self.errors += 1;
        if self.failures.len() < KEPT {
            let method = if answered.sent.method == "GET" { "" } else { answered.sent.method };
            self.failures.push(format!("{method} {}: {why}", answered.sent.url).trim_start().to_owned());
        }
    }

    /// Returns the progress line.
    fn progress(&self, name: &str, elapsed: Duration) -> String {
        let rate = self.requests as f64 / elapsed.as_secs_f64().max(1e-9);
        let within = |share| about_time(self.times.value_at_quantile(share) as f64);
        let failed =
            if self.errors > 0 { format!(", {} failed", about_count(self.errors)) } else { String::new() };
        format!(
            "{name} {} requests, {}/s, 50% within {}, 99% {}{failed}",
            about_count(self.requests),
            about_count(rate as u64),
            within(0.5),
            within(0.99)
        )
    }
}

/// Returns the reason why a request with this answer failed.
fn why(reply: &Reply) -> String {
    let text = first_line(&reply.content);
    let is_ours = text.starts_with(&format!("{}: ", reply.status));
    let why = match StatusCode::from_u16(reply.status) {
        Ok(status) if is_ours => reason(status, &text),
        Ok(status) if reply.reason.is_empty() => reason(status, ""),
        _ => reply.reason.clone(),
    };
    format!("{} {why}", reply.status)
}

/// Receives answers as they arrive.
struct Watch {
    seen: ClientFigures,
    keep: PageOutput,
    /// The name of the protocol.
    name: &'static str,
    bar: Bar,
    begun: Instant,
    /// When the progress line was last changed.
    shown: Instant,
}

impl Onlooker for Watch {
    fn wants_content(&self) -> bool {
        self.keep.keeps()
    }

    fn see(&mut self, answered: &AnsweredRequest<'_>) {
        self.seen.note(answered);
        if let Ok(reply) = answered.reply
            && self.keep.keeps()
            && (200..300).contains(&reply.status)
            && let Err(why) = self.keep.page(answered.sent.url, &reply.content)
        {
            self.seen.fail(answered, &why);
        }
        self.bar.advance(1);
        if self.shown.elapsed() >= BETWEEN && self.bar.is_shown() {
            self.shown = Instant::now();
            self.bar.say(self.seen.progress(self.name, self.begun.elapsed()));
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_lab::workload::SentRequest;

    use super::*;

    fn seen() -> ClientFigures {
        ClientFigures::new(None).unwrap_or_else(|_| panic!("there is room"))
    }

    fn see(seen: &mut ClientFigures, method: &str, reply: Result<&Reply, &str>, outcome: Outcome, ms: u64) {
        let sent = SentRequest { method, url: "http://a/", fields: &[], body: "" };
        let (took, served) = (Duration::from_millis(ms), Duration::from_millis(1));
        let begun = Duration::ZERO;
        seen.note(&AnsweredRequest { sent, outcome, begun, reply, took, served });
    }

    #[test]
    fn answers_are_counted_by_their_status_and_failures_told() {
        let reply = |status, reason: &str, content: &'static str| Reply {
            status,
            reason: reason.to_owned(),
            bytes: 10,
            content: content.into(),
            ..Reply::default()
        };
        let mut seen = seen();
        see(&mut seen, "GET", Ok(&reply(200, "", "")), Outcome::Hit, 2);
        see(&mut seen, "GET", Ok(&reply(404, "Not Found", "no")), Outcome::Miss, 4);
        see(&mut seen, "PUT", Ok(&reply(502, "Bad Gateway", "502: no connection")), Outcome::Failed, 6);
        see(&mut seen, "GET", Ok(&reply(503, "Busy", "<html>")), Outcome::Failed, 8);
        see(&mut seen, "GET", Err("no answer in 3 seconds"), Outcome::Failed, 3_000);
        assert_eq!((seen.requests, seen.errors, seen.hits, seen.misses, seen.bytes), (5, 3, 1, 1, 40));
        assert_eq!(seen.statuses, BTreeMap::from([(200, 1), (404, 1), (502, 1), (503, 1)]));
        let failures =
            ["PUT http://a/: 502 no connection", "http://a/: 503 Busy", "http://a/: no answer in 3 seconds"];
        assert_eq!(seen.failures, failures);
        // A request without an answer has no time.
        assert_eq!((seen.times.len(), seen.served.max()), (4, 1_000));
        let line = seen.progress("http", Duration::from_secs(2));
        assert_eq!(line, "http 5 requests, 2/s, 50% within 4.00 ms, 99% 8.00 ms, 3 failed");
    }
}
