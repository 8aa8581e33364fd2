//! Finds what answers a request although it is stored for another query of the same path (`No-Vary-Search`). Whether it does is
//! for [`larder_store::equivalents`] to say.

use larder_semantics::fields::Fields;
use larder_semantics::status::Why;
use larder_store::fill::{Reader, Verdict};
use larder_store::{Entry, Resident, equivalents};

use crate::base::clock;
use crate::base::outcome::Tier;
use crate::cache::Cache;
use crate::exchange::request::Request;
use crate::flow::answer;
use crate::flow::stored::Held;

/// What a disk has at hand under `key`, or else what is stored for an equivalent query; and the reason to use that while it
/// is fresh.
pub(crate) fn not_in_memory(
    cache: &Cache,
    key: &[u8],
    request: &impl Fields,
    now: u32,
) -> Option<(Entry, Tier, Why)> {
    match cache.fills.recall_at_once(key, request, now) {
        Some(entry) => Some((entry, Tier::Disk, Why::Fresh)),
        None => {
            let (entry, tier) = at_once(cache, key, request, now)?;
            Some((entry, tier, Why::EquivalentQuery))
        }
    }
}

/// The response that is stored for an equivalent query, if it is found without waiting.
pub(crate) fn at_once(cache: &Cache, key: &[u8], request: &impl Fields, now: u32) -> Option<(Entry, Tier)> {
    let store = &cache.store;
    store.equivalents.others(key).into_iter().find_map(|other| {
        let resident = store.memory.find(&other.key, store.memory.hash(&other.key), now);
        let (entry, tier) = match resident.and_then(|resident| answer::take(resident, request)) {
            Some(entry) => (store.current(entry)?, Tier::Memory),
            None => (cache.fills.recall_at_once(&other.key, request, now)?, Tier::Disk),
        };
        if tier == Tier::Memory {
            store.used(&entry, now);
        }
        Some((store.for_other(entry, &other, key)?, tier))
    })
}

/// What is `held` under the key of `request`, unless that is nothing and something is stored for an equivalent query. Where each
/// use is validated it stays with that: a validator belongs to one URL.
pub(crate) async fn unless(cache: &Cache, request: &Request, held: Held) -> Held {
    if held.entry.is_some() || request.route.is_validated() {
        return held;
    }
    match look(cache, request).await {
        Some(other) if other.entry.is_some() || held.resident.is_none() => other,
        _ => held,
    }
}

/// Without an entry, what memory has of other variants.
async fn look(cache: &Cache, request: &Request) -> Option<Held> {
    let (store, mut beside) = (&cache.store, None);
    for other in store.equivalents.others(&request.key) {
        let (resident, selected) = selected(cache, &other.key, request);
        let (entry, tier) = match selected.and_then(|entry| store.current(entry)) {
            Some(entry) => (Some(entry), Tier::Memory),
            None => (cache.fills.recall(&other.key, &request.fields, clock::now()).await, Tier::Disk),
        };
        let entry = entry.and_then(|entry| store.for_other(entry, &other, &request.key));
        if entry.is_some() {
            return Some(Held { entry, tier, resident });
        }
        beside = beside.or(resident);
    }
    beside.map(|resident| Held { entry: None, tier: Tier::Memory, resident: Some(resident) })
}

/// [`unless`] as a dry run: nothing changes. Waits for the disk.
pub(crate) fn look_only(cache: &Cache, request: &Request) -> Option<Held> {
    let store = &cache.store;
    if request.route.is_validated() {
        return None;
    }
    store.equivalents.others(&request.key).into_iter().find_map(|other| {
        let (resident, selected) = selected(cache, &other.key, request);
        let (entry, tier) = match selected.and_then(|entry| store.left(&entry)) {
            Some(entry) => (entry, Tier::Memory),
            None => (store.look_on_disk(&other.key, &request.fields)?, Tier::Disk),
        };
        let entry = store.for_other(entry, &other, &request.key)?;
        Some(Held { entry: Some(entry), tier, resident })
    })
}

/// Whether what another request fetches is about `request`, which expected that.
pub(crate) fn is_for(request: &Request, reader: &Reader, verdict: &Verdict) -> bool {
    let is_own = *reader.key() == *request.key;
    match verdict {
        Verdict::Stream(head) => {
            equivalents::is_for(reader.key(), head.status, &head.fields.view(), &request.key)
        }
        // What stands for a third URL was compared with the removals of the leader's only.
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

/// What memory has under `key`, and of this what `request` selects.
fn selected(cache: &Cache, key: &[u8], request: &Request) -> (Option<Resident>, Option<Entry>) {
    let memory = &cache.store.memory;
    let resident = memory.peek(key, memory.hash(key));
    let selected = resident.as_ref().and_then(|resident| answer::select(resident, &request.fields));
    let selected = selected.cloned();
    (resident, selected)
}
