//! **The flow**: the steps of a request, in the order of RFC 9111 section 4.
//!
//! key -> find -> select -> reuse -> (fresh | stale-while-revalidate | revalidate | miss) -> fill -> reply. This module
//! has the control flow; the rules are in `larder-semantics`, the bytes in `larder-store`. [`at_once`] is the same flow
//! for requests that the cache can answer without waiting.

use std::sync::Arc;

use http::{Method, StatusCode};
use larder_semantics::coding::AcceptedCodings;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::{Flags, Freshness};
use larder_semantics::range;
use larder_semantics::reuse::Failure;
use larder_semantics::status::Why;
use larder_semantics::storable::Rules;
use larder_store::fill::{Epoch, FillWriter, Head, Reader};
use larder_store::memory::KeyUsage;
use larder_store::{Entry, JoinResult, Resident};

use crate::base::clock;
use crate::base::outcome::{Kind, Outcome, Tier};
use crate::base::settings::CountedRequests;
use crate::cache::Cache;
use crate::cache::ahead::Refresh;
use crate::cluster::{Cluster, lease, session};
use crate::exchange::arrival::Requester;
use crate::exchange::client_cert;
use crate::exchange::limits;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::target::{Address, HashedKey, RuledClient, asked, cached_site};
use crate::flow::context::{Context, refused};
use crate::flow::decide::{
    Decision, StoredResponse, Terms, before_lookup, bypass, decide, may_stand_in, patience_with,
};
use crate::flow::fetch;
use crate::flow::fetch_scope::FetchScope;
use crate::flow::finish::{Destination, finish, finish_at_once};
use crate::flow::prefetch::{self, ObservedRequest};
use crate::flow::stored::{Lookup, Mode, StoredVariants, find};
use crate::flow::upstream::{self, Answer};
use crate::flow::worker::Worker;
use crate::flow::{answer, arriving, early_hints, equivalent, pass, reload, sliced};
use crate::http::body::Upload;
use crate::http::head::{self, Framing, Refusal};

/// Puts the reply to a request that the cache can answer at `now` (UNIX seconds) without waiting into `place`, where it
/// stays until it is written: to move it takes time. Returns `None` if there is none; what the place holds then is unfinished.
/// An ordinary hit in memory allocates nothing. Writes its `key`, if it gets that far.
pub(crate) fn at_once(
    worker: &Worker,
    plan: &Plan,
    head: &head::RequestHead<'_>,
    asker: &Requester<'_>,
    now: u32,
    key: &mut HashedKey,
    place: &mut Option<Reply>,
) -> Option<()> {
    let is_bypassed = bypass(&head.method, head.framing != Framing::Length(0), head.upgrade).is_some();
    // Rules and variants depend on the fields that are forwarded: an owned request has lost those that are listed.
    if is_bypassed || head.lists_fields || !worker.shared.may_serve_stored() {
        return None;
    }
    let role = asker.role;
    let address = Address::of(head.target, role).ok()?;
    let sent = client_cert::selecting(&head.fields, asker, plan.settings.request_id.as_ref());
    let (site, rulebook, ruling) =
        cached_site(plan, role, &address, (&head.method, RuledClient::of(asker), &sent))?;
    let path = ruling.resource(address.path);
    let address = Address { path: &path, ..address };
    let rules = &ruling.caching;
    let selecting = if asker.by_peer { sent } else { sent.edited(&ruling.request)? };
    if rules.compression.is_on() && range::is_resumed_by_date(&selecting) {
        return None;
    }
    let (key, hash) = key.write(&worker.cache.store.memory, (role, &address), &ruling, &selecting);
    let (entry, tier, is_own) = find_at_once(worker, key, hash, &selecting, head.is_prefetch, now)?;
    let is_undone = |entry: &Entry| is_undone((rules, asker), &head.fields, entry);
    let stored = StoredResponse::of(&entry, is_own, (&head.method, &selecting), now, is_undone);
    let forbids_guess = stored.freshness.flags.contains(Flags::HEURISTIC) && rules.forbids_guess(&selecting);
    // The other terms matter only to requests that are sent to an origin.
    let terms = Terms { directives: asked(&selecting, rules), forbids_guess, ..Terms::default() };
    let decision = decide(&terms, Ok(stored), now);
    let is_use = !asker.by_peer && !head.is_prefetch;
    let is_due = || is_use && is_due(worker, rules, &stored.freshness, hash, now);
    if !matches!(decision, Decision::Hit(_)) || is_due() {
        return None;
    }
    let outcome = Outcome::hit(decision.kind(), decision.why(), stored.freshness.ttl(now)).from(tier);
    *place = answer::from_entry((&head.method, &selecting), entry, now, outcome, is_undone);
    let reply = place.as_mut()?;
    let is_filled =
        sliced::response(reply).is_none() || sliced::fill_at_once(&worker.cache, &head.method, reply);
    let asked_for_certificate = asker.identity.is_some();
    let to = Destination {
        worker: worker.number,
        site,
        key,
        hash,
        client: asker.address.ip(),
        id: asker.id,
        rulebook,
        ruling: &ruling,
        method: &head.method,
        sent: &sent,
        is_prefetch: head.is_prefetch,
        by_peer: asker.by_peer,
        asked_for_certificate,
    };
    if !is_filled || !finish_at_once(&worker.cache, &to, (&selecting, &head.fields), reply) {
        return None;
    }
    if !rules.prefetch.is_empty() && !asked_for_certificate && !asker.by_peer && head.method == Method::GET {
        let of =
            ObservedRequest { role, client: asker.address, site, key, hash, fields: &head.fields, rules };
        prefetch::hit(worker, &of, reply);
    }
    Some(())
}

/// Whether a request with these fields gets the content of `entry` without the coding of the origin.
fn is_undone((rules, asker): (&Rules, &Requester<'_>), fields: &impl Fields, entry: &Entry) -> bool {
    let own = entry.coding_terms().undoable.filter(|_| rules.compression.is_on() && !asker.by_peer);
    own.is_some_and(|own| !AcceptedCodings::of(fields).takes(own))
}

/// Returns the stored response that a request with these fields selects, if it is found without waiting, and whether it
/// is stored under `key`. A prefetch does not count as a use: no user has asked for the response yet.
#[inline]
fn find_at_once(
    worker: &Worker,
    key: &[u8],
    hash: u64,
    selecting: &impl Fields,
    is_prefetch: bool,
    now: u32,
) -> Option<(Entry, Tier, bool)> {
    let store = &worker.cache.store;
    let found = match is_prefetch {
        true => store.memory.peek(key, hash).and_then(|resident| answer::take(resident, selecting)),
        false => {
            let selects = |entry: &Entry| answer::selects(entry, selecting);
            store.memory.find_for(worker.number, (key, hash), now, selects)
        }
    };
    match found {
        Some(entry) => {
            let entry = store.current(entry)?;
            if !is_prefetch {
                store.used(&entry, now);
            }
            Some((entry, Tier::Memory, true))
        }
        None if is_prefetch => None,
        None => equivalent::not_in_memory(&worker.cache, key, selecting, now),
    }
}

/// Returns the reply to a request that the cache or an origin answers, and no feature of this proxy.
pub(crate) async fn flow(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &mut Request) -> Box<Reply> {
    if let Err(reply) = catch_up(worker, request).await {
        return reply;
    }
    match before_lookup(&Terms::of(request, !request.content.is_empty())) {
        None => {}
        Some(Decision::Refuse(why)) => return refused(why).into(),
        Some(decision) => {
            if let Err(reply) = limits::enter(request, CountedRequests::Misses) {
                return reply;
            }
            // Boxed: the states of rare paths would enlarge the future of every request.
            return Box::pin(pass::through(worker, plan, request, decision.why())).await.into();
        }
    }
    request.asks_peers = asks_peers(worker.shared.cluster.as_deref(), &request.ruling.caching, request);
    let request = &*request;
    let cx = Context { worker, plan, rules: &request.ruling.caching };
    let reply = cx.answer(request).await;
    match sliced::response(&reply) {
        None => reply,
        Some(_) => Box::pin(cx.with_slices(request, *reply)).await.into(),
    }
}

/// Waits until the stored responses of this node may answer `request`, as far as that depends on other nodes. Errors:
/// the refusal, if `request` comes from a node that has received purges which this node has not received.
pub(crate) async fn catch_up(worker: &Worker, request: &mut Request) -> Result<(), Box<Reply>> {
    let cluster = worker.shared.cluster.as_ref();
    if request.awaited.is_some() && !Box::pin(session::catch_up(cluster.map(Arc::as_ref), request)).await {
        return Err(Box::new(refusal(BEHIND)));
    }
    if let Some(cluster) = cluster.filter(|cluster| !cluster.may_serve_stored()) {
        lease::confirm(cluster, &worker.cache).await;
    }
    Ok(())
}

/// Returns the reply with the reason why a request is refused.
#[cold]
pub(crate) fn refusal(refusal: Refusal) -> Reply {
    let outcome = Outcome::forwarded(Kind::Refused, Why::Refused);
    let text = format!("{}: {}\n", refusal.status.as_str(), refusal.reason);
    Reply { close: true, ..Reply::text(refusal.status, text, outcome) }
}

/// Returns the reply to a request that is refused, with what its rules put in place of errors if its site is known.
pub(crate) fn refusal_of(worker: &Worker, plan: &Plan, request: Option<&Request>, why: Refusal) -> Reply {
    let mut reply = refusal(why);
    if let Some(request) = request {
        finish(&Destination::of(worker.number, plan, request), &mut reply);
    }
    reply
}

/// The refusal of a request from a node that has received more purges. That node then sends the request to the origin.
const BEHIND: Refusal =
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, reason: "this node has not received all purges yet" };

impl Context<'_> {
    /// Answers a GET or HEAD from the cache or by an origin. An origin's answer to a HEAD may freshen the stored response
    /// (RFC 9111 section 4.3.5).
    pub(crate) async fn answer(&self, request: &Request) -> Box<Reply> {
        let epoch = self.worker.cache.fills.epoch_of(request.hash);
        if self.rules.validated && !request.is_prefetch {
            self.use_up(request);
        }
        let held = StoredVariants::look(&self.worker.cache, request, Mode::Serve).await;
        let decision = match find(request, &held) {
            (Decision::StaleAndRefresh, Some(reply)) => {
                if let Some(entry) = held.entry.filter(|_| refreshes(self.plan, request)) {
                    self.refresh(request, entry, epoch, None);
                }
                return reply.into();
            }
            (_, Some(reply)) => {
                self.refresh_ahead(request, &held, epoch);
                return reply.into();
            }
            (Decision::Refuse(why), None) => return Box::pin(self.ask_owner(request, why)).await,
            (decision, None) => decision,
        };
        let why = decision.why();
        let entry = held.entry;
        if request.method != Method::HEAD {
            early_hints::send(*self, request, entry.as_ref());
        }
        // The owner of the key may answer a `max-age` or `min-fresh` reload from its cache. A `no-cache` reload wants a
        // newer response.
        let by_owner =
            request.is_reload() && request.asks_peers && !request.by_peer && !request.asked.no_cache;
        let is_for_client = by_owner || reload::is_for_client(&self.worker.cache, request);
        let is_alone = is_for_client || entry.as_ref().is_some_and(is_for_one_use);
        let lookup = Lookup { entry, epoch };
        let stored = lookup.entry.as_ref().filter(|_| !is_alone && refreshes(self.plan, request));
        let slow = stored.and_then(|entry| {
            let limit = patience_with(self.rules, request, entry, why, clock::now())?;
            Some((entry.clone(), limit))
        });
        match slow {
            Some(stored) => Box::pin(self.unless_slow(request, stored, lookup, held.resident)).await,
            None => self.ask(request, (why, is_alone), lookup, held.resident).await,
        }
    }

    /// Answers a request that this node refuses for the reason `why`, as it accepts only a stored response: the node that owns
    /// its key may have one.
    async fn ask_owner(&self, request: &Request, why: Why) -> Box<Reply> {
        if !request.asks_peers || request.by_peer {
            return refused(why).into();
        }
        if let Err(reply) = limits::enter(request, CountedRequests::Misses) {
            return reply;
        }
        let mut nothing = Upload::Empty;
        let sent = upstream::send(self.worker, self.plan, request, &request.fields, &mut nothing, None);
        let Ok(Answer { status, fields, download, .. }) = sent.await else { return refused(why).into() };
        let outcome = Outcome::forwarded(Kind::Miss, Why::OwnedElsewhere).answered(status);
        upstream::pass_on(request.method == Method::HEAD, status, fields, download, outcome).into()
    }

    /// Answers a request that needs an origin for the reason `why`; `is_alone`: nobody else can use its answer.
    pub(crate) async fn ask(
        &self,
        request: &Request,
        (why, is_alone): (Why, bool),
        lookup: Lookup,
        resident: Option<Resident>,
    ) -> Box<Reply> {
        if request.method == Method::HEAD {
            return match limits::enter(request, CountedRequests::Misses) {
                Ok(()) => Box::pin(pass::head(*self, request, why, lookup)).await.into(),
                Err(reply) => reply,
            };
        }
        let wants_part = request.fields.contains("range");
        if wants_part
            && !is_alone
            && let Some(reply) = Box::pin(self.arriving(request, why, &lookup, resident.as_ref())).await
        {
            return reply.into();
        }
        let is_alone = is_alone || wants_part;
        if is_alone && !sliced::begins(*self, request, lookup.entry.as_ref()) {
            let scope = FetchScope::Alone(lookup.epoch);
            return fetch::for_client(*self, request, scope, why, lookup).await;
        }
        if request.is_reload() {
            return Box::pin(self.reload(request, why, lookup, resident)).await;
        }
        self.coalesce(request, why, lookup, resident).await
    }

    /// Counts a use of a stored response that each request validates. `at_once` counts the uses of others.
    fn use_up(&self, request: &Request) {
        let store = &self.worker.cache.store;
        let now = clock::now();
        let found = store.memory.find(&request.key, request.hash, now);
        if let Some(entry) = found.and_then(|resident| answer::take(resident, &request.fields)) {
            store.used(&entry, now);
        }
    }

    /// Returns the reply from a response that another request's fetch has stored, if this request selects it.
    pub(crate) fn share(&self, request: &Request, entry: Entry, kind: Kind, why: Why) -> Option<Reply> {
        let now = clock::now();
        let outcome = Outcome::hit(kind, why, entry.freshness().ttl(now));
        (answer::selects(&entry, &request.fields) && equivalent::is_entry_for(request, &entry))
            .then(|| answer::to(request, entry, now, outcome))?
    }

    pub(crate) fn may_stand_in(&self, entry: &Entry, request: &Request) -> bool {
        may_stand_in(self.rules, request, entry, Failure::Unreachable, clock::now())
    }

    pub(crate) fn follow(&self, request: &Request, head: &Arc<Head>, reader: Reader, why: Why) -> Reply {
        let outcome = Outcome { ttl: None, ..Outcome::hit(Kind::Coalesced, why, 0) };
        let source = Source::Fill(Arc::clone(head));
        arriving::reply(request, head, source, reader, outcome)
    }

    /// Refreshes the response that has answered if it is popular and expires soon.
    fn refresh_ahead(&self, request: &Request, held: &StoredVariants, epoch: Epoch) {
        let (Some(entry), Tier::Memory, 1..) = (&held.entry, held.tier, self.rules.refresh_ahead) else {
            return;
        };
        let (now, memory) = (clock::now(), &self.worker.cache.store.memory);
        let hash = memory.hash(entry.key());
        let is_no_use = request.by_peer || request.is_prefetch;
        let is_due = !is_no_use && is_due(self.worker, self.rules, &entry.freshness(), hash, now);
        let is_popular = |(_, used): (_, KeyUsage)| used.lately >= self.rules.refresh_ahead_hits;
        if !is_due || !refreshes(self.plan, request) || !memory.used(entry.key()).is_some_and(is_popular) {
            return;
        }
        let (permits, wait) = (self.plan.settings.limits.in_flight, self.plan.concurrency.is_waited_for());
        if let Some(ahead) = self.worker.cache.ahead.begin(hash, now, permits, wait) {
            self.refresh(request, entry.clone(), epoch, Some(ahead));
        }
    }

    /// Fetches a newer response in the background. `ahead` is the permit of a refresh before `stored` expires.
    fn refresh(&self, request: &Request, stored: Entry, epoch: Epoch, ahead: Option<Refresh>) {
        let fills = &self.worker.cache.fills;
        if let JoinResult::Writer(writer) = fills.join_own(stored.key(), stored.signature()) {
            self.lead_refresh(request, stored, writer, epoch, ahead);
        }
    }

    /// Fetches a response newer than `stored` in the background, for the followers of `writer`.
    pub(crate) fn lead_refresh(
        &self,
        request: &Request,
        stored: Entry,
        writer: FillWriter,
        epoch: Epoch,
        ahead: Option<Refresh>,
    ) {
        let (worker, plan) = (Arc::clone(self.worker), Arc::clone(self.plan));
        let hash = worker.cache.store.memory.hash(stored.key());
        let request = request.in_background_for(stored.key(), hash);
        tokio::spawn(async move {
            let ruling = Arc::clone(&request.ruling);
            let Some(rules) = ruling.caching() else { return };
            let cx = Context { worker: &worker, plan: &plan, rules };
            let (fetching, old) = (FetchScope::Leads(Box::new(writer)), stored.freshness());
            let key = ahead.is_some().then(|| stored.key().to_vec());
            let lookup = Lookup { entry: Some(stored), epoch };
            let reply = fetch::fetch(cx, &request, fetching, (Why::Expired, false), lookup).await;
            reply.drain().await;
            drop(ahead);
            if let Some(key) = key {
                worker.cache.ahead.observe(&worker.cache.store, &key, &old).await;
            }
        });
    }
}

/// Whether `request` may cause a refresh in the background, which is a GET under the same rules.
pub(crate) fn refreshes(plan: &Plan, request: &Request) -> bool {
    let is_get = request.method == Method::GET;
    !request.is_for_cache_only() && (is_get || !request.route.rulebook(&plan.forward).looks_at_methods())
}

/// Whether a response of this freshness is due for a refresh before it expires, under the settings in `rules`.
fn is_due(worker: &Worker, rules: &Rules, freshness: &Freshness, hash: u64, now: u32) -> bool {
    rules.refresh_ahead > 0
        && freshness.is_ending(now, rules.refresh_ahead)
        && worker.cache.ahead.is_open(hash, now)
}

/// Whether other nodes may answer in place of the origin: no condition forbids a stored answer.
pub(crate) fn asks_peers(cluster: Option<&Cluster>, rules: &Rules, request: &Request) -> bool {
    // Requests to other nodes do not carry client certificates.
    let is_for_all =
        || !rules.validated && !client_cert::names_client(&request.fields) && !request.asked.no_store;
    let is_current = cluster.is_some_and(|cluster| cluster.invalidations.lease.is_current());
    is_current && request.awaited.is_none() && is_for_all()
}

/// Whether this fetch must not be shared with requests for the same URL that accept the stored response.
pub(crate) fn goes_alone(cache: &Cache, request: &Request) -> bool {
    reload::is_for_itself(cache, request) || request.is_reload()
}

/// Whether each use of a stored response needs its own validation.
fn is_for_one_use(entry: &Entry) -> bool {
    let Freshness { lifetime, flags, .. } = entry.freshness();
    // A purge may have set the lifetime to 0 in the second in which it began.
    (lifetime == 0 && !flags.contains(Flags::PURGED)) || flags.contains(Flags::NO_CACHE)
}
