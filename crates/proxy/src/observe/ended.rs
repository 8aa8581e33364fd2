//! The end of a request: one event, which the counters, the access log, the live log, the traces and the statistics
//! follow. Of a hit that takes no waiting, the head is still at hand; of other requests, a [`RequestRecord`] is kept if an
//! observer needs it.
//!
//! Three parts of the flow that also count requests are no observers, since they need what a reply no longer has when it
//! is sent, and keeping that would be work on each hit: the counts of rules need the rules that hold, predictions need
//! the cache key, and the sample of the validator makes a request of its own from the head and the stored response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use larder_semantics::fields::Fields;
use larder_stats::{BatchSums, Tally};
use parking_lot::MutexGuard;

use super::Observers;
use super::ledger::Ledger;
use super::memo::{RequestRecord, RequestResult};
use super::sums::Hit;
use super::tap::{Selection, Tap};
use super::watch::Queue;
use crate::base::in_place;
use crate::base::settings::{Door, Role};
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::http::head::RequestHead;
use crate::net::tls::client_certificates::ClientIdentity;

/// The observers' view of the requests of one worker.
pub(crate) struct Witness {
    observers: Arc<Observers>,
    /// The number of the worker, from 0.
    worker: usize,
    /// The requests that ended while an administrator watches.
    seen: Arc<Queue>,
    /// The sums of its requests for the statistics database, if there is one.
    tally: Option<Tally>,
    /// Its requests for shadow caches, if there are any.
    tap: Option<Tap>,
}

impl Witness {
    pub(crate) fn new(observers: &Arc<Observers>, worker: usize) -> Self {
        Self {
            observers: Arc::clone(observers),
            worker,
            seen: observers.watch.queue(),
            tally: observers.ledger.as_deref().map(Ledger::tally),
            tap: observers.selection.as_ref().map(Selection::tap),
        }
    }

    /// Returns the locked sheet on which hits are summed, to be held while some hits are answered.
    pub(crate) fn sheet(&self) -> Option<MutexGuard<'_, BatchSums>> {
        self.tally.as_ref().map(Tally::sheet)
    }

    /// Whether an observer needs a record of each request.
    fn needs_records(&self, plan: &Plan) -> bool {
        plan.tells || self.observers.watch.is_on()
    }

    /// Whether an observer needs a record of each request that takes some waiting.
    fn needs_memos(&self, plan: &Plan) -> bool {
        self.needs_records(plan) || self.observers.ledger.is_some()
    }

    /// Returns the record of a request that has just been read; `None` if no observer needs it.
    pub(crate) fn note(
        &self,
        plan: &Plan,
        role: Role,
        head: &RequestHead<'_>,
        client: (SocketAddr, Option<&Arc<ClientIdentity>>),
        begun: Option<Instant>,
    ) -> Option<Box<RequestRecord>> {
        let begin = || RequestRecord::begin(plan, role, head, client, begun.unwrap_or_else(Instant::now));
        self.needs_memos(plan).then(|| in_place::boxed(|| self.traced(begin(), &head.fields)))
    }

    /// Returns the record of a request that could not be read; `None` if no observer needs it.
    pub(crate) fn note_unread(&self, plan: &Plan, client: SocketAddr) -> Option<Box<RequestRecord>> {
        self.needs_memos(plan).then(|| Box::new(RequestRecord::unread(client)))
    }

    /// Returns the record of a call for `url` through `door`; `None` if no observer needs it.
    pub(crate) fn note_call(
        &self,
        plan: &Plan,
        door: Door,
        url: &str,
        client: SocketAddr,
    ) -> Option<Box<RequestRecord>> {
        let memo = || self.traced(RequestRecord::of_call(plan, door, url, client), &HeaderMap::new());
        self.needs_memos(plan).then(|| Box::new(memo()))
    }

    /// Returns the time of arrival of a request that was read at `now` (UNIX seconds), if an observer needs it.
    pub(crate) fn begun(&self, plan: &Plan, sheet: Option<&mut BatchSums>, now: u32) -> Option<Instant> {
        let is_timed = sheet.is_some_and(|sheet| sheet.wants_time(now)) || self.needs_records(plan);
        is_timed.then(Instant::now)
    }

    /// Adds a span to the record of a request with these fields, if requests are traced.
    fn traced(&self, mut memo: RequestRecord, fields: &impl Fields) -> RequestRecord {
        memo.trace = self.observers.tracer.as_ref().map(|tracer| tracer.begin(fields));
        memo
    }

    /// Tells the observers of a hit that was answered without waiting, and whose reply of `bytes` bytes is in the
    /// buffer.
    #[inline]
    pub(crate) fn hit(
        &self,
        plan: &Plan,
        sheet: Option<&mut BatchSums>,
        hit: &Hit<'_>,
        reply: &Reply,
        bytes: u64,
    ) {
        let ended = RequestResult::by(reply, bytes);
        self.count(plan, &ended);
        self.tap(reply, &ended);
        if self.needs_records(plan) {
            let mut memo = self.traced(hit.memo(plan), &hit.head.fields);
            memo.answered(plan, reply);
            self.show(plan, &ended, &memo, memo.elapsed());
        }
        if let (Some(ledger), Some(sheet)) = (&self.observers.ledger, sheet) {
            ledger.record_hit(plan, sheet, hit, &ended);
        }
    }

    /// Tells the observers of a request with `reply`, of which `bytes` bytes were sent.
    pub(crate) fn replied(
        &self,
        plan: &Plan,
        reply: &Reply,
        bytes: u64,
        mut memo: Option<Box<RequestRecord>>,
    ) {
        memo.iter_mut().for_each(|memo| memo.answered(plan, reply));
        let ended = RequestResult::by(reply, bytes);
        self.request(plan, &ended, memo);
        self.tap(reply, &ended);
    }

    /// Tells the observers of a request of which `memo` was kept, if one of them needs that.
    pub(crate) fn request(&self, plan: &Plan, ended: &RequestResult, memo: Option<Box<RequestRecord>>) {
        self.count(plan, ended);
        let Some(memo) = memo else { return };
        let took = memo.elapsed();
        self.show(plan, ended, &memo, took);
        if let (Some(ledger), Some(mut sheet)) = (&self.observers.ledger, self.sheet()) {
            ledger.record(&mut sheet, *memo, ended, took);
        }
    }

    /// Tells the observers that need no record.
    #[inline]
    fn count(&self, plan: &Plan, ended: &RequestResult) {
        let counters = plan.sites.account(ended.site).of(self.worker);
        counters.answered(ended.status);
        counters.record(&ended.outcome, ended.bytes);
        if let Some(saved) = ended.saved {
            counters.compressed(saved);
        }
    }

    /// Tells the shadow caches, which need the response as well.
    #[inline]
    fn tap(&self, reply: &Reply, ended: &RequestResult) {
        if let Some(tap) = &self.tap {
            tap.note(reply, ended);
        }
    }

    /// Tells the observers that need a record of each request.
    fn show(&self, plan: &Plan, ended: &RequestResult, memo: &RequestRecord, took: Duration) {
        if plan.logs() && ended.outcome.logged_from.is_none_or(|least| took >= least) {
            self.observers.access.write(self.worker, &plan.settings, (memo, ended, took));
        }
        if let Some(tracer) = &self.observers.tracer {
            tracer.record(memo, ended, took);
        }
        if self.observers.watch.is_on() {
            self.seen.put(memo.clone(), ended, took, plan.settings.threads);
        }
    }
}
