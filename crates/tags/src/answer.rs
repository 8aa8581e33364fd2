//! Decisions about the response to a forwarded GET: whether it gets a tag, and whether the client has it already.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_semantics::directives::ResponseDirectives;
use larder_semantics::fields::{Fields, HeadLines, members};
use larder_semantics::{revalidate, vary};

use crate::identity::{Key, TargetKeys, identifies_client};
use crate::pool::{Pool, count};
use crate::pools::Pools;
use crate::settings::Settings;
use crate::tag::{Tag, entity_tag};
use crate::{Segment, push};

/// A GET that is forwarded to the backend. The tag of its response is stored if no change has happened since.
pub struct Ticket {
    pub(crate) pools: Arc<Pools>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) pool: Arc<Pool>,
    /// The pool's generation before the request was forwarded.
    pub(crate) generation: u64,
    pub(crate) segment: Box<str>,
    pub(crate) place: TargetKeys,
    /// Whether there was no change with an unknown end then.
    pub(crate) is_certain: bool,
}

/// The decision about a response.
#[derive(Debug)]
pub enum Verdict {
    /// The response is forwarded, with these lines added.
    Pass(HeaderMap),
    /// The client has the response: 304 with these fields, and `Date`.
    NotModified(HeaderMap),
    /// The content is read, if it is at most this many bytes long, and passed to [`Ticket::content`]. If it
    /// is longer, the response is forwarded, with these lines added.
    Read(u64, HeaderMap),
}

/// Fields that a 304 has in common with its 200 (RFC 9110 section 15.4.5), except `ETag`, and further fields
/// with which caches keep the stored response.
const IN_NOT_MODIFIED: [header::HeaderName; 6] = [
    header::CACHE_CONTROL,
    header::HeaderName::from_static("cdn-cache-control"),
    header::CONTENT_LOCATION,
    header::EXPIRES,
    header::VARY,
    push::GROUPS,
];

impl Ticket {
    /// Decides about a response whose head has arrived. `length` is that of its content, if it is known.
    pub fn answer(
        &self,
        request: &impl Fields,
        status: StatusCode,
        answer: &impl Fields,
        length: Option<u64>,
    ) -> Verdict {
        let lines = self.lines(request, status, answer);
        let tag = answer.first("etag");
        if tag.is_none() && self.pools.doubts(self) {
            return Verdict::Pass(lines);
        }
        if !is_tagged(request, answer) || !matches!(status, StatusCode::OK | StatusCode::NOT_MODIFIED) {
            return Verdict::Pass(lines);
        }
        let Some(tag) = tag else {
            let is_read = status == StatusCode::OK
                && !is_live(answer)
                && length.is_none_or(|length| length <= self.settings.content);
            return if is_read { Verdict::Read(self.settings.content, lines) } else { Verdict::Pass(lines) };
        };
        // The backend got the client's tags, so it alone decides about a weak one.
        let is_equal = status == StatusCode::OK && !tag.starts_with(b"W/");
        self.tagged(request, answer, lines, is_equal)
    }

    /// Decides about a response whose content has been read completely.
    pub fn content(&self, request: &impl Fields, answer: &impl Fields, content: &[u8]) -> Verdict {
        let mut lines = self.lines(request, StatusCode::OK, answer);
        if self.pools.doubts(self) {
            return Verdict::Pass(lines);
        }
        lines.insert(header::ETAG, entity_tag(answer, content));
        self.tagged(request, answer, lines, true)
    }

    fn lines(&self, request: &impl Fields, status: StatusCode, answer: &impl Fields) -> HeaderMap {
        let Some(push) = self.settings.push else { return HeaderMap::new() };
        let mut lines = push::belongs(&Segment::Named(self.segment.clone()));
        match self.pools.is_unchanged(self) {
            true => push::prolong(push, request, status, answer, &mut lines),
            false => push::forbid_reuse(&mut lines),
        }
        lines
    }

    fn tagged(
        &self,
        request: &impl Fields,
        answer: &impl Fields,
        lines: HeaderMap,
        may_be_equal: bool,
    ) -> Verdict {
        let kept = kept(answer, &lines);
        let is_equal = may_be_equal && revalidate::is_listed(request, &HeadLines(&kept));
        let map = is_equal.then(|| HeadLines(&kept).to_map());
        self.store(request, answer, kept.into());
        match map {
            Some(map) => {
                count(&self.pool.counts.equal);
                Verdict::NotModified(map)
            }
            None => Verdict::Pass(lines),
        }
    }

    fn store(&self, request: &impl Fields, answer: &impl Fields, lines: Arc<[u8]>) {
        let mut signature = Vec::new();
        if !self.is_certain || vary::write(answer, request, &mut signature).is_err() {
            return;
        }
        let said = ResponseDirectives::parse(answer, &[]);
        let shared = (said.public || said.s_maxage.is_some()) && !said.private && !said.malformed;
        let key = self.place.own.as_ref().filter(|_| !shared).unwrap_or(&self.place.anyone);
        self.pools.store(self, key, (signature.into(), shared, lines));
    }
}

impl Pools {
    /// Whether a change with an unknown end may affect the response to the request of `ticket`.
    fn doubts(&self, ticket: &Ticket) -> bool {
        let state = self.state();
        !ticket.is_certain || state.of(&ticket.segment).is_doubtful(&ticket.segment, (self.clock)())
    }

    /// Whether no change has begun or ended in the ticket's pool since its request was forwarded, and none
    /// may still happen there.
    fn is_unchanged(&self, ticket: &Ticket) -> bool {
        let state = self.state();
        let pool = state.of(&ticket.segment);
        // A pool created since then has separate generations, which begin with 0.
        let is_same = Arc::ptr_eq(pool, &ticket.pool) || pool.generation(&ticket.segment) == 0;
        ticket.is_certain
            && is_same
            && ticket.pool.generation(&ticket.segment) == ticket.generation
            && !pool.is_doubtful(&ticket.segment, (self.clock)())
    }

    /// Stores the tag of a response: signature, whether it is for all clients, and lines.
    fn store(&self, ticket: &Ticket, key: &Key, kept: (Box<[u8]>, bool, Arc<[u8]>)) {
        let (signature, shared, lines) = kept;
        match self.home(ticket) {
            Some((pool, generation)) => pool.store(key, Tag { generation, signature, shared, lines }),
            None => count(&ticket.pool.counts.refused),
        }
    }

    /// Returns the pool for the tag of a ticket, and its generation; `None` if it was blanked meanwhile. A
    /// segment gets a pool with its first tag, so that requests for nonexistent paths create none.
    pub(crate) fn home(&self, ticket: &Ticket) -> Option<(Arc<Pool>, u64)> {
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
        let mut state = self.state.write();
        // While this lock is held, no change blanks a pool or sets a doubt. If a change has blanked the pool,
        // this code sees it; if it has set a doubt but not blanked yet, the new pool inherits the doubt; a
        // later change finds the new pool.
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
}

/// Returns the lines of the 304 for a response with `lines` added.
fn kept(answer: &impl Fields, lines: &HeaderMap) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut write = |name: &str, value: &[u8]| {
        kept.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    };
    let tag = lines.get(header::ETAG).map(HeaderValue::as_bytes).or(answer.first("etag"));
    tag.into_iter().for_each(|tag| write("etag", tag));
    for name in &IN_NOT_MODIFIED {
        answer
            .lines(name.as_str())
            .chain(lines.lines(name.as_str()))
            .for_each(|value| write(name.as_str(), value));
    }
    kept
}

/// Whether a tag identifies a response completely.
fn is_tagged(request: &impl Fields, answer: &impl Fields) -> bool {
    let said = ResponseDirectives::parse(answer, &[]);
    // The request does not identify the client of a private response.
    let is_for_unknown = said.private && !identifies_client(request);
    let is_by_client = vary::is_any(answer) || vary::is_by_client(answer);
    !(said.no_store || is_for_unknown || is_by_client || answer.contains("set-cookie"))
}

/// Whether the client should receive the content of a response while the backend produces it.
fn is_live(answer: &impl Fields) -> bool {
    let live = ["text/event-stream", "multipart/x-mixed-replace", "application/grpc", "application/x-ndjson"];
    let kind = answer.first("content-type").unwrap_or_default();
    let is =
        |live: &str| kind.get(..live.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(live.as_bytes()));
    live.into_iter().any(is)
        || members(answer, "x-accel-buffering").any(|said| said.eq_ignore_ascii_case(b"no"))
}
