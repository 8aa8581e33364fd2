//! Changes of which this cache does not know whether they have happened: it gave up waiting for the answer, or got none.
//!
//! The origin may still commit such a change. Until the site's `tag_doubt` is over, whatever is fetched that the change
//! may concern is stored as invalid, so that each use is validated: the URL, all responses of its path that may answer other
//! queries (`No-Vary-Search`), and all responses of its origin that have
//! cache groups, since only the answer would have said which groups the change invalidates. What was stored
//! before is invalidated when the doubt begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::{groups, invalidate, key, no_vary_search};
use larder_store::{Effect, Scope};

use crate::base::clock;
use crate::base::settings::DOUBT;
use crate::cluster::scopes;
use crate::cluster::trust::on_a_thread;
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::flow::worker::Shared;
use crate::origin::OriginError;

/// How many URLs and origins are told apart. Two that share a place are in doubt together, which costs validations.
const PLACES: usize = 4_096;

/// The clock may be so many milliseconds behind.
const COARSE: u64 = 10;

/// What is in doubt, and until when (milliseconds of [`clock::millis`]).
#[derive(Debug)]
pub(crate) struct Doubts {
    /// The end of the last doubt; 0: there was none.
    latest: AtomicU64,
    /// By the hash of a cache key, or of an origin.
    until: Box<[AtomicU64]>,
}

/// What of the answer to a request is in doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubt {
    url: bool,
    /// Of the answer to another query of its path.
    path: bool,
    groups: bool,
}

impl Default for Doubts {
    fn default() -> Self {
        Self { latest: AtomicU64::new(0), until: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Doubts {
    fn begin(&self, hash: u64, until: u64) {
        self.until[hash as usize % PLACES].fetch_max(until, Ordering::SeqCst);
        self.latest.fetch_max(until, Ordering::SeqCst);
    }

    fn has(&self, hash: u64, now: u64) -> bool {
        now < self.until[hash as usize % PLACES].load(Ordering::SeqCst)
    }
}

impl Doubt {
    /// What is in doubt of the answer to a request for `key`. To be asked after its fetch was registered, and before the
    /// origin is asked: a doubt that begins later invalidates what is fetched.
    pub(crate) fn about(shared: &Shared, key: &[u8]) -> Self {
        let latest = shared.doubts.latest.load(Ordering::SeqCst);
        if latest == 0 {
            return Self::default();
        }
        let now = clock::millis();
        if now >= latest {
            return Self::default();
        }
        let (doubts, memory) = (&shared.doubts, &shared.store.memory);
        let of_origin = |origin| doubts.has(memory.hash(origin), now);
        Self {
            url: doubts.has(memory.hash(key), now),
            path: doubts.has(memory.hash(path(key)), now),
            groups: key::origin(key).is_some_and(of_origin),
        }
    }

    /// The freshness of a response with these fields, which is invalid if a change may concern it.
    pub(crate) fn temper(self, freshness: Freshness, response: &impl Fields) -> Freshness {
        if self.reaches(response) { freshness.invalid() } else { freshness }
    }

    fn reaches(self, response: &impl Fields) -> bool {
        self.url
            || (self.path && response.contains(no_vary_search::FIELD))
            || (self.groups && !groups::groups(response).is_empty())
    }
}

/// A request that may change something, on its way to an origin. If it is dropped before its end is known, a doubt
/// begins.
pub(crate) struct Change {
    shared: Arc<Shared>,
    url: Vec<u8>,
    origin: Option<Vec<u8>>,
    seconds: u32,
    is_over: bool,
}

impl Change {
    /// That of `request`, if its method is unsafe.
    pub(crate) fn of(shared: &Arc<Shared>, request: &Request) -> Option<Self> {
        let seconds = match &request.route {
            Route::Site(site) => site.settings.doubt,
            Route::Anywhere => DOUBT,
        };
        (invalidate::is_unsafe(&request.method) && seconds > 0).then(|| Self {
            shared: Arc::clone(shared),
            url: request.key.clone(),
            origin: key::origin(request.target()).map(<[u8]>::to_vec),
            seconds,
            is_over: false,
        })
    }

    /// The origin has answered. 502 and 504 come from a server in between that does not know how the change ended,
    /// unless it names groups: then it takes care of them.
    pub(crate) fn answered(&mut self, request: &Request, status: StatusCode, fields: &impl Fields) {
        let is_unknown = matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
            && groups::invalidated(&request.method, fields).is_empty();
        self.is_over = !is_unknown && !request.has_lost_try();
    }

    /// There is no answer.
    pub(crate) fn failed(&mut self, error: &OriginError) {
        self.is_over = error.unsent;
    }

    /// Begins the doubt, unless the end is known; returns when it is in force here, and other nodes have been told.
    /// Whether the end is known.
    pub(crate) async fn end(mut self) -> bool {
        if self.is_over {
            return true;
        }
        self.is_over = true;
        let (shared, seconds, scopes) = (Arc::clone(&self.shared), self.seconds, self.scopes());
        let told = scopes::unsure(seconds, &scopes);
        on_a_thread(&self.shared, move || begin(&shared, seconds, scopes)).await;
        if let Some(cluster) = &self.shared.cluster
            && let Err(error) = cluster.tell(told).await
        {
            tracing::debug!("other nodes do not hear at once of a change with an unknown end: {error}");
        }
        false
    }

    fn scopes(&mut self) -> Vec<Scope> {
        let url = Scope::Url(std::mem::take(&mut self.url));
        std::iter::once(url).chain(self.origin.take().map(Scope::Origin)).collect()
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let scopes = self.scopes();
        if let Some(cluster) = &self.shared.cluster {
            cluster.tell_later(scopes::unsure(self.seconds, &scopes));
        }
        begin(&self.shared, self.seconds, scopes);
    }
}

/// A cache key without its query.
fn path(key: &[u8]) -> &[u8] {
    key.split_last().map_or(key, |(_, url)| key::split_at_query(url).0)
}

/// Puts in force that a change may concern `scopes` for so many seconds from now on.
pub(crate) fn begin(shared: &Shared, seconds: u32, scopes: Vec<Scope>) {
    let until = clock::millis() + u64::from(seconds) * 1_000 + COARSE;
    let (memory, scopes) = (&shared.store.memory, shared.fills.with_equivalents(scopes));
    // First, so that what is fetched from now on is tempered; what is being fetched, the rest reaches.
    for scope in &scopes {
        if let Scope::Url(bytes) | Scope::Origin(bytes) = scope {
            shared.doubts.begin(memory.hash(bytes), until);
        }
        if let Scope::Url(key) = scope {
            shared.doubts.begin(memory.hash(path(key)), until);
        }
    }
    let (urls, others): (Vec<_>, Vec<_>) =
        scopes.into_iter().partition(|scope| matches!(scope, Scope::Url(_)));
    for url in urls {
        if let Scope::Url(key) = url {
            shared.fills.purge(&key);
        }
    }
    if !others.is_empty() {
        shared.fills.order(&others, Effect::Invalid, clock::now());
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::fields::HeadLines;
    use larder_semantics::freshness::Flags;

    use super::*;

    #[test]
    fn a_doubt_is_about_its_place_until_its_end() {
        let doubts = Doubts::default();
        doubts.begin(7, 1_000);
        doubts.begin(7, 500);
        doubts.begin(8, 2_000);
        let about = |hash, now| doubts.has(hash, now);
        assert!(about(7, 999) && about(7 + PLACES as u64, 999), "places are shared");
        assert!(!about(7, 1_000) && about(8, 1_000) && !about(9, 0));
    }

    #[test]
    fn only_what_has_groups_is_in_doubt_with_its_origin_and_what_answers_other_queries_with_its_path() {
        let invalid = |doubt: Doubt, lines: &str| {
            let tempered = doubt.temper(Freshness::default(), &HeadLines(lines.as_bytes()));
            tempered.flags.contains(Flags::INVALID)
        };
        let nothing = Doubt::default();
        let (url, groups) = (Doubt { url: true, ..nothing }, Doubt { groups: true, ..nothing });
        let path = Doubt { path: true, ..nothing };
        assert!(!invalid(path, "") && invalid(path, "No-Vary-Search: params=(\"a\")\r\n"));
        assert!(invalid(url, "") && !invalid(groups, "") && invalid(groups, "Cache-Groups: \"a\"\r\n"));
        assert!(!invalid(Doubt::default(), "Cache-Groups: \"a\"\r\n"));
    }
}
