//! What workers share, and what each has of its own.
//!
//! A [`Plan`] is the settings made ready to be used; a reload replaces it whole. [`Shared`] is one
//! per process: plan, cache, places. A [`Worker`] is one per thread: counters and connections to
//! origins, so that no two threads meet on a cache line while they serve hits.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::HeaderMap;
use larder_semantics::fields::Fields;
use larder_semantics::key;
use larder_stats::{Sheet, Tally};
use larder_store::{Arena, Disks, Fills, Markers, Memory, Store};
use rustls::ClientConfig;
use tokio::sync::Semaphore;

use crate::admin::cache;
use crate::admin::recent::Recent;
use crate::base::error::Error;
use crate::base::settings::{Door, Role, Settings};
use crate::cache::doubt::Doubts;
use crate::cache::reclaim::Reclaim;
use crate::cluster::proof::Prover;
use crate::cluster::{Cluster, peers};
use crate::counts::accounts::Accounts;
use crate::counts::histogram::{Distributions, Times};
use crate::exchange::gateways::Gateways;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::key_role;
use crate::exchange::settled::Settled;
use crate::features::maintenance::Done;
use crate::features::validator::{Sampler, Validator};
use crate::http::head::Head;
use crate::http1::idle::Lobby;
use crate::net::own::OwnListeners;
use crate::observe::access;
use crate::observe::couplings::Couplings;
use crate::observe::ledger::Ledger;
use crate::observe::memo::{Ended, Memo};
use crate::observe::sums::Hit;
use crate::observe::trace::Tracer;
use crate::observe::verdicts::Verdicts;
use crate::observe::watch::{Queue, Watch};
use crate::origin::{Client, Connector, Destinations, connect};
use crate::rpc::{Budget, Figures};

/// One per process.
pub(crate) struct Shared {
    plan: ArcSwap<Plan>,
    version: AtomicU64,
    pub(crate) store: Arc<Store>,
    pub(crate) fills: Arc<Fills>,
    pub(crate) markers: Markers,
    /// What hits were worth when they were compared with what the origin answers.
    pub(crate) validator: Validator,
    /// What writes seem to change.
    pub(crate) couplings: Couplings,
    /// Changes whose end is unknown.
    pub(crate) doubts: Doubts,
    /// What was said of answers that were not stored.
    pub(crate) verdicts: Verdicts,
    /// What the doors counted.
    pub(crate) figures: Figures,
    /// What the doors may hold.
    pub(crate) budget: Budget,
    /// What the purge schedule did.
    pub(crate) done: Done,
    /// Purges that are to free room on the disks.
    pub(crate) reclaim: Reclaim,
    /// Places for those who look through the disks.
    pub(crate) looks: Arc<Semaphore>,
    /// The statistics database, if there is one.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// What makes spans of requests, if they are traced.
    pub(crate) tracer: Option<Tracer>,
    /// The access log.
    pub(crate) access: access::Log,
    /// What was counted of each site.
    pub(crate) accounts: Accounts,
    /// The pools of tags of all gateways.
    pub(crate) gateways: Gateways,
    /// The cluster that this is a node of, if there is one.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Who watches.
    pub(crate) watch: Watch,
    /// What was counted of late.
    pub(crate) recent: Recent,
    /// Where this process listens.
    pub(crate) own: OwnListeners,
    pub(crate) connections: AtomicUsize,
    draining: AtomicBool,
    tls: Arc<ClientConfig>,
    /// What workers share of their ways to origins.
    pub(crate) origins: Destinations,
    workers: Mutex<Vec<Arc<Worker>>>,
}

/// One per thread.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// Where its connections wait for requests.
    pub(crate) lobby: Lobby,
    /// Counted from 0.
    pub(crate) number: usize,
    /// What its requests took.
    pub(crate) times: Times,
    /// What it answered while somebody watches.
    pub(crate) seen: Queue,
    /// Which of its hits are validated.
    pub(crate) sampler: Sampler,
    /// Where it sums requests for the statistics database, if there is one.
    tally: Option<Tally>,
    clients: Mutex<(u64, Arc<Clients>)>,
    waiting: Mutex<HashMap<u64, Waker>>,
    next_waiting: AtomicU64,
}

/// Ways to origins.
pub(crate) struct Clients {
    /// For configured sites, wherever they are.
    pub(crate) reverse: Client,
    /// For whatever a client of the forward proxy names.
    pub(crate) forward: Client,
    /// For nodes of the cluster.
    pub(crate) peers: Client,
    /// For tunnels.
    pub(crate) tunnel: Connector,
}

impl Shared {
    /// What the workers of a process with these `own` listeners share.
    pub(crate) fn new(settings: Settings, own: OwnListeners) -> Result<Arc<Self>, Error> {
        let tier = &settings.memory;
        let memory = Memory::new(tier.capacity, &tier.policy, tier.max_variants);
        let arena = Arena::new().map_err(|error| Error::new("cannot make a memory file", error))?;
        let max_object = max_object(&settings, &memory);
        let node = |cluster| Cluster::new(cluster, memory.capacity()).map(Arc::new);
        let cluster = settings.cluster.as_ref().map(node).transpose()?;
        let store = Arc::new(Store::new(memory, Disks::new(&settings.disks)));
        let fills = Arc::new(Fills::new(Arc::clone(&store), arena, max_object));
        let access = access::Log::open(settings.access_log_file.as_deref())?;
        let ledger = Ledger::open(&settings.statistics)?.map(Arc::new);
        let tracer = Tracer::start(&settings)?;
        let accounts = Accounts::new(settings.threads.max(1));
        let gateways = Gateways::new(Settled::take(&settings));
        let tls = connect::tls().map_err(|error| Error::new("cannot set up TLS", error))?;
        let shared = Arc::new(Self {
            plan: ArcSwap::from_pointee(Plan::new(settings, &accounts, &gateways)),
            version: AtomicU64::new(0),
            store,
            fills,
            markers: Markers::default(),
            validator: Validator::default(),
            couplings: Couplings::default(),
            doubts: Doubts::default(),
            verdicts: Verdicts::default(),
            figures: Figures::default(),
            budget: Budget::default(),
            done: Done::default(),
            reclaim: Reclaim::default(),
            looks: Arc::new(Semaphore::new(cache::MOST)),
            ledger,
            tracer,
            access,
            accounts,
            gateways,
            cluster,
            watch: Watch::default(),
            recent: Recent::default(),
            own,
            connections: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            tls,
            origins: Destinations::default(),
            workers: Mutex::default(),
        });
        let known = Arc::downgrade(&shared);
        shared.store.purges.know_sites(Arc::new(move |key| known.upgrade()?.site_of(key)));
        Ok(shared)
    }

    /// The name of the site that a cache key belongs to.
    fn site_of(&self, key: &[u8]) -> Option<String> {
        let (_, authority, _) = key::parse(key).filter(|_| key_role(key) == Some(Role::Reverse))?;
        let plan = self.plan();
        let site = plan.sites.find(std::str::from_utf8(authority).ok()?)?;
        Some(site.settings.name.clone())
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    /// Puts new settings in force, for every request that begins from now on.
    pub(crate) fn reload(&self, settings: Settings) {
        self.fills.set_max_object(max_object(&settings, &self.store.memory));
        self.store.memory.set_max_variants(settings.memory.max_variants);
        if settings.memory.policy != self.plan().settings.memory.policy {
            self.store.memory.set_policy(&settings.memory.policy);
        }
        self.store.disks.change(&settings.disks);
        self.access.reopen(settings.access_log_file.as_deref());
        let old = self.plan();
        let (trace, cluster) = (old.settings.trace.clone(), old.settings.cluster.clone());
        let plan = old.next(Settings { trace, cluster, ..settings }, &self.accounts, &self.gateways);
        let version = plan.version;
        self.plan.store(Arc::new(plan));
        self.version.store(version, Ordering::Release);
    }

    /// Goes on in a new file of the access log's name, so that the old one may be moved away.
    pub(crate) fn reopen(&self) {
        self.access.reopen(self.plan().settings.access_log_file.as_deref());
    }

    /// Lets connections end when their requests have.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        for worker in self.workers() {
            let waiting = std::mem::take(&mut *locked(&worker.waiting));
            waiting.into_values().for_each(Waker::wake);
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// What requests took so far.
    pub(crate) fn times(&self) -> Distributions {
        let mut all = Distributions::default();
        self.workers().iter().for_each(|worker| all.add(&worker.times));
        all
    }

    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        locked(&self.workers).clone()
    }
}

fn max_object(settings: &Settings, memory: &Memory) -> u64 {
    settings.memory.max_object.unwrap_or(u64::MAX).min(memory.largest())
}

impl Worker {
    pub(crate) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        let plan = shared.plan();
        let mut workers = locked(&shared.workers);
        let worker = Arc::new(Self {
            shared: Arc::clone(shared),
            lobby: Lobby::default(),
            number: workers.len(),
            times: Times::default(),
            seen: Queue::default(),
            sampler: Sampler::default(),
            tally: shared.ledger.as_deref().map(Ledger::tally),
            clients: Mutex::new((plan.version, Arc::new(Clients::new(&plan.settings, shared)))),
            waiting: Mutex::default(),
            next_waiting: AtomicU64::new(0),
        });
        workers.push(Arc::clone(&worker));
        worker
    }

    /// The plan in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.shared.plan()
    }

    /// Whether a reload has happened since `plan`.
    pub(crate) fn is_outdated(&self, plan: &Plan) -> bool {
        self.shared.version.load(Ordering::Acquire) != plan.version
    }

    /// Connections to origins as `plan` wants them.
    pub(crate) fn clients(&self, plan: &Plan) -> Arc<Clients> {
        let mut clients = locked(&self.clients);
        if clients.0 != plan.version {
            *clients = (plan.version, Arc::new(Clients::new(&plan.settings, &self.shared)));
        }
        Arc::clone(&clients.1)
    }

    /// What to remember of a request that has just been read; nothing if nobody wants to know.
    pub(crate) fn note(
        &self,
        plan: &Plan,
        role: Role,
        head: &Head<'_>,
        client: SocketAddr,
        begun: Option<Instant>,
    ) -> Option<Memo> {
        let begin = || Memo::begin(plan, role, head, client, begun.unwrap_or_else(Instant::now));
        self.takes_notes(plan).then(|| self.traced(begin(), &head.fields))
    }

    /// The same of one that could not be read.
    pub(crate) fn note_unread(&self, plan: &Plan, client: SocketAddr) -> Option<Memo> {
        self.takes_notes(plan).then(|| Memo::unread(client))
    }

    /// The same of a call for `url` through `door`.
    pub(crate) fn note_call(&self, plan: &Plan, door: Door, url: &str, client: SocketAddr) -> Option<Memo> {
        let memo = || self.traced(Memo::of_call(plan, door, url, client), &HeaderMap::new());
        self.takes_notes(plan).then(memo)
    }

    /// The same with a span, if requests are traced.
    fn traced(&self, mut memo: Memo, fields: &impl Fields) -> Memo {
        memo.trace = self.shared.tracer.as_ref().map(|tracer| tracer.begin(fields));
        memo
    }

    fn takes_notes(&self, plan: &Plan) -> bool {
        self.tells(plan) || self.shared.ledger.is_some()
    }

    /// The sheet on which hits are summed, to be held while some are answered.
    pub(crate) fn sheet(&self) -> Option<MutexGuard<'_, Sheet>> {
        self.tally.as_ref().map(Tally::sheet)
    }

    /// When a request came that was read at `now` (UNIX seconds), if that should be known.
    pub(crate) fn begun(&self, plan: &Plan, sheet: Option<&mut Sheet>, now: u32) -> Option<Instant> {
        let is_timed = sheet.is_some_and(|sheet| sheet.wants_time(now)) || self.tells(plan);
        is_timed.then(Instant::now)
    }

    /// Counts a hit that took no waiting, and whose reply of `bytes` bytes is in the buffer, and tells it to the
    /// access log, to those who watch, and to the statistics.
    pub(crate) fn record_hit(
        &self,
        plan: &Plan,
        sheet: Option<&mut Sheet>,
        hit: &Hit<'_>,
        reply: &Reply,
        bytes: u64,
    ) {
        let ended = Ended::by(reply, bytes);
        self.count(plan, &ended);
        if self.tells(plan) {
            let mut memo = self.traced(hit.memo(plan), &hit.head.fields);
            memo.answered(plan, reply);
            self.tell(plan, &memo, &ended, memo.elapsed());
        }
        if let (Some(ledger), Some(sheet)) = (&self.shared.ledger, sheet) {
            ledger.record_hit(plan, sheet, hit, &ended);
        }
    }

    /// [`record`](Self::record) for a reply of which `bytes` bytes were sent.
    pub(crate) fn replied(&self, plan: &Plan, reply: &Reply, bytes: u64, mut memo: Option<Memo>) {
        memo.iter_mut().for_each(|memo| memo.answered(plan, reply));
        self.record(plan, &Ended::by(reply, bytes), memo);
    }

    /// Counts a request, and tells it to the access log, to those who watch, and to the statistics.
    pub(crate) fn record(&self, plan: &Plan, ended: &Ended, memo: Option<Memo>) {
        self.count(plan, ended);
        let Some(memo) = memo else { return };
        let took = memo.elapsed();
        self.tell(plan, &memo, ended, took);
        if let (Some(ledger), Some(mut sheet)) = (&self.shared.ledger, self.sheet()) {
            ledger.record(&mut sheet, memo, ended, took);
        }
    }

    fn count(&self, plan: &Plan, ended: &Ended) {
        plan.sites.account(ended.site).of(self.number).record(&ended.outcome, ended.bytes);
    }

    /// Whether somebody wants to be told of each request.
    fn tells(&self, plan: &Plan) -> bool {
        plan.tells || self.shared.watch.is_on()
    }

    fn tell(&self, plan: &Plan, memo: &Memo, ended: &Ended, took: Duration) {
        if plan.logs() {
            self.shared.access.write(plan.settings.access_log, memo, ended, took);
        }
        if let Some(tracer) = &self.shared.tracer {
            tracer.record(memo, ended, took);
        }
        if self.shared.watch.is_on() {
            self.seen.put(memo.clone(), ended, took, plan.settings.threads);
        }
    }

    /// A number under which a connection registers to be woken by a drain.
    pub(crate) fn enlist(&self) -> u64 {
        self.next_waiting.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn wake_on_drain(&self, number: u64, waker: &Waker) {
        locked(&self.waiting).insert(number, waker.clone());
    }

    pub(crate) fn resign(&self, number: u64) {
        locked(&self.waiting).remove(&number);
    }
}

impl Clients {
    fn new(settings: &Settings, shared: &Shared) -> Self {
        let (timeouts, Destinations { sites, named, nodes }) = (&settings.timeouts, &shared.origins);
        let (tls, own) = (&shared.tls, &shared.own);
        let to_any = Connector::new(timeouts.connect, false, sites).never_to(own);
        let to_allowed =
            Connector::new(timeouts.connect, !settings.forward.allow_private, named).never_to(own);
        let to_peers = Connector::new(peers::CONNECT, false, nodes).never_to(own).with_tls(tls);
        let for_peers = peers::timeouts(timeouts);
        Self {
            peers: match shared.cluster.as_ref().filter(|cluster| cluster.seal.is_on()) {
                Some(cluster) => {
                    let prover = Arc::new(Prover(Arc::clone(cluster)));
                    Client::of_proven(to_peers, &for_peers, nodes, prover)
                }
                None => Client::new(to_peers, &for_peers, nodes),
            },
            reverse: Client::new(to_any.with_tls(tls), timeouts, sites),
            forward: Client::new(to_allowed.clone().with_tls(tls), timeouts, named),
            tunnel: to_allowed,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
