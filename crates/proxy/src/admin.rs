//! The admin listener: `/stats`, `/metrics`, `/healthz`, `/readyz`, and what is on the disks below `/cache` ([`cache`]).
//! Loopback by default: who may ask it may read whatever is cached. It has no way to change anything, but that a
//! check of the disks gives up what is damaged.

pub(crate) mod cache;
pub(crate) mod metrics;
mod sites;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use larder_evict::By;
use larder_store::disks::Drive;
use serde::Serialize;
use tokio::net::TcpListener;

use crate::doors::Report;
use crate::observe::counters::Totals;
use crate::observe::histogram::Latency;
use crate::observe::ledger::{self, Ledger};
use crate::upkeep;
use crate::worker::Shared;

use self::sites::Site;

/// What `GET /stats` answers.
#[derive(Debug, Serialize)]
struct Stats {
    #[serde(flatten)]
    totals: Totals,
    hit_ratio: f64,
    byte_hit_ratio: f64,
    objects: u64,
    bytes_stored: u64,
    evictions: u64,
    bytes_filling: u64,
    fills: usize,
    policy: String,
    capacity: u64,
    by: &'static str,
    connections: usize,
    in_flight: usize,
    queued: usize,
    /// The directories of the disk tier.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disks: Vec<Disk>,
    schedule: upkeep::Report,
    latency: Latency,
    /// By name, whatever became of the requests.
    reasons: BTreeMap<&'static str, u64>,
    sites: Vec<Site>,
    /// What became of the rows for the statistics database, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    statistics: Option<ledger::Report>,
    /// By name, those that listen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    doors: BTreeMap<&'static str, Report>,
}

/// A directory of the disk tier. Its figures are 0 until it is in use; counts are those of this process.
#[derive(Debug, Serialize)]
struct Disk {
    path: String,
    /// `ready`; `scanning`, while not all of its objects are known; `paused`, after failed writes; `off`.
    state: &'static str,
    /// Why it is off.
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
    fn of(drive: &Drive) -> Self {
        let usage = drive.disk().map(|disk| disk.usage());
        let state = match &usage {
            None => "off",
            Some(usage) if usage.paused => "paused",
            Some(usage) if usage.scanning => "scanning",
            Some(_) => "ready",
        };
        let usage = usage.unwrap_or_default();
        Self {
            path: drive.path().display().to_string(),
            state,
            trouble: drive.trouble(),
            policy: drive.policy(),
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
    /// The origins of all sites, with the sites' names.
    fn origins(&self) -> impl Iterator<Item = (&str, &sites::Origin)> {
        self.sites.iter().flat_map(|site| site.origins.iter().map(|origin| (&*site.site, origin)))
    }

    fn gather(shared: &Shared) -> Self {
        let counts = shared.accounts.counts();
        let (totals, usage) = (counts.totals(), shared.store.memory.usage());
        let (in_flight, queued) = shared.plan().gate.occupancy();
        let (plan, capacity) = (shared.plan(), shared.store.memory.capacity());
        let doors = plan.settings.doors.listen.iter();
        Self {
            totals,
            hit_ratio: totals.hit_ratio(),
            byte_hit_ratio: totals.byte_hit_ratio(),
            objects: usage.objects,
            bytes_stored: usage.bytes,
            evictions: usage.evictions,
            bytes_filling: usage.filling,
            fills: shared.fills.under_way(),
            policy: plan.settings.memory.policy.to_string(),
            capacity: capacity.amount,
            by: match capacity.by {
                By::Bytes => "bytes",
                By::Entries => "entries",
            },
            connections: shared.connections.load(Ordering::Relaxed),
            in_flight,
            queued,
            disks: shared.store.disks.drives().iter().map(Disk::of).collect(),
            schedule: shared.done.report(),
            latency: shared.times().latency(),
            reasons: counts.reasons().map(|(why, requests)| (why.token(), requests)).collect(),
            sites: sites::report(shared),
            statistics: shared.ledger.as_ref().map(Ledger::report),
            doors: doors.map(|(door, _)| (door.name(), shared.figures.of(*door).report())).collect(),
        }
    }
}

/// Answers on `listener` until the process ends.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(answer(&shared, &request).await) }
        });
        let connection =
            http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("admin connection ended: {error}");
            }
        });
    }
}

/// An answer's content: at hand, or still being made.
type Answer = Either<Full<Bytes>, cache::Stream>;

const TEXT: &str = "text/plain; charset=utf-8";

async fn answer(shared: &Arc<Shared>, request: &Request<Incoming>) -> Response<Answer> {
    let (json, text) = ("application/json", TEXT);
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return response(StatusCode::METHOD_NOT_ALLOWED, text, "only GET is understood here\n".into());
    }
    match request.uri().path() {
        path if path == "/cache" || path.starts_with("/cache/") => {
            if !cache::is_by_address(request.headers()) {
                let why = "what is cached is shown to who asks by address, or for localhost\n";
                return response(StatusCode::FORBIDDEN, text, why.into());
            }
            cache::answer(shared, path, request.uri().query()).await
        }
        "/stats" => match serde_json::to_vec_pretty(&Stats::gather(shared)) {
            Ok(stats) => response(StatusCode::OK, json, stats),
            Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, text, error.to_string().into()),
        },
        "/metrics" => response(StatusCode::OK, metrics::TYPE, metrics::page(shared).into()),
        "/healthz" => response(StatusCode::OK, text, "alive\n".into()),
        "/readyz" if shared.is_draining() => {
            response(StatusCode::SERVICE_UNAVAILABLE, text, "draining\n".into())
        }
        "/readyz" => response(StatusCode::OK, text, "ready\n".into()),
        _ => response(
            StatusCode::NOT_FOUND,
            text,
            "try /stats, /metrics, /cache, /healthz or /readyz\n".into(),
        ),
    }
}

fn response(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Response<Answer> {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}
