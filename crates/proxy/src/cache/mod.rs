//! The state of the cache: stored responses, fills, and purges.

pub(crate) mod advisor;
pub mod ahead;
mod allowance;
pub mod compressor;
pub(crate) mod decoder;
pub(crate) mod doubt;
pub(crate) mod history;
pub mod prefetches;
pub(crate) mod reclaim;
pub(crate) mod twin;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_semantics::purge::{Effect, Scope};
use larder_store::body::body_of;
use larder_store::{Arena, Body, Budget, Disks, Entry, Fills, HintUsage, HitForMiss, Memory, Store};
use serde::Serialize;

use self::ahead::RefreshesAhead;
use self::compressor::Compressor;
use self::decoder::Decoder;
use self::doubt::Doubts;
use self::history::Histories;
use self::prefetches::Prefetches;
use self::reclaim::Reclaim;
use self::twin::Twin;
use crate::base::clock;
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::exchange::gateway_files::GatewayFiles;
use crate::exchange::gateways::Gateways;

/// The cache: one per process.
pub struct Cache {
    /// The stored responses.
    pub store: Arc<Store>,
    /// The fetches in flight.
    pub fills: Arc<Fills>,
    /// The keys that are marked as hit-for-miss.
    pub hit_for_miss: HitForMiss,
    /// Doubts about changes with an unknown result.
    pub doubts: Doubts,
    /// The tag pools of all gateways.
    pub gateways: Gateways,
    /// Purges whose entries have to be freed.
    pub(crate) reclaim: Reclaim,
    /// Refreshes of popular responses before they expire.
    pub ahead: RefreshesAhead,
    /// Predictions of the next requests of clients, and prefetches.
    pub prefetches: Prefetches,
    /// The validation histories of URLs.
    pub histories: Histories,
    /// The other process of an upgrade.
    pub twin: Twin,
    /// The number of 103 responses sent from stored responses.
    hints_sent: AtomicU64,
    /// The queue of coded forms to be made.
    pub compressor: Compressor,
    /// Decodes contents for clients that do not accept the coding of the origin.
    pub(crate) decoder: Decoder,
}

/// The counts of early hints so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HintFigures {
    /// 103 responses that were sent from stored or evicted responses.
    pub sent: u64,
    /// URLs whose links are kept after the eviction of the response.
    pub(crate) kept: u64,
    /// Bytes that these links take.
    pub bytes: u64,
}

impl Cache {
    /// Returns an empty cache, and opens its disks. Fails when the memory file cannot be made.
    pub(crate) fn new(settings: &Settings) -> Result<Arc<Self>, Error> {
        let tier = &settings.memory;
        let budget = Budget { capacity: tier.capacity, counts: tier.counts, workers: settings.threads };
        let memory = Memory::new(budget, &tier.policy, tier.max_variants);
        let arena = Arena::new().map_err(|error| Error::new("cannot make a memory file", error))?;
        let max_object = max_object(settings, &memory);
        let store = Arc::new(Store::new(memory, Disks::new(&settings.disks)));
        let fills = Arc::new(Fills::new(Arc::clone(&store), arena, max_object));
        let reclaim = Reclaim::default();
        reclaim.set_rate(settings.schedule.rate);
        let gateways = Gateways::new(GatewayFiles::take(settings));
        let (hit_for_miss, doubts, ahead, prefetches, histories, twin, hints_sent, compressor, decoder) =
            <_>::default();
        Ok(Arc::new(Self {
            store,
            fills,
            hit_for_miss,
            doubts,
            gateways,
            reclaim,
            ahead,
            prefetches,
            histories,
            twin,
            hints_sent,
            compressor,
            decoder,
        }))
    }

    /// Counts a 103 response that was sent from a stored response.
    pub(crate) fn count_hint(&self) {
        self.hints_sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts of early hints so far, and their use of memory.
    pub fn hints(&self) -> HintFigures {
        let HintUsage { hints, bytes } = self.store.hints.usage();
        HintFigures { sent: self.hints_sent.load(Ordering::Relaxed), kept: hints, bytes }
    }

    /// Returns the variant with this key and these selecting fields, if it is in memory.
    fn variant(&self, key: &[u8], signature: &[u8]) -> Option<Entry> {
        let memory = &self.store.memory;
        let resident = memory.peek(key, memory.hash(key))?;
        resident.variants().iter().find(|entry| entry.signature() == signature).cloned()
    }

    /// Returns the body of `bytes`, a form of a stored response.
    fn body(&self, bytes: Vec<u8>) -> io::Result<Body> {
        body_of(bytes, |len| self.fills.arena().extent(Some(len)))
    }

    /// Removes the responses of these URLs, in all tiers and all partitions.
    pub(crate) fn purge(&self, urls: &[Scope]) {
        let partitions = self.store.purges.partitions_of(urls);
        if !partitions.is_empty() {
            self.fills.order(&partitions, Effect::Invalid, clock::now());
        }
        for url in urls {
            if let Scope::Url(key) = url {
                self.fills.purge(key);
            }
        }
    }

    /// Applies `new` settings from now on.
    pub(crate) fn reload(&self, old: &Settings, new: &Settings) {
        let memory = &self.store.memory;
        self.fills.set_max_object(max_object(new, memory));
        memory.set_max_variants(new.memory.max_variants);
        if new.memory.policy != old.memory.policy {
            memory.set_policy(&new.memory.policy);
        }
        self.store.disks.change(&new.disks);
        self.reclaim.set_rate(new.schedule.rate);
    }

    /// Runs work that writes to near tiers on a thread for blocking work, so that requests do not wait for it. Without
    /// such tiers, runs it at once.
    pub(crate) async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if !self.store.has_near() {
            return Some(work());
        }
        let worked = tokio::task::spawn_blocking(work).await;
        worked.inspect_err(|error| tracing::error!("purges were not put in force: {error}")).ok()
    }
}

fn max_object(settings: &Settings, memory: &Memory) -> u64 {
    settings.memory.max_object.unwrap_or(u64::MAX).min(memory.largest())
}
