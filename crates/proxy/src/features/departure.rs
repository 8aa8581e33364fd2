//! The departure of a node from the cluster: it gives its keys to the other nodes, and the hottest of its stored responses with
//! them.
//!
//! It offers each of them to the new owner of the key by a `PUT` without content. That node fetches the response like any other,
//! except that it asks [the node which had the key before](crate::cluster::peers), and no origin. So purges meanwhile apply as to
//! each fetch, and a node that has no room, or no permit to spare, does not take it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_predict::PrefetchResult;
use larder_semantics::status::Why;
use larder_semantics::{partition, vary};
use larder_store::{Entry, JoinResult, Store};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use crate::base::clock;
use crate::base::outcome::{Kind, Outcome};
use crate::cluster::{Cluster, peers};
use crate::exchange::arrival::Requester;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::exchange::target::{self, key_role};
use crate::flow::context::Context;
use crate::flow::fetch::prefetch::prefetch;
use crate::flow::prefetch::own_request;
use crate::flow::serve;
use crate::flow::stored::{Lookup, Mode, StoredVariants, expected, find};
use crate::flow::worker::Worker;

/// The most offers at once.
const AT_ONCE: usize = 32;

/// What became of the responses of a node that leaves.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Departure {
    /// Responses that the new owners have taken, and their bytes.
    objects: u64,
    bytes: u64,
    /// The number of these by the name of their new owner.
    nodes: BTreeMap<String, u64>,
    /// Responses that the new owners had already.
    known: u64,
    /// Responses that they did not take.
    refused: u64,
    /// URLs that were not offered in time.
    left: u64,
}

/// The stored URLs that are still to be offered, the hottest last, and what became of the others.
struct Offers {
    keys: Mutex<Vec<Box<[u8]>>>,
    told: Mutex<Departure>,
}

/// Gives the keys of this node to the others, with its responses, until the time is up.
pub async fn leave(worker: &Arc<Worker>, cluster: &Arc<Cluster>, until: Instant) -> Departure {
    // If the others do not hear of it in time, no offer would be taken.
    if timeout_at(until, cluster.give_up_keys()).await.is_err() {
        return Departure::default();
    }
    let cache = Arc::clone(&worker.cache);
    let keys = spawn_blocking(move || by_heat(&cache.store)).await.unwrap_or_default();
    let offers = Arc::new(Offers { keys: Mutex::new(keys), told: Mutex::default() });
    let mut running = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (worker, cluster, offers) = (Arc::clone(worker), Arc::clone(cluster), Arc::clone(&offers));
        running.spawn(async move {
            let plan = worker.plan();
            while let Some(key) = offers.next() {
                offers.offer(&worker, &plan, &cluster, &key).await;
            }
        });
    }
    let ended = async { while running.join_next().await.is_some() {} };
    // What is under way then is left out.
    let _ = timeout_at(until, ended).await;
    let departure = Departure { left: offers.keys.lock().len() as u64, ..offers.told.lock().clone() };
    let Departure { objects, bytes, nodes, known, refused, left } = &departure;
    tracing::info!(
        "this node owns no keys any more; other nodes took {objects} responses, {bytes} bytes {nodes:?}; known there: {known}; \
         refused: {refused}; not offered in time: {left}"
    );
    departure
}

/// Returns the keys in memory, the hottest last.
fn by_heat(store: &Store) -> Vec<Box<[u8]>> {
    let mut all: Vec<(u32, u32, Box<[u8]>)> = Vec::new();
    store.memory.list(&mut |resident, used| {
        all.extend(resident.variants().first().map(|entry| (used.hits, used.last, entry.key().into())));
    });
    all.sort_unstable();
    all.into_iter().map(|(.., key)| key).collect()
}

impl Offers {
    fn next(&self) -> Option<Box<[u8]>> {
        self.keys.lock().pop()
    }

    /// Offers the fresh responses of a URL.
    async fn offer(&self, worker: &Arc<Worker>, plan: &Plan, cluster: &Arc<Cluster>, key: &[u8]) {
        let (store, client) = (&worker.cache.store, worker.clients(plan).peers.clone());
        let Some(resident) = store.memory.peek(key, store.memory.hash(key)) else { return };
        for entry in resident.variants() {
            let current = store
                .current(entry.clone())
                .filter(|entry| entry.freshness().is_fresh(clock::now()) && entry.body().slices().is_none());
            let Some(request) = current.and_then(|entry| request(worker, plan, &entry)) else { continue };
            let Some((node, status)) = peers::offer(cluster, &client, plan, &request).await else { continue };
            let mut told = self.told.lock();
            match status {
                Some(StatusCode::CREATED) => {
                    told.objects += 1;
                    told.bytes += entry.body().len();
                    *told.nodes.entry(node).or_default() += 1;
                }
                Some(StatusCode::OK) => told.known += 1,
                _ => told.refused += 1,
            }
        }
    }
}

/// Returns the request that offers `entry`, with the fields by which a GET would select it; `None` if there is none, as for
/// variants by a single cookie.
fn request(worker: &Worker, plan: &Plan, entry: &Entry) -> Option<Box<Request>> {
    let mut fields = HeaderMap::new();
    for (name, value) in partition::fields(entry.key()).chain(vary::fields(entry.signature())) {
        let (name, value) = (HeaderName::try_from(name).ok()?, value.map(HeaderValue::from_bytes));
        if let Some(value) = value.transpose().ok()? {
            fields.insert(name, value);
        }
    }
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let role = key_role(entry.key())?;
    let asker = Requester { role, address: nobody, identity: None, id: None, by_peer: false };
    let mut request = own_request(worker, plan, &target::url(entry.key())?, fields, &asker)?;
    request.method = Method::PUT;
    (*request.key == *entry.key()).then_some(request)
}

/// Takes the response that another node offers by this request: 201 once it is stored, 200 if that is not needed.
pub(crate) async fn take(worker: &Arc<Worker>, plan: &Arc<Plan>, offered: &mut Request) -> Reply {
    if let Err(reply) = serve::catch_up(worker, offered).await {
        return *reply;
    }
    let status = taken(worker, plan, offered).await.unwrap_or(StatusCode::CONFLICT);
    Reply::text(status, String::new(), Outcome::forwarded(Kind::Pass, Why::Method))
}

async fn taken(worker: &Arc<Worker>, plan: &Arc<Plan>, offered: &Request) -> Option<StatusCode> {
    let role = key_role(&offered.key)?;
    let asker = Requester { role, address: offered.client, identity: None, id: None, by_peer: true };
    let url = target::url(&offered.key)?;
    let mut request = own_request(worker, plan, &url, offered.fields.clone(), &asker)?;
    let ruling = Arc::clone(&request.ruling);
    let rules = ruling.caching()?;
    request.asks_peers = serve::asks_peers(worker.shared.cluster.as_deref(), rules, &request);
    let (cx, cache) = (Context { worker, plan, rules }, &worker.cache);
    let epoch = cache.fills.epoch_of(request.hash);
    let held = StoredVariants::look(cache, &request, Mode::Serve).await;
    if !find(&request, &held).0.asks_origin() {
        return Some(StatusCode::OK);
    }
    let signature = held.resident.as_ref().map(|resident| expected(resident, &request));
    let JoinResult::Writer(writer) = cache.fills.join_own(&request.key, &signature.unwrap_or_default())
    else {
        return Some(StatusCode::OK);
    };
    match prefetch(cx, &request, writer, Lookup { entry: held.entry, epoch }, u64::MAX).await {
        PrefetchResult::Stored(_) => Some(StatusCode::CREATED),
        PrefetchResult::Unsent | PrefetchResult::Refused(_) | PrefetchResult::Failed(_) => None,
    }
}
