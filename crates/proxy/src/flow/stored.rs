//! Stored responses for a request: which of them it selects, and whether they answer it.

use larder_semantics::fields::Fields;
use larder_semantics::status::Why;
use larder_semantics::vary;
use larder_store::fill::{Epoch, Head};
use larder_store::{Entry, Fills, Resident};

use crate::base::clock;
use crate::base::outcome::{Outcome, Tier};
use crate::cache::Cache;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::answer;
use crate::flow::context::Context;
use crate::flow::decide::{Decision, StoredResponse, Terms, decide};

/// The stored responses under a request's key.
pub(crate) struct StoredVariants {
    /// The response that the request selects.
    pub(crate) entry: Option<Entry>,
    pub(crate) tier: Tier,
    /// All variants in memory.
    pub(crate) resident: Option<Resident>,
}

/// Whether a lookup serves a client, or is a dry run without side effects, which blocks while near tiers read.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    Serve,
    DryRun,
}

impl StoredVariants {
    /// Looks for a response to `request` in the tiers: under its key, and then for equivalent queries, except where each
    /// use is validated, as a validator belongs to one URL.
    pub(crate) async fn look(cache: &Cache, request: &Request, mode: Mode) -> Self {
        let own = Self::under((&request.key, request.hash), cache, request, mode).await;
        if own.entry.is_some() || request.route.is_validated() {
            return own;
        }
        let store = &cache.store;
        let mut beside = None;
        for other in store.equivalents.others(&request.key) {
            let hash = store.memory.hash(&other.key);
            let mut found = Self::under((&other.key, hash), cache, request, mode).await;
            found.entry = found.entry.and_then(|entry| store.for_other(entry, &other, &request.key));
            if found.entry.is_some() {
                return found;
            }
            beside = beside.or(found.resident);
        }
        Self { resident: own.resident.or(beside), ..own }
    }

    /// Looks for a response to `request` under this key with this hash, in memory and in the near tiers.
    async fn under((key, hash): (&[u8], u64), cache: &Cache, request: &Request, mode: Mode) -> Self {
        let store = &cache.store;
        let resident = store.memory.peek(key, hash);
        let selected = resident.as_ref().and_then(|resident| answer::select(resident, &request.fields));
        let selected = selected.and_then(|entry| match mode {
            Mode::Serve => store.current(entry.clone()),
            Mode::DryRun => store.left(entry),
        });
        if selected.is_some() {
            return Self { entry: selected, tier: Tier::Memory, resident };
        }
        let signature = |varies: &[u8]| vary::again(varies, &request.fields);
        let found = match mode {
            Mode::Serve => cache.fills.recall(key, signature, clock::now()).await,
            Mode::DryRun => store.explain(key, &signature),
        };
        let (entry, tier) = found.unzip();
        Self { entry, tier: tier.unwrap_or_default(), resident }
    }

    /// Returns the response that `request` selects, as far as the decision at `now` (UNIX seconds) depends on it.
    pub(crate) fn selected(&self, request: &Request, now: u32) -> Result<StoredResponse, Why> {
        // A variant that is selected and not usable may be in memory or not: a lookup promotes it from a disk.
        let has_others = |resident| answer::select(resident, &request.fields).is_none();
        let is_other = || self.resident.as_ref().is_some_and(has_others);
        let absent = || if is_other() { Why::VariantAbsent } else { Why::Absent };
        let entry = self.entry.as_ref().ok_or_else(absent)?;
        Ok(StoredResponse::for_request(entry, request, now))
    }
}

/// The result of a lookup in the tiers that precedes a fetch.
pub(crate) struct Lookup {
    /// The response that the request selects, if it may help to answer the request.
    pub(crate) entry: Option<Entry>,
    /// The epoch in which the lookup began. Later purges and changes apply to the entry.
    pub(crate) epoch: Epoch,
}

impl Lookup {
    /// Returns the entry as purges and changes since the lookup have left it.
    pub(crate) fn left(self, fills: &Fills, request: &Request) -> Option<Entry> {
        fills.left_since((request.hash, self.epoch), self.entry?)
    }
}

/// Returns the decision on a GET or HEAD after its lookup, and the reply if a stored response answers. Sends no request
/// and changes nothing.
pub(crate) fn find(request: &Request, held: &StoredVariants) -> (Decision, Option<Reply>) {
    let now = clock::now();
    let decision = decide(&Terms::of(request, false), held.selected(request, now), now);
    if !matches!(decision, Decision::Hit(_) | Decision::StaleAndRefresh) {
        return (decision, None);
    }
    let reply = held.entry.clone().and_then(|entry| {
        let outcome = Outcome::hit(decision.kind(), decision.why(), entry.freshness().ttl(now));
        answer::to(request, entry, now, outcome.from(held.tier))
    });
    (decision, reply)
}

/// Returns the signature that this request has if the answer varies by the same fields as the stored responses.
pub(crate) fn expected(resident: &Resident, request: &Request) -> Vec<u8> {
    resident
        .variants()
        .first()
        .map(|entry| vary::again(entry.signature(), &request.fields))
        .unwrap_or_default()
}

/// Whether `request` selects a response with this head.
pub(crate) fn selects(head: &Head, request: &Request) -> bool {
    let fields = head.fields.view();
    head.signature.is_empty()
        || vary::matches(&head.signature, &request.fields, || fields.first("content-language"))
}

/// Whether a stored response that is no error would answer a request without cache directives: the one that `request`
/// selects, or another variant.
pub(crate) fn is_served(cx: Context<'_>, request: &Request, stored: Option<&Entry>) -> bool {
    let store = &cx.worker.cache.store;
    let now = clock::now();
    let serves = |entry: &Entry| {
        let is_answer = entry.status().is_success() || entry.status().is_redirection();
        is_answer && request.freshness(entry).is_fresh(now) && store.current(entry.clone()).is_some()
    };
    stored.is_some_and(serves) || {
        let resident = store.memory.peek(&request.key, request.hash);
        resident.is_some_and(|resident| resident.variants().iter().any(serves))
    }
}
