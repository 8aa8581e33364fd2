//! Sends spans to the collector, on a dedicated thread. Requests do not wait for it.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self as blocking, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::super::memo::{RequestRecord, RequestResult};
use super::TraceReport;
use crate::base::networks::host_of;
use crate::base::settings::Door;
use crate::counts::span::{Call, Trace, Traceparent};
use crate::counts::versions;
use crate::observe::otlp::protobuf::Message;
use crate::observe::otlp::{Collector, Value, nanos};

/// Maximum of spans that wait to be sent.
const QUEUE: usize = 8_192;
/// Maximum of spans in one message.
const BATCH: usize = 512;
/// Maximum time that a span waits for others in its batch.
const DELAY: Duration = Duration::from_secs(1);
/// Maximum time that the end of the process waits for the last spans.
const LAST: Duration = Duration::from_secs(2);

/// Sends spans.
#[derive(Debug)]
pub(super) struct Exporter {
    /// `None` after the end.
    spans: RwLock<Option<mpsc::Sender<Message>>>,
    /// Closed when the thread has ended.
    thread: Mutex<blocking::Receiver<()>>,
    fate: Arc<Fate>,
}

/// Counts of spans by result.
#[derive(Debug, Default)]
struct Fate {
    queued: AtomicUsize,
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// The fields of a span for its kind and its attributes, in the numbers of OTLP.
const KIND: u32 = 6;
const ATTRIBUTES: u32 = 9;
/// The kinds of spans, and the status of one with an error.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const ERROR: u64 = 2;

impl Exporter {
    /// Starts to send to this collector. Fails if there is no thread.
    pub(super) fn start(collector: Collector) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (spans, queue) = mpsc::channel(QUEUE);
        let (ended, thread) = blocking::channel();
        let fate = Arc::new(Fate::default());
        let counts = Arc::clone(&fate);
        let work = move || {
            runtime.block_on(send(queue, &collector, &counts));
            drop(ended);
        };
        thread::Builder::new().name("traces".to_owned()).spawn(work)?;
        Ok(Self { spans: RwLock::new(Some(spans)), thread: Mutex::new(thread), fate })
    }

    /// Queues the spans of a request that has just ended.
    pub(super) fn export(&self, trace: &Trace, memo: &RequestRecord, ended: &RequestResult, took: Duration) {
        let span = span_of(memo, trace.own, trace.parent, (memo.begun, took)).number(KIND, SERVER);
        let span = with_attributes(span, memo, ended);
        self.queue(if ended.status >= 500 { failed(span, "") } else { span });
        for call in trace.calls() {
            let own = Traceparent { span: call.span, ..trace.own };
            let span = span_of(memo, own, Some(trace.own.span), (call.begun, call.took)).number(KIND, CLIENT);
            let span = with_attributes_of_call(span, memo, &call);
            self.queue(match call.answer {
                Ok(..400) => span,
                Ok(_) => failed(span, ""),
                Err(why) => failed(span, why.explanation()),
            });
        }
    }

    fn queue(&self, span: Message) {
        let spans = self.spans.read();
        let queued = &self.fate.queued;
        queued.fetch_add(1, Ordering::Relaxed);
        if spans.as_ref().is_none_or(|spans| spans.try_send(span).is_err()) {
            queued.fetch_sub(1, Ordering::Relaxed);
            self.fate.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn report(&self) -> TraceReport {
        let Fate { queued, sent, dropped } = &*self.fate;
        TraceReport {
            sent: sent.load(Ordering::Relaxed),
            queued: queued.load(Ordering::Relaxed) as u64,
            dropped: dropped.load(Ordering::Relaxed),
        }
    }

    pub(super) fn finish(&self) {
        drop(self.spans.write().take());
        let ended = self.thread.lock().recv_timeout(LAST);
        let lost = self.fate.queued.load(Ordering::Relaxed);
        if ended == Err(RecvTimeoutError::Timeout) && lost > 0 {
            tracing::warn!("{lost} spans were not sent before the end");
        }
    }
}

/// Sends the spans in `queue` until it is closed and empty.
async fn send(mut queue: mpsc::Receiver<Message>, collector: &Collector, fate: &Fate) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        let others = async {
            let mut left = BATCH - batch.len();
            while left > 0 && queue.recv_many(&mut batch, left).await > 0 {
                left = BATCH - batch.len();
            }
        };
        // Without others, those that are there are sent.
        let _ = tokio::time::timeout(DELAY, others).await;
        let spans = mem::take(&mut batch);
        let counter = if collector.send(&spans).await { &fate.sent } else { &fate.dropped };
        counter.fetch_add(spans.len() as u64, Ordering::Relaxed);
        fate.queued.fetch_sub(spans.len(), Ordering::Relaxed);
    }
}

/// Returns a span with what all spans have, as a message of OTLP.
fn span_of(
    memo: &RequestRecord,
    own: Traceparent,
    parent: Option<u64>,
    (begun, took): (Instant, Duration),
) -> Message {
    let start = SystemTime::now().checked_sub(begun.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH);
    let span = Message::default().bytes(1, &own.trace.to_be_bytes()).bytes(2, &own.span.to_be_bytes());
    let span = parent.iter().fold(span, |span, parent| span.bytes(4, &parent.to_be_bytes()));
    span.text(5, memo.method.as_str()).fixed(7, nanos(start)).fixed(8, nanos(start + took))
}

/// Adds an error with this description. Without one, a span has no status: HTTP status codes are attributes.
fn failed(span: Message, why: &str) -> Message {
    span.message(15, &Message::default().text(2, why).number(3, ERROR))
}

/// Adds the attributes of a request, with the names of OpenTelemetry's HTTP conventions where they exist.
fn with_attributes(span: Message, memo: &RequestRecord, ended: &RequestResult) -> Message {
    let outcome = &ended.outcome;
    let texts = [
        ("http.request.method", Some(memo.method.as_str())),
        ("url.full", Some(&*memo.target)),
        ("server.address", Some(memo.host())),
        ("network.protocol.name", Some(memo.door.map_or("http", Door::name))),
        ("network.protocol.version", memo.version.map(versions::name)),
        ("request.id", memo.id.as_deref()),
        ("cache.outcome", Some(outcome.kind.word())),
        ("cache.reason", Some(outcome.why.token())),
        ("cache.tier", outcome.is_hit().then(|| outcome.tier.name())),
        ("cache.site", memo.site.as_deref()),
    ];
    let texts = texts.into_iter().filter_map(|(key, value)| Some((key, Value::Text(value?))));
    let span = texts.fold(span, |span, (key, value)| span.attribute(ATTRIBUTES, key, &value));
    span.attribute(ATTRIBUTES, "http.response.status_code", &Value::Number(ended.status.into()))
}

/// Adds the attributes of a request to an origin.
fn with_attributes_of_call(span: Message, memo: &RequestRecord, call: &Call) -> Message {
    let (host, port) = call.origin.split_at(host_of(&call.origin).len());
    let port = port.strip_prefix(':').and_then(|port| port.parse::<u16>().ok());
    let port = port.map(|port| ("server.port", Value::Number(port.into())));
    let answer = match call.answer {
        Ok(code) => ("http.response.status_code", Value::Number(code.into())),
        Err(why) => ("error.type", Value::Text(why.token())),
    };
    let always = [
        ("http.request.method", Value::Text(memo.method.as_str())),
        ("url.full", Value::Text(&memo.target)),
        ("server.address", Value::Text(host)),
        answer,
    ];
    let attributes = always.into_iter().chain(port);
    attributes.fold(span, |span, (key, value)| span.attribute(ATTRIBUTES, key, &value))
}
