//! All pools of a backend.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use http::{HeaderMap, Method, header};
use larder_semantics::directives::RequestDirectives;
use larder_semantics::fields::{Fields, HeadLines};
use larder_semantics::{invalidate, revalidate, vary};

use crate::answer::Ticket;
use crate::change::Change;
use crate::identity::{Key, Keys, Place};
use crate::pool::{Pool, Report, count};
use crate::push;
use crate::segment::Segment;
use crate::settings::Settings;
use crate::tag::Tag;

/// The pools of a backend.
pub struct Pools {
    keys: Keys,
    /// Seconds since some fixed moment.
    clock: fn() -> u32,
    /// Changes that have arrived and not ended.
    open: AtomicU64,
    state: RwLock<State>,
}

struct State {
    settings: Arc<Settings>,
    named: HashMap<Box<str>, Arc<Pool>>,
    /// That of the segments without one of their own.
    others: Arc<Pool>,
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pools(..)")
    }
}

/// What to do with a request.
pub enum Asked {
    /// The client has what the backend would answer: 304 with these fields, and `Date`.
    NotModified(HeaderMap),
    /// It goes to the backend, with [tags instead of dates](Pools::leave_tags) if it shows both.
    Forward(Ticket),
    /// It may change something; this goes with it.
    Change(Change),
    /// It goes to the backend, and these lines are added to the answer.
    Pass(HeaderMap),
}

impl Pools {
    /// Empty pools. `clock` tells seconds.
    pub fn new(settings: Settings, clock: fn() -> u32) -> Self {
        let others = Arc::new(Pool::shared(&settings));
        let state = State { settings: Arc::new(settings), named: HashMap::new(), others };
        Self { keys: Keys::default(), clock, open: AtomicU64::new(0), state: RwLock::new(state) }
    }

    /// Makes no tags for [`Settings::doubt`]: an earlier process may have forwarded a change that has not ended.
    pub fn start_in_doubt(&self) {
        self.changed_elsewhere(&Segment::Anywhere, false);
    }

    /// Whether no change is in progress and none has an unknown end.
    pub fn is_settled(&self) -> bool {
        let now = (self.clock)();
        self.open.load(Ordering::SeqCst) == 0
            && !self.state().all().any(|pool| pool.is_doubtful_anywhere(now))
    }

    /// Puts other settings in force and blanks everything: the backend may be another one. As long as requests may
    /// still be under way to the old one, no tags are made, even if changes leave no doubt.
    pub fn change(&self, settings: Settings) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let until = self.end_of_doubt(settings.doubt.max(Settings::default().doubt));
        state.all().for_each(|pool| {
            pool.doubt_all(until);
            pool.change(&settings);
        });
        state.settings = Arc::new(settings);
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.state().settings)
    }

    /// What to do with a request for `target`, a path with its query, at `authority`.
    pub fn ask(
        self: &Arc<Self>,
        method: &Method,
        authority: &[u8],
        target: &[u8],
        request: &impl Fields,
    ) -> Asked {
        let segment = Segment::of(target);
        if invalidate::is_unsafe(method) {
            return Asked::Change(Change::new(Arc::clone(self), segment));
        }
        let Segment::Named(name) = segment else { return Asked::Pass(self.pass(method, target)) };
        if !is_plain(method, request) {
            return Asked::Pass(self.pass(method, target));
        }
        let (pool, settings) = self.pool(&name);
        // Before anything is asked of the backend, and before the doubt: see `Change::drop`.
        let generation = pool.generation(&name);
        let place = self.keys.place(authority, target, request);
        if let Some(lines) = listed((&pool, generation), &place, request) {
            count(&pool.counts.matched);
            return Asked::NotModified(HeadLines(&lines).to_map());
        }
        count(&pool.counts.forwarded);
        let is_certain = !pool.is_doubtful(&name, (self.clock)());
        let pools = Arc::clone(self);
        Asked::Forward(Ticket { pools, settings, pool, generation, segment: name, place, is_certain })
    }

    /// Whether [`ask`](Self::ask) would answer such a request with 304; `None` if no tag can answer it. Counts nothing.
    pub fn is_current(
        &self,
        method: &Method,
        authority: &[u8],
        target: &[u8],
        request: &impl Fields,
    ) -> Option<bool> {
        let Segment::Named(name) = Segment::of(target) else { return None };
        if !is_plain(method, request) {
            return None;
        }
        let (pool, _) = self.pool(&name);
        let place = self.keys.place(authority, target, request);
        Some(listed((&pool, pool.generation(&name)), &place, request).is_some())
    }

    /// The lines to be added to the answer to a request that is not for the pools.
    pub fn pass(&self, method: &Method, target: &[u8]) -> HeaderMap {
        let is_told = matches!(*method, Method::GET | Method::HEAD) && self.settings().push.is_some();
        if !is_told {
            return HeaderMap::new();
        }
        let segment = Segment::of(target);
        let mut lines = push::belongs(&segment);
        if self.is_doubtful(&segment) {
            push::forbid_reuse(&mut lines);
        }
        lines
    }

    fn is_doubtful(&self, segment: &Segment) -> bool {
        let (state, now) = (self.state(), (self.clock)());
        match segment {
            Segment::Named(name) => state.of(name).is_doubtful(name, now),
            Segment::Anywhere => state.all().any(|pool| pool.is_doubtful_anywhere(now)),
        }
    }

    /// What each pool holds and did.
    pub fn report(&self) -> Vec<Report> {
        let state = self.state();
        let mut all: Vec<_> = state.named.iter().map(|(name, pool)| pool.report(name)).collect();
        all.sort_by(|one, other| one.pool.cmp(&other.pool));
        all.push(state.others.report("*"));
        all
    }

    /// Whether a request shows both tags and a date, of which only the tags count (RFC 9110 section 13.1.3).
    pub fn is_conditioned_twice(request: &HeaderMap) -> bool {
        request.contains_key(header::IF_NONE_MATCH) && request.contains_key(header::IF_MODIFIED_SINCE)
    }

    /// Removes the date that a request shows beside its tags: a backend without tags would take its word, which is
    /// a second wide.
    pub fn leave_tags(request: &mut HeaderMap) {
        request.remove(header::IF_MODIFIED_SINCE);
    }

    /// Blanks the pools that a change below `segment` concerns which went another way to the backend. Unless it
    /// `is_over`, no tags are made there for a while.
    pub fn changed_elsewhere(&self, segment: &Segment, is_over: bool) {
        // In the order of `Change::drop`, for the same reason.
        if !is_over {
            self.doubt(segment);
        }
        self.blank(segment);
    }

    pub(crate) fn blank(&self, segment: &Segment) {
        let state = self.state();
        match segment {
            Segment::Named(name) => state.concerned(name).for_each(|(name, pool)| pool.blank(name)),
            Segment::Anywhere => state.all().for_each(|pool| pool.blank_all()),
        }
    }

    pub(crate) fn doubt(&self, segment: &Segment) {
        let state = self.state();
        let until = self.end_of_doubt(state.settings.doubt);
        match segment {
            Segment::Named(name) => state.concerned(name).for_each(|(name, pool)| pool.doubt(name, until)),
            Segment::Anywhere => state.all().for_each(|pool| pool.doubt_all(until)),
        }
    }

    /// The second in which a doubt of so many seconds that begins now ends. The present second may be nearly over, and
    /// does not count.
    fn end_of_doubt(&self, seconds: u32) -> u32 {
        let now = (self.clock)();
        if seconds == 0 { now } else { now.saturating_add(seconds).saturating_add(1) }
    }

    pub(crate) fn change_began(&self) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn change_ended(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a change whose end is unknown may concern the answer to the request of `ticket`.
    pub(crate) fn doubts(&self, ticket: &Ticket) -> bool {
        let state = self.state();
        !ticket.is_certain || state.of(&ticket.segment).is_doubtful(&ticket.segment, (self.clock)())
    }

    /// Whether no change has begun or ended in the ticket's pool since its request was forwarded, and none may still
    /// happen there.
    pub(crate) fn is_unchanged(&self, ticket: &Ticket) -> bool {
        let state = self.state();
        let pool = state.of(&ticket.segment);
        // A pool that was made since then has its own generations, which begin with 0.
        let is_same = Arc::ptr_eq(pool, &ticket.pool) || pool.generation(&ticket.segment) == 0;
        ticket.is_certain
            && is_same
            && ticket.pool.generation(&ticket.segment) == ticket.generation
            && !pool.is_doubtful(&ticket.segment, (self.clock)())
    }

    /// Stores what is kept of an answer: signature, whether it is for all, and lines.
    pub(crate) fn store(&self, ticket: &Ticket, key: &Key, kept: (Box<[u8]>, bool, Arc<[u8]>)) {
        let (signature, shared, lines) = kept;
        match self.home(ticket) {
            Some((pool, generation)) => pool.store(key, Tag { generation, signature, shared, lines }),
            None => count(&ticket.pool.counts.refused),
        }
    }

    /// The pool for the tag of a ticket, and its generation; `None` if it was blanked meanwhile. A segment gets a
    /// pool with its first tag, so that requests for nonexistent paths create none.
    fn home(&self, ticket: &Ticket) -> Option<(Arc<Pool>, u64)> {
        let is_current = || ticket.pool.generation(&ticket.segment) == ticket.generation;
        {
            let state = self.state();
            let own = state.named.get(&ticket.segment);
            let is_own = Arc::ptr_eq(own.unwrap_or(&state.others), &ticket.pool);
            if !is_own || !is_current() {
                return None;
            }
            if own.is_some() || state.named.len() >= state.settings.pools {
                return Some((Arc::clone(&ticket.pool), ticket.generation));
            }
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // No change blanks or doubts while this lock is held. One that has blanked is seen here; one that has doubted
        // and not blanked yet leaves its doubt to the new pool; any later one finds the new pool.
        if state.named.contains_key(&ticket.segment) || !is_current() {
            return None;
        }
        if state.named.len() >= state.settings.pools {
            return Some((Arc::clone(&ticket.pool), ticket.generation));
        }
        let pool = Arc::new(Pool::new(&state.settings));
        pool.doubt(&ticket.segment, ticket.pool.doubtful_until(&ticket.segment));
        state.named.insert(ticket.segment.clone(), Arc::clone(&pool));
        let generation = pool.generation(&ticket.segment);
        Some((pool, generation))
    }

    fn pool(&self, name: &str) -> (Arc<Pool>, Arc<Settings>) {
        let state = self.state();
        (Arc::clone(state.of(name)), Arc::clone(&state.settings))
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(&self, name: &str) -> &Arc<Pool> {
        self.named.get(name).unwrap_or(&self.others)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.named.values().chain([&self.others])
    }

    /// The segments that a change below `name` concerns, and their pools.
    fn concerned<'s>(&'s self, name: &'s str) -> impl Iterator<Item = (&'s str, &'s Pool)> {
        let coupled = self.settings.couplings.of(name).iter().map(|name| &**name);
        std::iter::once(name).chain(coupled).map(|name| (name, &**self.of(name)))
    }
}

/// Whether a tag can answer such a request.
fn is_plain(method: &Method, request: &impl Fields) -> bool {
    let conditions = ["range", "if-match", "if-unmodified-since"];
    *method == Method::GET && !conditions.into_iter().any(|name| request.contains(name))
}

/// The lines of the current tag if the request lists it in `If-None-Match`.
fn listed(of: (&Pool, u64), place: &Place, request: &impl Fields) -> Option<Arc<[u8]>> {
    if !request.contains("if-none-match") || RequestDirectives::parse(request).no_cache {
        return None;
    }
    current(of, place, request).filter(|lines| revalidate::is_listed(request, &HeadLines(lines)))
}

/// The lines of the tag that is current for a request: its own, or the one that all share.
fn current((pool, generation): (&Pool, u64), place: &Place, request: &impl Fields) -> Option<Arc<[u8]>> {
    let selects = |tag: &Tag| vary::matches(&tag.signature, request, None);
    let Some(own) = &place.own else { return pool.find(&place.anyone, generation, selects) };
    let shared = || pool.find(&place.anyone, generation, |tag| tag.shared && selects(tag));
    pool.find(own, generation, selects).or_else(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GET of `/users` that gets its segment a pool, between the doubt and the blanking of a change there.
    #[test]
    fn a_pool_that_is_made_between_a_doubt_and_its_blanking_is_in_doubt() {
        let pools = Arc::new(Pools::new(Settings::default(), || 1_000));
        let segment = Segment::of(b"/users");
        let get = || match pools.ask(&Method::GET, b"site.test", b"/users", &HeaderMap::new()) {
            Asked::Forward(ticket) => ticket,
            _ => panic!("it is forwarded"),
        };
        let mut answer = HeaderMap::new();
        answer.insert(header::ETAG, header::HeaderValue::from_static("\"old\""));
        let fetched = |ticket: Ticket| ticket.answer(&HeaderMap::new(), http::StatusCode::OK, &answer, None);
        let ticket = get();
        pools.doubt(&segment);
        let made = pools.home(&ticket).map(|(pool, _)| pool).expect("nothing is blanked yet");
        assert!(!Arc::ptr_eq(&made, &ticket.pool), "the segment has a pool of its own");
        pools.blank(&segment);
        // The change is committed after this one was answered.
        fetched(get());
        let mut shown = HeaderMap::new();
        shown.insert(header::IF_NONE_MATCH, header::HeaderValue::from_static("\"old\""));
        let asked = pools.ask(&Method::GET, b"site.test", b"/users", &shown);
        assert!(matches!(asked, Asked::Forward(_)), "its tag is not current");
    }
}
