//! The state that workers share, and the state of each worker.
//!
//! A [`Plan`] holds the settings in the form used by requests; a reload replaces it as a whole. There is one [`ProcessState`]
//! per process, with the plan, the cache and the observers. There is one [`Worker`] per thread, with counters and
//! connections to origins, so that no two threads write to the same cache line while they serve hits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use arc_swap::ArcSwap;
use larder_evict::Spec;
use larder_semantics::purge::{Effect, Scope};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::mpsc::UnboundedSender;

use crate::acme::Acme;
use crate::base::error::Error;
use crate::base::inheritance::Inheritance;
use crate::base::settings::{MemoryTier, Role, Settings};
use crate::cache::Cache;
use crate::cache::advisor::Advisor;
use crate::cluster::proof::Prover;
use crate::cluster::{Cluster, peers, probe, publish};
use crate::counts::gauge::Gauge;
use crate::counts::histogram::{Distributions, Times};
use crate::counts::versions::{self, Versions};
use crate::exchange::plan::Plan;
use crate::exchange::reply::Source;
use crate::exchange::route::{SiteNumber, SiteState};
use crate::exchange::target::{self, key_role, url_parts};
use crate::flow::interceptor::{InterceptedTunnel, Interceptor};
use crate::flow::phases::Phases;
use crate::net::byte_budget::ByteBudget;
use crate::net::own::OwnListeners;
use crate::net::tls::nodes::Nodes;
use crate::net::tls::server::Server;
use crate::observe::Observers;
use crate::observe::ended::Witness;
use crate::observe::validation::limits::Sampler;
use crate::origin::{Client, Connector, Destinations, tls_config};

/// The state that all workers share: one per process.
pub struct ProcessState {
    plan: ArcSwap<Plan>,
    version: AtomicU64,
    /// Held while settings change: the policy that an administrator or `auto` has applied, if it is not the config's.
    applied: Mutex<Option<AppliedPolicy>>,
    /// The cache.
    pub cache: Arc<Cache>,
    /// Who is told of ended requests.
    pub observers: Arc<Observers>,
    /// The shadow caches, if there are any.
    pub advisor: Option<Arc<Advisor>>,
    /// The cluster of which this process is a node, if there is one.
    pub cluster: Option<Arc<Cluster>>,
    /// The addresses on which this process listens.
    pub own: OwnListeners,
    /// The connections of clients.
    pub connections: Gauge,
    /// The tasks that accept connections.
    pub(crate) accepting: Gauge,
    /// The connections that were closed on arrival because there were too many.
    pub closed_on_arrival: AtomicU64,
    /// The phases of the end of the process.
    pub phases: Phases,
    /// TLS of the listeners, if any of them uses it.
    pub listener_tls: Option<Arc<Server>>,
    /// The certificates that an authority issues to the listeners by ACME.
    pub acme: Option<Arc<Acme>>,
    /// Intercepts tunnels, from the first settings that ask for it.
    pub(crate) interceptor: OnceLock<Interceptor>,
    /// TLS settings for connections to origins.
    pub(crate) tls: Arc<ClientConfig>,
    /// The state of connections to origins that workers share.
    pub origins: Destinations,
    /// The bytes of heads and trailers that wait because clients of HTTP/2 do not read.
    pub(crate) unsent: ByteBudget,
    /// The bytes of content in HTTP/2 that wait for the flows of their requests.
    pub(crate) unread: ByteBudget,
    /// The bytes of long heads of requests that are in progress.
    pub(crate) long_heads: ByteBudget,
    workers: Mutex<Vec<Arc<Worker>>>,
}

/// A policy of the memory tier that was applied to a running process.
#[derive(Clone, Debug)]
pub struct AppliedPolicy {
    /// The policy.
    pub policy: Spec,
    /// The policy of the config in its place.
    pub of_config: Spec,
}

/// The most bytes of heads and trailers that wait because clients of HTTP/2 do not read.
const UNSENT: usize = 16 << 20;
/// The most bytes of content in HTTP/2 that wait for the flows of their requests.
const UNREAD: usize = 64 << 20;
/// The most bytes of long heads of requests that are in progress: a client may have thousands of them on few connections of
/// HTTP/2.
const LONG_HEADS: usize = 32 << 20;

/// The state of one thread that serves requests.
pub struct Worker {
    pub(crate) shared: Arc<ProcessState>,
    /// The cache of `shared`, here as well to save an indirection on each hit.
    pub(crate) cache: Arc<Cache>,
    /// The number of the worker, from 0.
    pub(crate) number: usize,
    /// Its open connections.
    pub connections: Gauge,
    /// The durations of its requests.
    pub(crate) times: Times,
    /// The requests that it has read, by HTTP version.
    pub(crate) versions: Versions,
    /// The observers' view of its requests.
    pub(crate) witness: Witness,
    /// Selects the hits that are validated as samples.
    pub(crate) sampler: Sampler,
    clients: Mutex<(u64, Arc<Clients>)>,
    /// Receives the near ends of intercepted tunnels.
    pub(crate) intercepted: UnboundedSender<InterceptedTunnel>,
    waiting: Mutex<HashMap<u64, Waker>>,
    next_waiting: AtomicU64,
}

/// The clients for requests to origins and nodes.
pub(crate) struct Clients {
    /// For the origins of configured sites.
    reverse: Client,
    /// For sites with their own TLS settings for origins, or their own parent proxies.
    by_site: Vec<(SiteNumber, Client)>,
    /// For the hosts that clients of the forward proxy name.
    pub(crate) forward: Client,
    /// For nodes of the cluster.
    pub(crate) peers: Client,
    /// For tunnels.
    pub(crate) tunnel: Connector,
}

impl ProcessState {
    /// Returns the port on which clients of sites use TLS.
    pub(crate) fn https_port(&self) -> Option<u16> {
        self.listener_tls.as_ref().and_then(|tls| tls.port)
    }

    /// Returns the shared state of a process with these `own` listeners.
    pub fn new(
        settings: Settings,
        own: OwnListeners,
        listener_tls: Option<Arc<Server>>,
        Inheritance { node, statistics }: Inheritance,
    ) -> Result<Arc<Self>, Error> {
        let cache = Cache::new(&settings)?;
        let node = |cluster| Cluster::new(cluster, cache.store.memory.capacity(), node).map(Arc::new);
        let cluster = settings.cluster.as_ref().map(node).transpose()?;
        if let Some(cluster) = cluster.as_ref().filter(|cluster| cluster.tier.is_some()) {
            cache.store.add_far(Arc::<Cluster>::clone(cluster));
        }
        let observers = Arc::new(Observers::new(&settings, statistics)?);
        let advisor = Advisor::new(&settings, &cache.store, &observers);
        let acme = Acme::new(&settings, listener_tls.as_deref(), cluster.as_ref())?;
        let interceptor =
            settings.intercept.as_ref().map(|intercept| Interceptor::new(intercept, &observers.repeats));
        let interceptor = interceptor.transpose()?;
        let origins = Destinations::new(settings.limits.idle);
        let tls = tls_config::tls().map_err(|error| Error::new("cannot set up TLS", error))?;
        let shared = Arc::new(Self {
            plan: ArcSwap::from_pointee(Plan::new(settings, &observers.accounts, &cache.gateways)),
            version: AtomicU64::new(0),
            applied: Mutex::default(),
            cache,
            observers,
            advisor,
            cluster,
            own,
            connections: Gauge::default(),
            accepting: Gauge::default(),
            closed_on_arrival: AtomicU64::new(0),
            phases: Phases::default(),
            listener_tls,
            acme,
            interceptor: interceptor.map(OnceLock::from).unwrap_or_default(),
            tls,
            origins,
            unsent: ByteBudget::new(UNSENT),
            unread: ByteBudget::new(UNREAD),
            long_heads: ByteBudget::new(LONG_HEADS),
            workers: Mutex::default(),
        });
        let known = Arc::downgrade(&shared);
        shared.cache.store.purges.know_sites(Arc::new(move |key| known.upgrade()?.site_of(key)));
        let known = Arc::downgrade(&shared);
        let has_partitions = move |key: &[u8]| Some(target::has_partitions(&known.upgrade()?.plan(), key));
        shared.cache.store.purges.know_partitions(Arc::new(move |key| has_partitions(key).unwrap_or(false)));
        for origins in [&shared.origins.sites, &shared.origins.named] {
            let known = Arc::downgrade(&shared);
            origins.withdraw_by(move |key| _ = known.upgrade().inspect(|shared| shared.withdraw(key)));
        }
        Ok(shared)
    }

    /// Removes the responses under `key`, on this node at once and on others soon.
    fn withdraw(&self, key: &[u8]) {
        let _telling = publish::telling(self.cluster.as_deref());
        self.cache.fills.purge(key);
        drop(publish::untold(self.cluster.as_ref(), &[(Effect::Remove, &[Scope::Url(key.to_vec())])]));
    }

    /// Returns the name of the site that a cache key belongs to.
    fn site_of(&self, key: &[u8]) -> Option<String> {
        let (_, authority, path) = url_parts(key).filter(|_| key_role(key) == Some(Role::Reverse))?;
        let plan = self.plan();
        let site = plan.sites.find(std::str::from_utf8(authority).ok()?, std::str::from_utf8(path).ok()?)?;
        Some(site.settings.name.clone())
    }

    /// Returns the settings in force.
    pub fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    /// Puts another policy of the memory tier in force, until settings have another one than those in force.
    pub fn run_policy(&self, policy: Spec) {
        let mut applied = self.applied.lock();
        let settings = self.plan().settings.clone();
        let of_config = match applied.take() {
            Some(before) => before.of_config,
            None => settings.memory.policy.clone(),
        };
        if policy != of_config {
            *applied = Some(AppliedPolicy { policy: policy.clone(), of_config });
        }
        self.change(Settings { memory: MemoryTier { policy, ..settings.memory }, ..settings });
    }

    /// Puts new settings in force for every request that begins from now on. An applied policy stays if they have the same policy as
    /// those before.
    pub fn reload(&self, mut settings: Settings) {
        let mut applied = self.applied.lock();
        if let Some(AppliedPolicy { policy, of_config }) = &*applied {
            if settings.memory.policy == *of_config {
                settings.memory.policy = policy.clone();
            } else {
                tracing::info!("memory runs under {}, the new one of the config", settings.memory.policy);
                *applied = None;
            }
        }
        self.change(settings);
    }

    /// Returns the applied policy, if there is one.
    pub fn applied_policy(&self) -> Option<AppliedPolicy> {
        self.applied.lock().clone()
    }

    fn change(&self, settings: Settings) {
        let old = self.plan();
        self.cache.reload(&old.settings, &settings);
        if let Some(advisor) =
            self.advisor.as_ref().filter(|_| settings.memory.policy != old.settings.memory.policy)
        {
            advisor.run(&settings.memory.policy);
        }
        self.observers.access.reopen(settings.access_log_file.as_deref());
        if let Some(tls) = &self.listener_tls {
            tls.reload(&settings);
        }
        if let Some(acme) = &self.acme {
            acme.reload(&settings);
        }
        if let Some(intercept) = settings.intercept.as_ref().filter(|_| self.interceptor.get().is_none()) {
            match Interceptor::new(intercept, &self.observers.repeats) {
                Ok(interceptor) => drop(self.interceptor.set(interceptor)),
                Err(error) => tracing::error!("{error}"),
            }
        }
        let (trace, cluster) = (old.settings.trace.clone(), old.settings.cluster.clone());
        let plan =
            old.next(Settings { trace, cluster, ..settings }, &self.observers.accounts, &self.cache.gateways);
        let version = plan.version;
        self.plan.store(Arc::new(plan));
        self.version.store(version, Ordering::Release);
    }

    /// Reopens the access log under its name, so that the old file may be moved away.
    pub fn reopen(&self) {
        self.observers.access.reopen(self.plan().settings.access_log_file.as_deref());
    }

    /// Whether stored responses may answer requests, as far as that depends on other nodes.
    #[inline]
    pub(crate) fn may_serve_stored(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.may_serve_stored())
    }

    /// Returns the durations of all requests so far.
    pub fn times(&self) -> Distributions {
        let mut all = Distributions::default();
        self.workers().iter().for_each(|worker| all.add(&worker.times));
        all
    }

    /// Returns the number of requests of clients that could be read so far, by HTTP version.
    pub fn versions(&self) -> impl IntoIterator<Item = (&'static str, u64)> + use<> {
        versions::sum(self.workers().iter().map(|worker| &worker.versions))
    }

    /// Returns the workers that run.
    pub fn workers(&self) -> Vec<Arc<Worker>> {
        self.workers.lock().clone()
    }
}

impl Worker {
    /// Returns a new worker, which sends the near ends of intercepted tunnels to `intercepted`.
    pub(crate) fn new(
        shared: &Arc<ProcessState>,
        intercepted: UnboundedSender<InterceptedTunnel>,
    ) -> Arc<Self> {
        let plan = shared.plan();
        let mut workers = shared.workers.lock();
        let worker = Arc::new(Self {
            shared: Arc::clone(shared),
            cache: Arc::clone(&shared.cache),
            number: workers.len(),
            connections: Gauge::default(),
            times: Times::default(),
            versions: Versions::default(),
            witness: Witness::new(&shared.observers, workers.len()),
            sampler: Sampler::default(),
            clients: Mutex::new((plan.version, Arc::new(Clients::new(&plan, shared)))),
            intercepted,
            waiting: Mutex::default(),
            next_waiting: AtomicU64::new(0),
        });
        workers.push(Arc::clone(&worker));
        worker
    }

    /// Returns the plan in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.shared.plan()
    }

    /// Whether a reload has happened since `plan`.
    pub(crate) fn is_outdated(&self, plan: &Plan) -> bool {
        self.shared.version.load(Ordering::Acquire) != plan.version
    }

    /// Returns the clients for connections to origins under the settings of `plan`.
    pub(crate) fn clients(&self, plan: &Plan) -> Arc<Clients> {
        let mut clients = self.clients.lock();
        if clients.0 != plan.version {
            *clients = (plan.version, Arc::new(Clients::new(plan, &self.shared)));
        }
        Arc::clone(&clients.1)
    }

    /// Takes back the stored response of a reply that has been written. Of the reply, only the source and the hash are moved.
    #[inline]
    pub(crate) fn take_back(&self, source: Source, hash: u64) {
        if let Source::Entry(entry) | Source::NotModified(entry) = source {
            self.cache.store.memory.give_back(self.number, hash, entry);
        }
    }

    /// Returns a number under which a connection registers to be woken by a drain.
    pub(crate) fn enlist(&self) -> u64 {
        self.next_waiting.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn wake_on_drain(&self, number: u64, waker: &Waker) {
        self.waiting.lock().insert(number, waker.clone());
    }

    pub(crate) fn resign(&self, number: u64) {
        self.waiting.lock().remove(&number);
    }

    /// Wakes the connections that have registered.
    pub(super) fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_values().for_each(Waker::wake);
    }
}

impl Clients {
    fn new(plan: &Plan, shared: &ProcessState) -> Self {
        let settings = &plan.settings;
        let (timeouts, Destinations { sites, named, nodes }) = (&settings.timeouts, &shared.origins);
        let (tls, own) = (&shared.tls, &shared.own);
        let to_any = Connector::new(timeouts.connect, false, sites).never_to(own);
        let to_allowed =
            Connector::new(timeouts.connect, !settings.forward.allow_private, named).never_to(own);
        let to_allowed = to_allowed.through(&plan.forward_parents);
        let of_nodes = shared.cluster.as_ref().and_then(|cluster| cluster.tls.as_ref());
        let to_peers = Connector::new(peers::CONNECT, false, nodes).never_to(own);
        // A busy node accepts connections at once, but answers a handshake as late as a request.
        let to_peers = to_peers.with_handshake(probe::SILENCE + probe::PATIENCE);
        let to_peers = to_peers.with_tls_of(of_nodes.map(|nodes| &nodes.client), tls);
        // If TLS is authenticated by the token, the handshake proves the identity of the nodes.
        let is_proven = of_nodes.is_some_and(Nodes::is_by_token);
        let for_peers = peers::timeouts(timeouts);
        let has_own = |site: &&Arc<SiteState>| site.settings.tls.is_some() || site.parents.is_some();
        let by_site = plan.sites.iter().filter(has_own).map(|site| {
            let of_site = to_any.clone().through(plan.parents_of(site));
            let of_site = of_site.with_tls_of(site.settings.tls.as_deref(), tls);
            (site.number, Client::new(of_site, timeouts, sites))
        });
        Self {
            peers: match shared.cluster.as_ref().filter(|cluster| cluster.seal.is_on() && !is_proven) {
                Some(cluster) => {
                    let prover = Arc::new(Prover(Arc::clone(cluster)));
                    Client::of_proven(to_peers, &for_peers, nodes, prover)
                }
                None => Client::new(to_peers, &for_peers, nodes),
            },
            by_site: by_site.collect(),
            reverse: Client::new(to_any.through(&plan.parents).with_tls(tls), timeouts, sites),
            forward: Client::new(to_allowed.clone().with_tls(tls), timeouts, named),
            tunnel: to_allowed,
        }
    }

    /// Returns the client for the origins of a site.
    pub(crate) fn of_site(&self, number: SiteNumber) -> &Client {
        let own = self.by_site.iter().find(|(site, _)| *site == number);
        own.map_or(&self.reverse, |(_, client)| client)
    }
}
