//! Coalesces requests for the same response: one leads a fetch, and the others follow it.

use std::sync::Arc;

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::range::{self, Spec};
use larder_semantics::status::Why;
use larder_semantics::vary;
use larder_store::fill::{FillWriter, Reader, Verdict};
use larder_store::{Entry, Fills, JoinResult, Resident};

use crate::base::clock;
use crate::base::outcome::{Kind, Tier};
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::context::{Context, failure};
use crate::flow::decide::{Decision, may_share};
use crate::flow::fetch;
use crate::flow::fetch_scope::FetchScope;
use crate::flow::stored::{Lookup, StoredVariants, expected, find, selects};
use crate::flow::{answer, arriving, coded_stream, equivalent, follow, reload, sliced};
use crate::http::names::CLIENT_CERT;

/// A function by which a request joins a fetch.
type JoinFn = fn(&Arc<Fills>, &[u8], &[u8]) -> JoinResult;

/// How many fetches a request tries to follow before it fetches separately.
const TRIES: usize = 3;
/// How many bytes before its range may still have to arrive if a request for a range follows the fetch of the whole.
const NEAR: u64 = 1 << 20;

impl Context<'_> {
    /// Follows a fetch in flight, or leads a new one. A fetched response that a purge before the lookup covers is not
    /// used, even if it arrives later.
    pub(crate) async fn coalesce(
        &self,
        request: &Request,
        why: Why,
        lookup: Lookup,
        resident: Option<Resident>,
    ) -> Box<Reply> {
        let fills = &self.worker.cache.fills;
        let begins = sliced::begins(*self, request, lookup.entry.as_ref());
        let joined = |signature: Vec<u8>| if begins { sliced::signature(&signature) } else { signature };
        let expected = resident.as_ref().map(|resident| expected(resident, request)).unwrap_or_default();
        let (mut signature, patience) = (joined(expected), follow::patience(self.plan, request));
        let (mut tries, mut join): (_, JoinFn) = (0, if begins { Fills::join_own } else { Fills::join });
        while tries < TRIES {
            let reader = match join(fills, &request.key, &signature) {
                JoinResult::Writer(writer) => {
                    return self.writer(request, Box::new(writer), why, lookup).await;
                }
                JoinResult::Follow(reader) => reader,
            };
            let verdict = match follow::verdict(self.plan, request, &reader, patience).await {
                // The next request to join leads a fetch, or follows a request that joined first.
                Ok(Verdict::Abandoned) => continue,
                Ok(verdict) => verdict,
                Err(reply) => return self.waited_in_vain(request, reply, lookup),
            };
            tries += 1;
            if !fills.may_have(&reader, lookup.epoch.generation()) {
                continue;
            }
            if !equivalent::is_for(request, &reader, &verdict) {
                join = Fills::join_own;
                continue;
            }
            match verdict {
                Verdict::Stream(head) if selects(&head, request) => {
                    let is_whole = head.status != StatusCode::PARTIAL_CONTENT;
                    if !may_share(&head.freshness, request, clock::now()) || !is_whole || !reader.is_shared()
                    {
                        break;
                    }
                    return self.follow(request, &head, reader, why).into();
                }
                Verdict::Stream(head) => {
                    // The fetch is of another variant. Its head tells which request fields select variants.
                    signature = joined(vary::again(&head.signature, &request.fields));
                }
                Verdict::Stored(entry) if may_share(&entry.freshness(), request, clock::now()) => {
                    match self.share(request, entry, Kind::Coalesced, why) {
                        Some(reply) => return reply.into(),
                        None => break,
                    }
                }
                Verdict::StandIn(entry) if self.may_stand_in(&entry, request) => {
                    match self.share(request, entry, Kind::StaleHit, Why::StaleIfError) {
                        Some(reply) => return reply.into(),
                        None => break,
                    }
                }
                Verdict::Failed(status, failed) => return failure(status, failed).into(),
                Verdict::Stored(_) | Verdict::StandIn(_) | Verdict::Released | Verdict::Abandoned => break,
            }
        }
        let fetching = FetchScope::Alone(fills.epoch_of(request.hash));
        fetch::for_client(*self, request, fetching, why, lookup).await
    }

    /// Returns the reply to a request for a range from the fetch of the whole response that is in progress, if the range
    /// begins among the bytes that have arrived or soon behind them.
    pub(crate) async fn arriving(
        &self,
        request: &Request,
        why: Why,
        lookup: &Lookup,
        resident: Option<&Resident>,
    ) -> Option<Reply> {
        let fills = &self.worker.cache.fills;
        let expected = resident.map(|resident| expected(resident, request)).unwrap_or_default();
        let may_follow = !request.is_reload() && !reload::is_for_client(&self.worker.cache, request);
        let reader = may_follow.then(|| fills.follow(&request.key, &expected))??;
        if !reader.has_verdict() && !begins_near(request, &reader) {
            return None;
        }
        let patience = follow::patience(self.plan, request);
        let verdict = match follow::verdict(self.plan, request, &reader, patience).await {
            Ok(verdict) => verdict,
            Err(reply) => {
                let lookup = Lookup { entry: lookup.entry.clone(), epoch: lookup.epoch };
                return Some(*self.waited_in_vain(request, reply, lookup));
            }
        };
        let is_current = fills.may_have(&reader, lookup.epoch.generation());
        match verdict {
            Verdict::Stream(head) if is_current && selects(&head, request) && reader.is_shared() => {
                let is_whole = head.status != StatusCode::PARTIAL_CONTENT;
                let serves = match arriving::wanted_part(request, &head) {
                    Some(part) => is_near(*part.range().start(), &reader),
                    // A part begins elsewhere, and cannot be decoded.
                    None => is_whole && coded_stream::is_undone(request, head.status, &head.fields.view()),
                };
                (serves && may_share(&head.freshness, request, clock::now()))
                    .then(|| self.follow(request, &head, reader, why))
            }
            Verdict::Stored(entry) if is_current && may_share(&entry.freshness(), request, clock::now()) => {
                self.share(request, entry, Kind::Coalesced, why)
            }
            Verdict::StandIn(entry) if is_current && self.may_stand_in(&entry, request) => {
                self.share(request, entry, Kind::StaleHit, Why::StaleIfError)
            }
            Verdict::Failed(status, failed) if is_current => Some(failure(status, failed)),
            _ => None,
        }
    }

    /// Fetches for all followers, unless a usable response has been stored meanwhile, in this cache or in a far tier.
    async fn writer(
        &self,
        request: &Request,
        mut writer: Box<FillWriter>,
        why: Why,
        lookup: Lookup,
    ) -> Box<Reply> {
        if lookup.entry.is_none() {
            self.worker.cache.twin.fetched(request.hash).await;
        }
        if let Some((entry, reply)) = self.stored_meanwhile(request) {
            writer.settle(Verdict::Stored(entry));
            return reply.into();
        }
        if lookup.entry.is_none()
            && let Some((entry, reply)) = self.recalled(request, &mut writer).await
        {
            writer.put(&entry, None);
            writer.settle(Verdict::Stored(entry));
            return reply.into();
        }
        fetch::for_client(*self, request, FetchScope::Leads(writer), why, lookup).await
    }

    /// Returns the reply to a request whose wait for another fetch has timed out, or whose client has left.
    fn waited_in_vain(&self, request: &Request, reply: Box<Reply>, lookup: Lookup) -> Box<Reply> {
        let stored = lookup.left(&self.worker.cache.fills, request);
        let is_late = reply.status == StatusCode::GATEWAY_TIMEOUT;
        let stand_in = stored.filter(|entry| is_late && self.may_stand_in(entry, request));
        let stale = stand_in.and_then(|entry| self.share(request, entry, Kind::StaleHit, Why::StaleIfError));
        stale.map_or(reply, Box::new)
    }

    /// Returns the response and the reply if a fetch stored a usable response after the lookup in the tiers and before
    /// this request could follow that fetch.
    fn stored_meanwhile(&self, request: &Request) -> Option<(Entry, Reply)> {
        // The lookup and the joining of a fill are two steps, and a fill can end between them:
        // 1. Request A looks the key up: a miss.
        // 2. Fill B of this key publishes its response, and then leaves the table of fills.
        // 3. A joins: there is no fill to follow, so it leads a new one.
        // 4. A has to look again, or it would fetch what B has stored.
        // One more look is enough: since step 3, later requests follow A.
        let store = &self.worker.cache.store;
        let resident = store.memory.peek(&request.key, request.hash);
        let entry = resident.as_ref().and_then(|resident| answer::select(resident, &request.fields)).cloned();
        let (entry, tier) = match entry.and_then(|entry| store.current(entry)) {
            Some(entry) => (entry, Tier::Memory),
            None => equivalent::at_once(&self.worker.cache, &request.key, &request.fields, clock::now())?,
        };
        let held = StoredVariants { entry: Some(entry.clone()), tier, resident };
        let (Decision::Hit(_), reply) = find(request, &held) else { return None };
        Some((entry, reply?))
    }

    /// Returns the response that a far tier has, and the reply from it.
    async fn recalled(&self, request: &Request, writer: &mut FillWriter) -> Option<(Entry, Reply)> {
        if request.fields.contains(CLIENT_CERT) {
            return None;
        }
        let signature = |varies: &[u8]| vary::again(varies, &request.fields);
        let (entry, tier) = writer.recall(signature, clock::now(), request.by_peer).await?;
        let held = StoredVariants { entry: Some(entry.clone()), tier, resident: None };
        let (Decision::Hit(_), reply) = find(request, &held) else { return None };
        Some((entry, reply?))
    }
}

/// Whether a request is for one range that is known to begin near what `reader` has, before the head tells the length.
fn begins_near(request: &Request, reader: &Reader) -> bool {
    match request.fields.first("range").and_then(range::parse).as_deref() {
        Some([Spec::Span(first, _) | Spec::From(first)]) => is_near(*first, reader),
        _ => false,
    }
}

fn is_near(first: u64, reader: &Reader) -> bool {
    first <= reader.arrived().saturating_add(NEAR)
}
