//! Decisions about a request: whether a current tag answers it, and the data that accompanies it to the backend.

use std::sync::Arc;

use http::{HeaderMap, Method, header};
use larder_semantics::directives::RequestDirectives;
use larder_semantics::fields::{Fields, HeadLines};
use larder_semantics::{invalidate, revalidate, vary};

use crate::answer::Ticket;
use crate::change::Change;
use crate::identity::TargetKeys;
use crate::pool::{Pool, count};
use crate::pools::Pools;
use crate::push;
use crate::segment::Segment;
use crate::tag::Tag;

/// The decision about a request.
pub enum TagDecision {
    /// The client has the current response: 304 with these fields, and `Date`.
    NotModified(HeaderMap),
    /// The request is forwarded to the backend, with [tags instead of dates](Pools::leave_tags) if it has both.
    Forward(Ticket),
    /// The request may change data; the caller keeps this value until the request's end.
    Change(Change),
    /// The request is forwarded to the backend, and these lines are added to the response.
    Pass(HeaderMap),
}

impl Pools {
    /// Decides about a request for `target`, a path with its query, at `authority`.
    pub fn ask(
        self: &Arc<Self>,
        method: &Method,
        authority: &[u8],
        target: &[u8],
        request: &impl Fields,
    ) -> TagDecision {
        let segment = Segment::of(target);
        if invalidate::is_unsafe(method) {
            return TagDecision::Change(Change::new(Arc::clone(self), segment));
        }
        let Segment::Named(name) = segment else { return TagDecision::Pass(self.pass(method, target)) };
        if !is_plain(method, request) {
            return TagDecision::Pass(self.pass(method, target));
        }
        let (pool, settings) = self.pool(&name);
        // Read before the request is forwarded, and before the doubt: see `Change::drop`.
        let generation = pool.generation(&name);
        let place = self.keys.place(authority, target, request);
        if let Some(lines) = listed((&pool, generation), &place, request) {
            count(&pool.counts.matched);
            return TagDecision::NotModified(HeadLines(&lines).to_map());
        }
        count(&pool.counts.forwarded);
        let is_certain = !pool.is_doubtful(&name, (self.clock)());
        let pools = Arc::clone(self);
        TagDecision::Forward(Ticket { pools, settings, pool, generation, segment: name, place, is_certain })
    }

    /// Whether [`ask`](Self::ask) would answer such a request with 304; `None` if no tag can answer it.
    /// Changes no counters.
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

    /// Returns the lines to add to the response to a request that is not for the pools.
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

    /// Whether a request has both tags and a date, of which only the tags count (RFC 9110 section 13.1.3).
    pub fn is_conditioned_twice(request: &HeaderMap) -> bool {
        request.contains_key(header::IF_NONE_MATCH) && request.contains_key(header::IF_MODIFIED_SINCE)
    }

    /// Removes the date from a request that has tags as well: a backend without tags would use the date,
    /// whose precision is a second.
    pub fn leave_tags(request: &mut HeaderMap) {
        request.remove(header::IF_MODIFIED_SINCE);
    }
}

/// Whether a tag can answer such a request.
fn is_plain(method: &Method, request: &impl Fields) -> bool {
    let conditions = ["range", "if-match", "if-unmodified-since"];
    *method == Method::GET && !conditions.into_iter().any(|name| request.contains(name))
}

/// Returns the lines of the current tag if the request lists it in `If-None-Match`.
fn listed(of: (&Pool, u64), place: &TargetKeys, request: &impl Fields) -> Option<Arc<[u8]>> {
    if !request.contains("if-none-match") || RequestDirectives::parse(request).no_cache {
        return None;
    }
    current(of, place, request).filter(|lines| revalidate::is_listed(request, &HeadLines(lines)))
}

/// Returns the lines of the current tag for a request: the client's, or the shared one.
fn current((pool, generation): (&Pool, u64), place: &TargetKeys, request: &impl Fields) -> Option<Arc<[u8]>> {
    let selects = |tag: &Tag| vary::matches(&tag.signature, request, || None);
    let Some(own) = &place.own else { return pool.find(&place.anyone, generation, selects) };
    let shared = || pool.find(&place.anyone, generation, |tag| tag.shared && selects(tag));
    pool.find(own, generation, selects).or_else(shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    /// A GET of `/users` that creates the pool of its segment, between the doubt and the blanking of a change there.
    #[test]
    fn a_pool_made_between_doubt_and_blanking_is_in_doubt() {
        let pools = Arc::new(Pools::new(Settings::default(), || 1_000));
        let segment = Segment::of(b"/users");
        let get = || match pools.ask(&Method::GET, b"site.test", b"/users", &HeaderMap::new()) {
            TagDecision::Forward(ticket) => ticket,
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
        // The change is committed after this GET was answered.
        fetched(get());
        let mut shown = HeaderMap::new();
        shown.insert(header::IF_NONE_MATCH, header::HeaderValue::from_static("\"old\""));
        let asked = pools.ask(&Method::GET, b"site.test", b"/users", &shown);
        assert!(matches!(asked, TagDecision::Forward(_)), "its tag is not current");
    }
}
