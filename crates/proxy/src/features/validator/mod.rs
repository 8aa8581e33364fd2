//! The validator: fetches the content of a hit again, past the cache, and compares. The results show an operator which
//! answers were stale, for how long, and which lifetime would fit, while clients are served as usual.
//!
//! Its fetches are not stored, and do not count as requests. An answer that differs is stale only if the cache
//! continues to give it: the origin may have changed in between, and then an invalidation needs a moment.
//!
//! 1. The hit is fetched again. If status and content are the same, there is nothing to report.
//! 2. It is fetched once more. If the answer differs from the first one, such pages cannot be compared.
//! 3. The response is requested from the cache as by a client, up to three times within a second. If the cache has
//!    another response by then, or would send a request to the origin, the response changed meanwhile.
//! 4. Otherwise the hit was stale. A hit that was known to be stale when it was given is always stale.

mod refetch;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use larder_semantics::fields::Fields;
use larder_store::Entry;
use tokio::sync::OwnedSemaphorePermit;

use self::refetch::{Content, CurrentAnswer, LARGEST, MARK, refetch};
use crate::base::clock;
use crate::base::outcome::{Kind, Outcome};
use crate::exchange::arrival::Requester;
use crate::exchange::client_cert;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::route::first_segment;
use crate::flow::serve;
use crate::flow::stored::{Mode, StoredVariants, find};
use crate::flow::worker::{ProcessState, Worker};
use crate::http::head::RequestHead;
use crate::observe::validation::record::Verdict;

/// The waits before each question to the cache.
const ASKED: [Duration; 3] = [Duration::ZERO, Duration::from_millis(250), Duration::from_millis(750)];

/// Whether a request is from a validator, which needs the response behind everything that is stored here.
pub(crate) fn is_marked(fields: &impl Fields) -> bool {
    fields.contains(MARK.as_str())
}

/// An answer that came from the cache.
struct CachedAnswer {
    entry: Entry,
    outcome: Outcome,
    /// The time of the answer, in seconds since 1970.
    at: u32,
}

impl CachedAnswer {
    /// Returns the response that a reply gave from the cache, if it can be fetched again.
    fn of(method: &Method, fields: &impl Fields, reply: &Reply) -> Option<Self> {
        let (Source::Entry(entry) | Source::NotModified(entry)) = &reply.fields else { return None };
        let is_get = *method == Method::GET && !is_marked(fields);
        // The second fetch gets the whole content.
        let is_part = entry.status() == StatusCode::PARTIAL_CONTENT;
        let (entry, outcome) = (entry.clone(), reply.outcome);
        (is_get && !is_part && reply.outcome.is_stored()).then(|| Self { entry, outcome, at: clock::now() })
    }
}

/// Checks a hit that took no waiting, in the background.
#[cold]
pub(crate) fn check_hit(worker: &Arc<Worker>, head: &RequestHead<'_>, asker: &Requester<'_>, reply: &Reply) {
    let plan = worker.plan();
    let Some(served) = CachedAnswer::of(&head.method, &head.fields, reply) else { return };
    let fields = client_cert::selecting(&head.fields, asker, plan.settings.request_id.as_ref());
    if let Some(permit) = admit(worker, &plan, &fields, &served)
        && let Ok(request) = Request::take(head, &worker.cache.store.memory, &plan, asker)
    {
        let request = request.in_background();
        tokio::spawn(Check { worker: Arc::clone(worker), plan, request, served, _permit: permit }.run());
    }
}

/// Checks a hit that took some waiting, in the background.
pub(crate) fn check(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &Request, reply: &Reply) {
    let Some(served) = CachedAnswer::of(&request.method, &request.fields, reply) else { return };
    if let Some(permit) = admit(worker, plan, &request.fields, &served) {
        let (plan, request) = (Arc::clone(plan), request.in_background());
        tokio::spawn(Check { worker: Arc::clone(worker), plan, request, served, _permit: permit }.run());
    }
}

/// Returns a permit to check a hit, if there is one; else the hit is counted as skipped.
fn admit(
    worker: &Worker,
    plan: &Plan,
    fields: &impl Fields,
    served: &CachedAnswer,
) -> Option<OwnedSemaphorePermit> {
    let (limits, settings) = (&worker.shared.observers.validator.limits, &plan.settings.validate);
    if !settings.cookies && (fields.contains("cookie") || client_cert::names_client(fields)) {
        return limits.skip_credentials();
    }
    let body = served.entry.body();
    if body.len() > LARGEST || body.slices().is_some() {
        return limits.skip_large();
    }
    let (_, queued) = plan.concurrency.occupancy();
    limits.admit(settings.rate, queued > 0, served.at)
}

/// A check in progress.
struct Check {
    worker: Arc<Worker>,
    plan: Arc<Plan>,
    /// The client's request, without conditions.
    request: Request,
    served: CachedAnswer,
    _permit: OwnedSemaphorePermit,
}

impl Check {
    async fn run(self) {
        let verdict = self.verdict().await;
        if let Err(why) = &verdict {
            tracing::debug!("{}: not validated: {why}", self.request.logged_url());
        }
        if let Ok(Verdict::Stale(seconds)) = verdict {
            self.tell(seconds);
        }
        let age = self.served.entry.freshness().age(self.served.at);
        self.shared().observers.validator.record.count(self.place(), age, verdict.ok());
    }

    /// Returns the verdict on the hit. The error is the reason why there is no verdict.
    async fn verdict(&self) -> Result<Verdict, String> {
        let served = &self.served;
        let given = Content::of(&served.entry).await?;
        let first = refetch(&self.worker, &self.plan, &self.request).await?;
        if first.content == given {
            self.look(given);
            return Ok(Verdict::Ok);
        }
        self.shared().observers.validator.limits.spend(clock::now());
        if refetch(&self.worker, &self.plan, &self.request).await?.content != first.content {
            return Ok(Verdict::Unstable);
        }
        self.look(first.content);
        let is_newer = first.modified.is_some_and(|modified| modified > served.at);
        match is_newer || (served.outcome.kind != Kind::StaleHit && !self.still_gives(given).await?) {
            true => Ok(Verdict::ChangedMeanwhile),
            false => Ok(Verdict::Stale(self.staleness(&first))),
        }
    }

    /// Returns for how many seconds at most the hit had been out of date: since the origin changed, if it says when,
    /// or for the age of the hit.
    fn staleness(&self, now: &CurrentAnswer) -> u32 {
        let age = self.served.entry.freshness().age(self.served.at);
        now.modified.map_or(age, |modified| self.served.at.saturating_sub(modified).min(age))
    }

    /// Whether the cache continues to give clients `given` for a second.
    async fn still_gives(&self, given: Content) -> Result<bool, String> {
        for wait in ASKED {
            tokio::time::sleep(wait).await;
            if !self.gives(given).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_expired(&self) -> bool {
        self.served.entry.freshness().ttl(clock::now()) <= 0
    }

    /// Whether the cache would give a client `given` at this moment.
    async fn gives(&self, given: Content) -> Result<bool, String> {
        if self.request.ruling.caching().is_none() {
            return Ok(false);
        }
        let held = StoredVariants::look(&self.worker.cache, &self.request, Mode::Serve).await;
        let reply = match (find(&self.request, &held).1, held.entry) {
            (Some(reply), _) => reply,
            // If each hit is revalidated, the answer of the origin decides.
            _ if self.served.outcome.kind == Kind::Revalidated => {
                *serve::flow(&self.worker, &self.plan, &mut self.request.in_background()).await
            }
            // It was fresh, and it was not removed: it has only expired since.
            (None, Some(entry)) if self.has_expired() && !entry.freshness().is_taken_back() => {
                return Ok(Content::of(&entry).await? == given);
            }
            _ => return Ok(false),
        };
        let entry = match &reply.fields {
            Source::Entry(entry) => Some(entry.clone()),
            _ => None,
        };
        reply.drain().await;
        match entry {
            Some(entry) => Ok(Content::of(&entry).await? == given),
            None => Ok(false),
        }
    }

    /// Reports the origin's answer to the search for couplings.
    fn look(&self, content: Content) {
        if self.request.ruling.caching().is_some() {
            self.shared().observers.couplings.fetched(&self.plan, &self.request, content.digest());
        }
    }

    fn tell(&self, seconds: u32) {
        if !self.shared().observers.validator.limits.may_tell(clock::now()) {
            return;
        }
        let (url, (site, route), outcome) = (self.request.url(), self.place(), self.served.outcome);
        let (kind, reason) = (outcome.kind.word(), outcome.why.token());
        tracing::warn!(
            "stale by at most {seconds} s: {url} (site {site}, route {route:?}), a {kind} ({reason})"
        );
    }

    /// Returns its site and the first segment of its path.
    fn place(&self) -> (&Arc<str>, &str) {
        let site = self.plan.sites.account(self.request.route.number()).site();
        (site, first_segment(&self.request.path))
    }

    fn shared(&self) -> &ProcessState {
        &self.worker.shared
    }
}
