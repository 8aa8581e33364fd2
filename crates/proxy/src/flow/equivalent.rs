//! Finds responses that answer a request although they are stored for another query of the same path
//! (`No-Vary-Search`). [`larder_store::equivalents`] decides whether two queries are equivalent.

use larder_semantics::fields::Fields;
use larder_store::fill::{Reader, Verdict};
use larder_store::{Entry, equivalents};

use crate::base::outcome::Tier;
use crate::cache::Cache;
use crate::exchange::request::Request;
use crate::flow::answer;

/// Returns the response that a near tier has under `key` without waiting, or else one that is stored for an equivalent
/// query, and whether it is stored under `key`.
pub(crate) fn not_in_memory(
    cache: &Cache,
    key: &[u8],
    request: &impl Fields,
    now: u32,
) -> Option<(Entry, Tier, bool)> {
    match cache.fills.recall_at_once(key, request, now) {
        Some((entry, tier)) => Some((entry, tier, true)),
        None => {
            let (entry, tier) = at_once(cache, key, request, now)?;
            Some((entry, tier, false))
        }
    }
}

/// Returns the response that is stored for an equivalent query, if it is found without waiting.
pub(crate) fn at_once(cache: &Cache, key: &[u8], request: &impl Fields, now: u32) -> Option<(Entry, Tier)> {
    let store = &cache.store;
    store.equivalents.others(key).into_iter().find_map(|other| {
        let resident = store.memory.find(&other.key, store.memory.hash(&other.key), now);
        let (entry, tier) = match resident.and_then(|resident| answer::take(resident, request)) {
            Some(entry) => (store.current(entry)?, Tier::Memory),
            None => cache.fills.recall_at_once(&other.key, request, now)?,
        };
        if tier == Tier::Memory {
            store.used(&entry, now);
        }
        Some((store.for_other(entry, &other, key)?, tier))
    })
}

/// Whether the result of another request's fetch is about `request`, which joined that fetch in the expectation that it
/// is.
pub(crate) fn is_for(request: &Request, reader: &Reader, verdict: &Verdict) -> bool {
    let is_own = *reader.key() == *request.key;
    match verdict {
        Verdict::Stream(head) => {
            equivalents::is_for(reader.key(), head.status, &head.fields.view(), &request.key)
        }
        // An entry of a third URL was checked only against purges of the leader's key.
        Verdict::Stored(entry) | Verdict::StandIn(entry) => {
            (is_own || *entry.key() == *reader.key()) && is_entry_for(request, entry)
        }
        Verdict::Released => is_own,
        Verdict::Failed(..) | Verdict::Abandoned => true,
    }
}

/// Whether a stored response is about `request`.
pub(crate) fn is_entry_for(request: &Request, entry: &Entry) -> bool {
    equivalents::is_for(entry.key(), entry.status(), &entry.fields(), &request.key)
}
