//! Slow origins: a stale response answers in place of one, and the fetch goes on.

use std::time::Duration;

use http::StatusCode;
use larder_semantics::status::Why;
use larder_store::fill::{Reader, Verdict};
use larder_store::{Entry, JoinResult, Resident};
use tokio::time::timeout;

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::CountedRequests;
use crate::exchange::limits;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::context::{Context, failure};
use crate::flow::follow;
use crate::flow::stored::{Lookup, selects};

impl Context<'_> {
    /// Returns the reply from the fetch of a response newer than `entry` if its head arrives within `limit`, otherwise the
    /// one from `entry`. The fetch runs in the background. While it is late, no other client waits for it.
    pub(crate) async fn unless_slow(
        &self,
        request: &Request,
        (entry, limit): (Entry, Duration),
        lookup: Lookup,
        resident: Option<Resident>,
    ) -> Box<Reply> {
        let (fills, epoch) = (&self.worker.cache.fills, lookup.epoch);
        let (reader, leads) = match fills.join_own(entry.key(), entry.signature()) {
            JoinResult::Follow(reader) => (reader, false),
            JoinResult::Writer(writer) => {
                if let Err(reply) = limits::enter(request, CountedRequests::Misses) {
                    return reply;
                }
                let reader = writer.reader();
                self.lead_refresh(request, entry.clone(), writer, epoch, None);
                (reader, true)
            }
        };
        if !reader.is_late() {
            let patience = follow::patience(self.plan, request);
            match timeout(limit, follow::verdict(self.plan, request, &reader, patience)).await {
                Err(_) => reader.set_late(),
                Ok(Err(reply)) => return reply,
                Ok(Ok(verdict)) => {
                    let own = leads.then(|| self.own_answer(request, reader, verdict)).flatten();
                    return match own {
                        Some(reply) => reply.into(),
                        None => self.ask(request, (Why::Expired, false), lookup, resident).await,
                    };
                }
            }
        }
        drop(reader);
        let left = Lookup { entry: Some(entry), epoch }.left(fills, request);
        let stale = left.filter(|entry| self.may_stand_in(entry, request));
        match stale.and_then(|entry| self.share(request, entry, Kind::StaleHit, Why::StaleIfSlow)) {
            Some(reply) => reply.into(),
            // It was purged meanwhile, or is a part that lacks requested bytes.
            None => self.ask(request, (Why::Expired, false), Lookup { entry: None, epoch }, None).await,
        }
    }

    /// Returns the reply to the request that has caused the fetch which `reader` follows; `None` if it has to be sent again.
    fn own_answer(&self, request: &Request, reader: Reader, verdict: Verdict) -> Option<Reply> {
        let why = Why::Expired;
        match verdict {
            Verdict::Stream(head) if selects(&head, request) => {
                let reply = self.follow(request, &head, reader, why);
                let outcome = Outcome::forwarded(Kind::Miss, why).answered(head.status);
                Some(Reply { outcome, ..reply })
            }
            Verdict::Stored(entry) => {
                let reply = self.share(request, entry, Kind::Revalidated, why)?;
                let outcome = reply.outcome.answered(StatusCode::NOT_MODIFIED);
                Some(Reply { outcome, ..reply })
            }
            Verdict::StandIn(entry) => self.share(request, entry, Kind::StaleHit, Why::StaleIfError),
            Verdict::Failed(status, why) => Some(failure(status, why)),
            Verdict::Stream(_) | Verdict::Released | Verdict::Abandoned => None,
        }
    }
}
