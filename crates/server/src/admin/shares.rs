//! `/advise/sites`: what each site takes of the memory, and the hits that it gives for it.

use std::collections::HashMap;
use std::sync::Arc;

use larder_semantics::key;
use serde::{Deserialize, Serialize};

use super::{Call, Outcome, json};
use crate::counts::accounts::Account;
use crate::exchange::plan::Plan;
use crate::exchange::target::{key_role, url_parts};
use crate::flow::worker::ProcessState;

/// What a site takes and gives.
#[derive(Debug, Deserialize, Serialize)]
pub struct SiteShare {
    /// Its name.
    pub site: String,
    /// Bytes of memory that its stored responses take now.
    pub memory: u64,
    /// Cacheable requests since the process started.
    pub requests: u64,
    /// Those of them that were hits.
    pub hits: u64,
    /// Bytes sent for these requests.
    pub bytes: u64,
    /// Those of them that came from the cache.
    pub bytes_from_cache: u64,
}

/// Returns the shares of all sites with requests or stored responses, the largest memory first.
pub(super) async fn answer(call: Call<'_>) -> Outcome {
    let (shared, permit) = (Arc::clone(&call.state.shared), call.state.look()?);
    let shares = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        shares(&shared)
    });
    Ok(json(&shares.await?))
}

fn shares(shared: &ProcessState) -> Vec<SiteShare> {
    let (plan, mut memory) = (shared.plan(), HashMap::<Arc<str>, u64>::new());
    shared.cache.store.memory.list(&mut |resident, _| {
        for entry in resident.variants() {
            if let Some(site) = site_of(&plan, entry.key()) {
                *memory.entry(site).or_default() += entry.charge();
            }
        }
    });
    let share = |account: &Arc<Account>| {
        let totals = account.counts().totals();
        SiteShare {
            site: account.site().to_string(),
            memory: memory.get(account.site()).copied().unwrap_or(0),
            requests: totals.hits + totals.validated + totals.misses,
            hits: totals.hits,
            bytes: totals.bytes_cacheable,
            bytes_from_cache: totals.bytes_from_cache,
        }
    };
    let mut shares: Vec<_> = shared.observers.accounts.all().iter().map(share).collect();
    shares.retain(|share| share.requests > 0 || share.memory > 0);
    shares.sort_by_key(|share| std::cmp::Reverse(share.memory));
    shares
}

/// Returns the site of a stored response, or of the response of a slice.
fn site_of(plan: &Plan, key: &[u8]) -> Option<Arc<str>> {
    let (role, (_, authority, path)) = (key_role(key::of_url(key))?, url_parts(key)?);
    plan.sites.name(role, str::from_utf8(authority).ok()?, &String::from_utf8_lossy(path))
}
