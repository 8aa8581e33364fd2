//! Prefetches: fetches of the responses that a client is likely to request next.
//!
//! The planner observes each GET of a client ([`asked`], [`PlannerRequest::answered`]). For each [`Candidate`] of the planner, a
//! task on the same thread fetches the URL as a client without credentials would request it, under the same rules and
//! keys. It copies those fields of the observed request by which responses often vary. A prefetch takes nothing from
//! clients: it waits for no permit, counts against no limit, and does not count as a use of a stored response.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use larder_predict::budget::Share;
use larder_predict::{Answer, Candidate, ClientRequest, Predictor, Predictors, PrefetchResult, Ticket};
use larder_semantics::fields::Fields;
use larder_semantics::storable::{Prediction, Rules};
use larder_store::JoinResult;

use crate::base::clock;
use crate::base::outcome::Kind as Outcome;
use crate::base::settings::Role;
use crate::cluster::peers;
use crate::exchange::arrival::Requester;
use crate::exchange::client_cert;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::exchange::route::{Route, SiteNumber};
use crate::exchange::target::{key_role, url_parts};
use crate::flow::context::Context;
use crate::flow::decide::{bypass, is_port_forbidden};
use crate::flow::fetch;
use crate::flow::stored::{Lookup, Mode, StoredVariants, expected, find};
use crate::flow::worker::Worker;
use crate::http::head::{self, RequestHead};

/// The field that marks a request for which no user has asked yet (Fetch Standard).
const PURPOSE: &str = "sec-purpose";
/// The fields that a prefetch copies from the observed request.
const CARRIED: [&str; 4] = ["accept", "accept-encoding", "accept-language", "user-agent"];
/// The longest value that is copied, in bytes.
const LONGEST: usize = 1_024;

/// A GET of a client that the cache may answer, in the form that predictions need.
pub(crate) struct ObservedRequest<'s, F> {
    pub(crate) role: Role,
    pub(crate) client: SocketAddr,
    pub(crate) site: SiteNumber,
    /// The cache key.
    pub(crate) key: &'s [u8],
    /// The hash of the key in the memory tier.
    pub(crate) hash: u64,
    pub(crate) fields: &'s F,
    pub(crate) rules: &'s Rules,
}

/// A request that the planner has observed.
pub(crate) struct PlannerRequest {
    client: u64,
    site: u64,
    host: u64,
    url: u64,
    text: String,
    range: Option<(u64, u64)>,
    kinds: Predictors,
    share: Share,
    is_named: bool,
}

/// A prefetch to be made, and the details of the observed request that led to it.
struct Order {
    wish: Candidate,
    role: Role,
    client: SocketAddr,
    site: SiteNumber,
    fields: HeaderMap,
}

/// Reports a request to the planner, and begins the prefetches that the planner returns. `None` if the planner does not
/// observe: the site prefetches nothing, or the request is a prefetch of the client.
fn asked<F: Fields>(worker: &Worker, seen: &ObservedRequest<'_, F>) -> Option<PlannerRequest> {
    let is_on = !seen.rules.prefetch.is_empty();
    let is_for_client = !seen.fields.first(PURPOSE).is_some_and(|purpose| purpose.starts_with(b"prefetch"));
    let asked = (is_on && is_for_client).then(|| PlannerRequest::new(worker, seen)).flatten()?;
    let mut wishes = Vec::new();
    worker.cache.prefetches.plan(|planner| planner.asked(&asked.ask(), &mut wishes));
    if !wishes.is_empty() {
        begin(worker, seen, wishes);
    }
    Some(asked)
}

/// [`asked`] for a request that the cache has answered at once with `reply`.
pub(crate) fn hit<F: Fields>(worker: &Worker, seen: &ObservedRequest<'_, F>, reply: &Reply) {
    if let Some(asked) = asked(worker, seen) {
        asked.answered(worker, reply);
    }
}

/// [`asked`] for a request that memory has not answered at once.
pub(crate) fn asked_by(worker: &Worker, request: &Request) -> Option<Box<PlannerRequest>> {
    let rules = request.ruling.caching().filter(|rules| !rules.prefetch.is_empty())?;
    let passes = bypass(&request.method, !request.content.is_empty(), request.upgrade.is_some()).is_some();
    if passes || request.by_peer || request.method != Method::GET || request.asked_for_certificate {
        return None;
    }
    let fields = request.unchanged.as_deref().map_or(&request.fields, |unchanged| &unchanged.fields);
    let (client, site) = (request.client, request.route.number());
    let (role, key, hash) = (key_role(&request.key)?, &*request.key, request.hash);
    asked(worker, &ObservedRequest { role, client, site, key, hash, fields, rules }).map(Box::new)
}

impl PlannerRequest {
    fn new<F: Fields>(worker: &Worker, seen: &ObservedRequest<'_, F>) -> Option<Self> {
        let ObservedRequest { client, site, key, hash, fields, rules, .. } = *seen;
        let (scheme, authority, path) = url_parts(key)?;
        let (authority, path) = (str::from_utf8(authority).ok()?, str::from_utf8(path).ok()?);
        let (has, prefetches) = (|kind| rules.prefetch.contains(&kind), &worker.cache.prefetches);
        Some(Self {
            client: prefetches.client(client.ip()),
            site: site.index() as u64,
            host: prefetches.hash((scheme, authority)),
            url: hash,
            text: format!("{scheme}://{authority}{path}"),
            range: fields.first("range").and_then(range),
            kinds: Predictors {
                association: has(Prediction::Association),
                sequence: has(Prediction::Sequence),
            },
            share: Share::percent(rules.prefetch_traffic.into()),
            is_named: client_cert::names_client(fields),
        })
    }

    fn ask(&self) -> ClientRequest<'_> {
        ClientRequest {
            now: clock::millis(),
            client: self.client,
            site: self.site,
            host: self.host,
            url: self.url,
            text: &self.text,
            range: self.range,
            kinds: self.kinds,
            share: self.share,
        }
    }

    /// Reports the reply to the planner.
    pub(crate) fn answered(&self, worker: &Worker, reply: &Reply) {
        let outcome = &reply.outcome;
        let is_followed = outcome.kind == Outcome::Coalesced;
        let complete = || match &reply.content_range {
            Some(part) => part.complete(),
            None => reply.field("content-range")?.rsplit_once('/')?.1.parse().ok(),
        };
        let answer = Answer {
            by_cache: outcome.is_hit() || is_followed,
            is_stored: (outcome.may_be_stored() || outcome.is_stored() || is_followed) && !self.is_named,
            bytes: reply.length,
            complete: self.range.and_then(|_| complete()),
        };
        worker.cache.prefetches.plan(|planner| planner.answered(&self.ask(), &answer));
    }
}

/// Returns the range of a `Range` field that names one range with both ends.
fn range(field: &[u8]) -> Option<(u64, u64)> {
    let (first, last) = str::from_utf8(field).ok()?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?)).filter(|(first, last)| first <= last)
}

/// Begins these prefetches, as far as the limit on prefetches in progress allows.
fn begin<F: Fields>(worker: &Worker, seen: &ObservedRequest<'_, F>, wishes: Vec<Candidate>) {
    if worker.shared.is_draining() {
        return;
    }
    let Some(worker) = worker.shared.workers().get(worker.number).cloned() else { return };
    for wish in wishes {
        let Some(place) = worker.cache.ahead.begin_prefetch() else { return };
        let &ObservedRequest { role, client, site, .. } = seen;
        let order = Order { fields: carried(seen.fields, wish.kind), wish, role, client, site };
        let worker = Arc::clone(&worker);
        tokio::spawn(async move {
            order.run(&worker).await;
            drop(place);
        });
    }
}

/// Returns the fields that a prefetch copies from a request. A resource that follows by association is seldom of the
/// same media type, so that `Accept` is not copied then.
fn carried(fields: &impl Fields, kind: Predictor) -> HeaderMap {
    let mut carried = HeaderMap::new();
    for name in CARRIED.into_iter().filter(|name| kind == Predictor::Sequence || *name != "accept") {
        let value = fields.first(name).filter(|value| value.len() <= LONGEST);
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value).ok()) {
            carried.insert(HeaderName::from_static(name), value);
        }
    }
    carried
}

impl Order {
    async fn run(&self, worker: &Arc<Worker>) {
        let plan = worker.plan();
        let Some(request) = self.request(worker, &plan) else { return };
        let ruling = Arc::clone(&request.ruling);
        let Some(rules) = ruling.caching().filter(|rules| self.is_allowed(worker, &plan, &request, rules))
        else {
            return;
        };
        let (cx, cache) = (Context { worker, plan: &plan, rules }, &worker.cache);
        let epoch = cache.fills.epoch_of(request.hash);
        let held = StoredVariants::look(cache, &request, Mode::Serve).await;
        if !find(&request, &held).0.asks_origin() {
            return;
        }
        let signature = held.resident.as_ref().map(|resident| expected(resident, &request));
        let writer = match self.wish.range {
            Some(_) => cache.fills.alone(&request.key, cache.fills.epoch_of(request.hash)),
            None => match cache.fills.join_own(&request.key, &signature.unwrap_or_default()) {
                JoinResult::Writer(writer) => writer,
                JoinResult::Follow(_) => return,
            },
        };
        let Some(running) = PrefetchGuard::start(worker, self, request.hash) else { return };
        let lookup = Lookup { entry: held.entry, epoch };
        let ending = fetch::prefetch::prefetch(cx, &request, writer, lookup, running.most()).await;
        let stored = match ending {
            PrefetchResult::Stored(_) => StoredVariants::look(cache, &request, Mode::Serve).await.entry,
            _ => None,
        };
        if let Some(entry) = stored {
            cache.prefetches.mark(request.hash, entry.freshness().received);
        }
        running.ended(ending);
    }

    /// Returns the request that a client without credentials would make.
    fn request(&self, worker: &Worker, plan: &Plan) -> Option<Box<Request>> {
        let mut fields = self.fields.clone();
        if let Some((first, last)) = self.wish.range {
            fields.insert(header::RANGE, format!("bytes={first}-{last}").parse().ok()?);
        }
        let asker =
            Requester { role: self.role, address: self.client, identity: None, id: None, by_peer: false };
        let mut request = own_request(worker, plan, &self.wish.url, fields, &asker)?;
        request.fields.insert(HeaderName::from_static(PURPOSE), HeaderValue::from_static("prefetch"));
        Some(request)
    }

    /// Whether the rules for the URL itself allow the prefetch: the observed request may be under other rules.
    fn is_allowed(&self, worker: &Worker, plan: &Plan, request: &Request, rules: &Rules) -> bool {
        let wanted = match self.wish.kind {
            Predictor::Association => Prediction::Association,
            Predictor::Sequence => Prediction::Sequence,
        };
        let is_plain = match &request.route {
            Route::Site(site) => {
                site.tags.is_none() && (request.scheme == "https" || !site.settings.only_https)
            }
            Route::Anywhere => !is_port_forbidden(plan, request),
        };
        // A response that another node owns would be kept there, and not here.
        let is_own = worker
            .shared
            .cluster
            .as_ref()
            .is_none_or(|cluster| peers::owner(cluster, &request.key).is_none());
        rules.prefetch.contains(&wanted)
            && is_own
            && !rules.validated
            && !rules.stores_nothing
            && is_plain
            && request.route.number() == self.site
            && request.ruling.may_prefetch(self.client.ip())
            && worker.shared.may_serve_stored()
            && !worker.cache.hit_for_miss.marked(request.hash, clock::now())
    }
}

/// Returns the GET that this proxy makes itself on behalf of `asker`; `None` for a URL that no client could request.
pub(crate) fn own_request(
    worker: &Worker,
    plan: &Plan,
    url: &str,
    mut fields: HeaderMap,
    asker: &Requester<'_>,
) -> Option<Box<Request>> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    fields.insert(header::HOST, authority.parse().ok()?);
    let lines = head::lines(&fields);
    let head = RequestHead::compose(&Method::GET, url, &lines, &plan.settings.limits).ok()?;
    let mut request = Request::take(&head, &worker.cache.store.memory, plan, asker).ok()?;
    request.is_own_prefetch = true;
    Some(request)
}

/// A prefetch in progress. The planner is notified however it ends.
struct PrefetchGuard<'w> {
    worker: &'w Worker,
    ticket: Option<Ticket>,
}

impl<'w> PrefetchGuard<'w> {
    /// Starts the prefetch; `None` if the planner does not allow it.
    fn start(worker: &'w Worker, order: &Order, hash: u64) -> Option<Self> {
        let site = order.site.index() as u64;
        let start =
            worker.cache.prefetches.plan(|planner| planner.start(&order.wish, hash, site, clock::millis()));
        start.map(|ticket| Self { worker, ticket: Some(ticket) })
    }

    fn most(&self) -> u64 {
        self.ticket.as_ref().map_or(0, Ticket::most)
    }

    fn ended(mut self, ending: PrefetchResult) {
        self.tell(ending);
    }

    fn tell(&mut self, ending: PrefetchResult) {
        if let Some(ticket) = self.ticket.take() {
            self.worker.cache.prefetches.plan(|planner| planner.ended(ticket, ending, clock::millis()));
        }
    }
}

impl Drop for PrefetchGuard<'_> {
    fn drop(&mut self) {
        self.tell(PrefetchResult::Failed(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_with_both_ends_is_one_that_another_may_follow() {
        let table: [(&str, Option<(u64, u64)>); 8] = [
            ("bytes=0-99", Some((0, 99))),
            ("bytes=5-5", Some((5, 5))),
            ("bytes=9-5", None),
            ("bytes=5-", None),
            ("bytes=-5", None),
            ("bytes=0-1,5-6", None),
            ("lines=0-1", None),
            ("bytes=0-99999999999999999999", None),
        ];
        for (field, expected) in table {
            assert_eq!(range(field.as_bytes()), expected, "{field}");
        }
    }

    #[test]
    fn nothing_that_names_a_client_is_carried() {
        let fields: HeaderMap = [
            ("accept", "text/html"),
            ("accept-encoding", "br"),
            ("accept-language", "de"),
            ("user-agent", "x"),
            ("cookie", "id=1"),
            ("authorization", "Basic eDp5"),
            ("referer", "http://a/"),
            ("x-forwarded-for", "192.0.2.1"),
        ]
        .into_iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
        let names = |kind| {
            let mut names: Vec<_> = carried(&fields, kind).keys().map(|name| name.to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(names(Predictor::Association), ["accept-encoding", "accept-language", "user-agent"]);
        assert_eq!(
            names(Predictor::Sequence),
            ["accept", "accept-encoding", "accept-language", "user-agent"]
        );
    }
}
