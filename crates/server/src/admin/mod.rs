//! The admin listener: figures (also for Prometheus: [`metrics`]), current events ([`live`]), explanations of requests
//! ([`explain`]), the contents of the disks ([`cache`]), purges ([`purge`]), and a page that shows all that ([`page`]).
//! It listens on loopback by default: every client that may ask it ([`access`]) may read all cached responses. Each
//! capability is a file; [`routes`] maps paths to them.

mod access;
mod advise;
mod cache;
mod cluster;
pub(crate) mod config;
mod explain;
mod history;
mod live;
pub(crate) mod metrics;
mod objects;
mod page;
mod purge;
mod query;
mod recent;
mod routes;
pub(crate) mod shares;
mod sites;
mod stream;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use larder_evict::By;
use larder_store::tier::PartUsage;
use serde::Serialize;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use self::config::ConfigFile;
use self::query::Query;
use self::recent::RecentMinutes;
use self::sites::Site;
use crate::base::settings::Counts;
use crate::cache::HintFigures;
use crate::cache::ahead::RefreshCounts;
use crate::cache::compressor::CompressorCounts;
use crate::cache::prefetches::PrefetchTotals;
use crate::counts::counters::{Ratios, Totals};
use crate::counts::histogram::Latency;
use crate::exchange::gateways::Holdings;
use crate::exchange::packages::PackageCounts;
use crate::exchange::rule_counts::RuleReport;
use crate::features::maintenance::{self, ScheduleCounts};
use crate::flow::worker::ProcessState;
use crate::net::tls;
use crate::net::tls::admin::Acceptor;
use crate::observe::ledger::{self, Ledger};
use crate::observe::otlp::Collector;
use crate::observe::trace::{self, Tracer};
use crate::rpc::{self, RpcReport};

/// The answer to `GET /stats`.
#[derive(Debug, Serialize)]
struct Stats {
    #[serde(flatten)]
    totals: Totals,
    #[serde(flatten)]
    ratios: Ratios,
    objects: u64,
    bytes_stored: u64,
    /// Bytes of content among `bytes_stored`.
    bytes_content: u64,
    evictions: u64,
    admissions: u64,
    rejections: u64,
    bytes_filling: u64,
    /// Bytes of the capacity that are withheld, since the allocator holds about as many that are not used.
    bytes_withheld: u64,
    /// Large bodies that were not stored, since the system limited the memory file.
    memory_file_refusals: u64,
    fills: usize,
    /// Refreshes of popular responses before they expire.
    refreshes_ahead: RefreshCounts,
    /// Refreshes and prefetches in progress.
    background: usize,
    /// Responses that were fetched before a client requested them.
    prefetches: PrefetchTotals,
    /// Responses 103 with links of stored responses.
    early_hints: HintFigures,
    /// Contents of packages that were compared with their digests.
    packages: PackageCounts,
    /// Forms of stored responses in other codings.
    compression: CompressorCounts,
    policy: String,
    /// The policy of the config, if another one was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_of_config: Option<String>,
    capacity: u64,
    by: &'static str,
    connections: usize,
    connections_refused: u64,
    /// Requests of clients that could be read, by version of HTTP.
    http_versions: BTreeMap<&'static str, u64>,
    in_flight: usize,
    queued: usize,
    /// The directories of the disk tier.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disks: Vec<Disk>,
    schedule: maintenance::MaintenanceReport,
    /// Lines of the access log that could not be written.
    log_lines_lost: u64,
    /// TLS of the listeners, if any of them speaks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<tls::server::TlsReport>,
    /// Certificates that an authority issues, if any are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    acme: Option<crate::acme::AcmeReport>,
    latency: Latency,
    /// Requests by the name of the reason, for all outcomes.
    reasons: BTreeMap<&'static str, u64>,
    sites: Vec<Site>,
    /// The pools of tags of each gateway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gateways: Vec<Holdings>,
    /// The cluster, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<crate::cluster::ClusterReport>,
    /// The outcomes of rows for the statistics database, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    statistics: Option<ledger::StatisticsReport>,
    /// The outcomes of spans, if requests are traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    traces: Option<trace::TraceReport>,
    /// The RPC listeners in use, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    doors: BTreeMap<&'static str, RpcReport>,
}

/// A directory of the disk tier. Its figures are 0 until it is in use; counts are those of this process.
#[derive(Debug, Serialize)]
struct Disk {
    path: String,
    /// `ready`; `scanning`, while not all of its objects are known; `full`, while there is no space for more; `paused`, after
    /// failed writes; `off`.
    state: &'static str,
    /// The reason why it is off, or the last failed write while it is paused or full.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    policy: String,
    size: u64,
    bytes_occupied: u64,
    bytes_live: u64,
    objects: u64,
    segments: u64,
    stored: u64,
    refused: u64,
    dropped: u64,
    evictions: u64,
    corrupt: u64,
    write_errors: u64,
    bytes_queued: u64,
    bytes_accepted: u64,
    bytes_written: u64,
    write_amplification: f64,
    bytes_of_memory: u64,
}

impl Disk {
    fn of(part: PartUsage) -> Self {
        let PartUsage { name, policy, trouble, figures: usage } = part;
        let state = match &usage {
            None => "off",
            Some(usage) if usage.paused => "paused",
            Some(usage) if usage.full => "full",
            Some(usage) if usage.scanning => "scanning",
            Some(_) => "ready",
        };
        let usage = usage.unwrap_or_default();
        Self {
            path: name,
            state,
            trouble: trouble.filter(|_| matches!(state, "off" | "paused" | "full")),
            policy,
            size: usage.size,
            bytes_occupied: usage.occupied,
            bytes_live: usage.live,
            objects: usage.objects,
            segments: usage.segments,
            stored: usage.stored,
            refused: usage.refused,
            dropped: usage.dropped,
            evictions: usage.evictions,
            corrupt: usage.corrupt,
            write_errors: usage.write_errors,
            bytes_queued: usage.queued,
            bytes_accepted: usage.accepted_bytes,
            bytes_written: usage.written_bytes,
            write_amplification: usage.write_amplification(),
            bytes_of_memory: usage.memory,
        }
    }
}

impl Stats {
    /// Returns the rules of all sites, with the sites' names.
    fn rules(&self) -> impl Iterator<Item = (&str, &RuleReport)> {
        self.sites.iter().flat_map(|site| site.rules.iter().map(|rule| (&*site.site, rule)))
    }

    /// Returns the origins of all sites, with the sites' names.
    fn origins(&self) -> impl Iterator<Item = (&str, &sites::Origin)> {
        self.sites.iter().flat_map(|site| site.origins.iter().map(|origin| (&*site.site, origin)))
    }

    fn gather(state: &State) -> Self {
        let shared = &state.shared;
        let counts = shared.observers.accounts.counts();
        let (totals, usage) = (counts.totals(), shared.cache.store.memory.usage());
        let (in_flight, queued) = shared.plan().concurrency.occupancy();
        let (plan, capacity) = (shared.plan(), shared.cache.store.memory.capacity());
        let doors = plan.settings.doors.listen.iter();
        Self {
            totals,
            ratios: totals.ratios(),
            objects: usage.objects,
            bytes_stored: usage.bytes,
            bytes_content: usage.content,
            evictions: usage.evictions,
            admissions: usage.admissions,
            rejections: usage.rejections,
            bytes_filling: usage.filling,
            bytes_withheld: usage.withheld,
            memory_file_refusals: shared.cache.fills.arena().refusals(),
            fills: shared.cache.fills.under_way(),
            refreshes_ahead: shared.cache.ahead.figures(),
            background: shared.cache.ahead.running(),
            prefetches: shared.cache.prefetches.figures(),
            early_hints: shared.cache.hints(),
            packages: plan.packages.counts(),
            compression: shared.cache.compressor.figures(),
            policy: plan.settings.memory.policy.to_string(),
            policy_of_config: shared.applied_policy().map(|applied| applied.of_config.to_string()),
            capacity: capacity.amount,
            by: match (capacity.by, shared.cache.store.memory.counts()) {
                (By::Bytes, Counts::Content) => "content",
                (by, _) => by.name(),
            },
            connections: shared.connections.count(),
            connections_refused: shared.closed_on_arrival.load(Ordering::Relaxed),
            http_versions: shared.versions().into_iter().collect(),
            in_flight,
            queued,
            disks: shared.cache.store.near().iter().flat_map(|tier| tier.usage()).map(Disk::of).collect(),
            schedule: state.done.report(),
            log_lines_lost: shared.observers.access.lost(),
            tls: shared.listener_tls.as_deref().map(tls::server::Server::report),
            acme: shared.acme.as_deref().and_then(crate::acme::Acme::report),
            latency: shared.times().latency(),
            reasons: counts.reasons().map(|(why, requests)| (why.token(), requests)).collect(),
            sites: sites::report(shared),
            gateways: shared.cache.gateways.report(),
            cluster: shared.cluster.as_deref().map(crate::cluster::ClusterReport::of),
            statistics: shared.observers.ledger.as_deref().map(Ledger::report),
            traces: shared.observers.tracer.as_ref().map(Tracer::report),
            doors: doors.map(|(door, _)| (door.name(), state.doors.figures.of(*door).report())).collect(),
        }
    }
}

/// The state that the admin listener shows and changes.
pub(crate) struct State {
    shared: Arc<ProcessState>,
    doors: Arc<rpc::State>,
    /// The work of the maintenance schedule.
    done: Arc<ScheduleCounts>,
    /// The counts of the last minutes.
    recent: RecentMinutes,
    /// Permits for requests that read the disks or the statistics database.
    looks: Arc<Semaphore>,
    /// Makes the handshakes, if clients connect over TLS.
    tls: Option<Arc<Acceptor>>,
    /// The file of the config; `None`: there are flags only.
    config: Option<ConfigFile>,
}

impl State {
    pub(crate) fn new(
        shared: Arc<ProcessState>,
        doors: Arc<rpc::State>,
        done: Arc<ScheduleCounts>,
        tls: Option<Arc<Acceptor>>,
        config: Option<ConfigFile>,
    ) -> Self {
        let looks = Arc::new(Semaphore::new(MOST_LOOKS));
        Self { shared, doors, done, recent: RecentMinutes::default(), looks, tls, config }
    }

    /// Returns a permit for a request that reads the disks or the statistics database.
    fn look(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.looks).try_acquire_owned().map_err(|_| {
            let why = format!("{MOST_LOOKS} such requests are in progress already; ask again later");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
        })
    }

    /// Tells whether this process serves requests.
    fn readiness(&self) -> Outcome {
        let refuse = |why| Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        match &self.shared.cluster {
            _ if self.shared.is_draining() => refuse("draining"),
            Some(cluster) if !cluster.is_ready() => refuse("not in the cluster"),
            _ => Ok(text(StatusCode::OK, TEXT, "ready\n".to_owned())),
        }
    }
}

/// The most requests at once that read the disks or the statistics database; each takes a thread.
pub(crate) const MOST_LOOKS: usize = 4;
/// How long a connection may take for a request's head, or be idle.
const SILENT: Duration = Duration::from_secs(10);
/// How long an answer may remain in the kernel because its client does not read it.
const UNREAD: Duration = Duration::from_secs(60);

/// Sends the metrics to the collector of the settings, if there is one that gets them, until the process ends.
pub(crate) async fn send_metrics(state: Arc<State>) {
    let plan = state.shared.plan();
    let Some(every) = plan.settings.trace.metrics else { return };
    let collector = Collector::new(&plan.settings, "metrics");
    drop(plan);
    match collector {
        Ok(Some(collector)) => metrics::send(state, collector, every).await,
        Ok(None) => {}
        Err(error) => tracing::error!("{error}"),
    }
}

/// Answers on `listener` until the process ends.
pub(crate) async fn serve(state: Arc<State>, listener: TcpListener) {
    let watched = Arc::clone(&state.shared);
    tokio::spawn(async move { watched.observers.watch.pump().await });
    tokio::spawn(recent::watch(Arc::clone(&state)));
    let places = Arc::new(Semaphore::new(state.shared.plan().settings.limits.admin));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::debug!(client = %peer, "closed on arrival: too many admin connections");
            continue;
        };
        // The kernel ends the connection of a client that reads no answer.
        if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(Some(UNREAD)) {
            tracing::debug!(client = %peer, "admin connection without a limit for unread answers: {error}");
        }
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let _place = place;
            let tls = state.tls.clone();
            let Some(tls) = tls else { return converse(state, stream, peer).await };
            match tls.accept(stream, SILENT).await {
                Ok(stream) => converse(state, stream, peer).await,
                Err(error) => tracing::debug!(client = %peer, "no TLS with the admin listener: {error}"),
            }
        });
    }
}

/// Answers the requests of `peer` at the other end of `stream`.
async fn converse(
    state: Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(&state, peer, &request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(SILENT);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("admin connection ended: {error}");
    }
}

/// An answer's content: complete, or still being made.
type Answer = Either<Full<Bytes>, stream::Stream>;

const TEXT: &str = "text/plain; charset=utf-8";

/// A request for a route.
struct Call<'c> {
    state: &'c Arc<State>,
    /// The text in the place of `NAME` in its path.
    name: &'c str,
    query: Query<'c>,
    fields: &'c HeaderMap,
}

/// An answer, or the reason why there is none.
type Outcome = Result<Response<Answer>, Refusal>;

/// The reason why a request gets no answer.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    /// For people, in one line.
    why: String,
}

impl Refusal {
    fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }
}

/// A mistake in the query.
impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }
}

/// A thread failed that made the answer.
impl From<JoinError> for Refusal {
    fn from(error: JoinError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl From<Refusal> for Response<Answer> {
    fn from(Refusal { status, why }: Refusal) -> Self {
        text(status, TEXT, format!("{why}\n"))
    }
}

async fn answer(state: &Arc<State>, peer: SocketAddr, request: &Request<Incoming>) -> Response<Answer> {
    let (method, uri, fields, plan) =
        (request.method(), request.uri(), request.headers(), state.shared.plan());
    let is_open = routes::find(uri.path()).is_some_and(|(route, _)| route.is_open);
    let mut response =
        match access::check(plan.settings.admin_token.as_ref(), peer.ip(), is_open, method, fields) {
            Ok(()) => routes::run(state, method, uri, fields).await.unwrap_or_else(Response::from),
            Err(refusal) => Refusal::new(refusal.status, refusal.reason).into(),
        };
    access::guard(&mut response);
    if state.shared.is_draining() {
        // The next request may find a successor.
        response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    }
    response
}

fn json(value: &impl Serialize) -> Response<Answer> {
    match serde_json::to_string_pretty(value) {
        Ok(content) => text(StatusCode::OK, "application/json", content),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
    }
}

fn text(status: StatusCode, kind: &'static str, content: String) -> Response<Answer> {
    let mut response = prepared(kind, Either::Left(Full::new(content.into())));
    *response.status_mut() = status;
    response
}

/// Returns a response 200 with this content.
fn prepared(kind: &'static str, content: Answer) -> Response<Answer> {
    let mut response = Response::new(content);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}
