//! Reloads: requests of clients that want a newer response than the stored one (`no-cache`, `max-age`, `min-fresh`).
//!
//! Any client can send one for any URL. An error that answers a reload therefore does not replace a response that
//! serves other requests ([`is_served`](super::stored::is_served)), and many simultaneous reloads cost the origin one
//! request at a time ([`Context::reload`]). A reload gets only a response that was requested after the reload arrived:
//! it waits for a fetch in flight, and shares the next one.

use std::time::Instant;

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::revalidate;
use larder_semantics::status::Why;
use larder_store::Resident;
use larder_store::fill::{Reader, ReloadResult, Verdict};

use crate::base::clock;
use crate::base::outcome::Kind;
use crate::cache::Cache;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::context::{Context, failure};
use crate::flow::fetch;
use crate::flow::fetch_scope::FetchScope;
use crate::flow::follow;
use crate::flow::stored::{Lookup, expected, selects};

impl Context<'_> {
    /// Fetches for a reload, and for all others that arrive before the fetch begins.
    pub(crate) async fn reload(
        &self,
        request: &Request,
        why: Why,
        lookup: Lookup,
        resident: Option<Resident>,
    ) -> Box<Reply> {
        let (fills, arrived) = (&self.worker.cache.fills, Instant::now());
        let patience = follow::patience(self.plan, request);
        let signature = resident.map(|resident| expected(&resident, request)).unwrap_or_default();
        loop {
            match fills.join_reload(&request.key, &signature, arrived) {
                ReloadResult::Writer(writer) => {
                    let fetching = FetchScope::Leads(Box::new(writer));
                    return fetch::for_client(*self, request, fetching, why, lookup).await;
                }
                // This fetch began before this request arrived. The number of such fetches is limited.
                ReloadResult::Wait(reader) => {
                    if let Err(reply) = follow::verdict(self.plan, request, &reader, patience).await {
                        return reply;
                    }
                }
                ReloadResult::Follow(reader) => {
                    let verdict = match follow::verdict(self.plan, request, &reader, patience).await {
                        Ok(Verdict::Abandoned) => continue,
                        Ok(verdict) => verdict,
                        Err(reply) => return reply,
                    };
                    if let Some(reply) = self.reloaded(request, reader, verdict, why) {
                        return reply.into();
                    }
                    let fetching = FetchScope::Alone(fills.epoch_of(request.hash));
                    return fetch::for_client(*self, request, fetching, why, lookup).await;
                }
            }
        }
    }

    /// Returns the reply from the response to another reload, if that may be shared.
    fn reloaded(&self, request: &Request, reader: Reader, verdict: Verdict, why: Why) -> Option<Reply> {
        match verdict {
            Verdict::Failed(status, why) => Some(failure(status, why)),
            Verdict::Stream(head) => {
                let is_shared = selects(&head, request)
                    && head.freshness.is_fresh(clock::now())
                    && reader.is_shared()
                    && head.status != StatusCode::PARTIAL_CONTENT;
                is_shared.then(|| self.follow(request, &head, reader, why))
            }
            Verdict::Stored(entry) if entry.freshness().is_fresh(clock::now()) => {
                self.share(request, entry, Kind::Coalesced, why)
            }
            _ => None,
        }
    }
}

/// Whether the answer to `request` is useless for other requests, regardless of its cache directives.
pub(crate) fn is_for_itself(cache: &Cache, request: &Request) -> bool {
    request.fields.contains("range") || is_for_client(cache, request)
}

/// Whether that is so even if `request` wants a range.
pub(crate) fn is_for_client(cache: &Cache, request: &Request) -> bool {
    request.route.is_validated()
        || request.fields.contains("authorization")
        || revalidate::is_for_origin(&request.fields)
        || request.asked.no_store
        || cache.hit_for_miss.marked(request.hash, clock::now())
}
