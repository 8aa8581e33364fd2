//! What is stored and being fetched, and what was purged.

pub(crate) mod ahead;
pub(crate) mod compressor;
pub(crate) mod doubt;
pub(crate) mod history;
pub(crate) mod prefetches;
pub(crate) mod reclaim;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_store::{Arena, Budget, Disks, Fills, HintUsage, HitForMiss, Memory, Store};
use serde::Serialize;
use tokio::sync::Semaphore;

use self::ahead::RefreshesAhead;
use self::compressor::Compressor;
use self::doubt::Doubts;
use self::history::Histories;
use self::prefetches::Prefetches;
use self::reclaim::Reclaim;
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::exchange::gateways::Gateways;
use crate::exchange::settled::Settled;

/// The cache: one per process.
pub(crate) struct Cache {
    /// What is stored.
    pub(crate) store: Arc<Store>,
    /// What is being fetched.
    pub(crate) fills: Arc<Fills>,
    /// Keys whose answers could not be shared of late.
    pub(crate) hit_for_miss: HitForMiss,
    /// Changes with an unknown end.
    pub(crate) doubts: Doubts,
    /// The tag pools of all gateways.
    pub(crate) gateways: Gateways,
    /// Purges that are to free room.
    pub(crate) reclaim: Reclaim,
    /// Refreshes of popular responses before they expire.
    pub(crate) ahead: RefreshesAhead,
    /// What clients are likely to ask for next.
    pub(crate) prefetches: Prefetches,
    /// What validations have shown.
    pub(crate) histories: Histories,
    /// Responses 103 that were sent from what is stored.
    hints_sent: AtomicU64,
    /// Forms of stored responses to be made.
    pub(crate) compressor: Compressor,
    /// Room for contents whose codings are undone for clients.
    pub(crate) undoing: Arc<Semaphore>,
}

/// What early hints have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct HintFigures {
    /// Responses 103 that were sent from what is stored, or was.
    pub(crate) sent: u64,
    /// URLs whose links outlive what is stored of them.
    pub(crate) kept: u64,
    /// Bytes that these take.
    pub(crate) bytes: u64,
}

/// Contents without their codings that are held at once.
const UNDONE: usize = 8;

impl Cache {
    /// An empty one, which takes its disks in use.
    ///
    /// # Errors
    /// When there is no memory file to be had.
    pub(crate) fn new(settings: &Settings) -> Result<Arc<Self>, Error> {
        let tier = &settings.memory;
        let budget = Budget { capacity: tier.capacity, counts: tier.counts };
        let memory = Memory::new(budget, &tier.policy, tier.max_variants);
        let arena = Arena::new().map_err(|error| Error::new("cannot make a memory file", error))?;
        let max_object = max_object(settings, &memory);
        let store = Arc::new(Store::new(memory, Disks::new(&settings.disks)));
        let fills = Arc::new(Fills::new(Arc::clone(&store), arena, max_object));
        let reclaim = Reclaim::default();
        reclaim.set_rate(settings.schedule.rate);
        let gateways = Gateways::new(Settled::take(settings));
        let (hit_for_miss, doubts, ahead, prefetches, histories, hints_sent, compressor) = <_>::default();
        let undoing = Arc::new(Semaphore::new(UNDONE));
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
            hints_sent,
            compressor,
            undoing,
        }))
    }

    /// Counts a response 103 that was sent from what is stored.
    pub(crate) fn count_hint(&self) {
        self.hints_sent.fetch_add(1, Ordering::Relaxed);
    }

    /// What early hints have done so far, and what they take.
    pub(crate) fn hints(&self) -> HintFigures {
        let HintUsage { hints, bytes } = self.store.hints.usage();
        HintFigures { sent: self.hints_sent.load(Ordering::Relaxed), kept: hints, bytes }
    }

    /// Obeys `new` settings from now on.
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

    /// Does what is written down on the disks, if there are some: requests do not wait for them.
    pub(crate) async fn on_a_thread(&self, work: impl FnOnce() + Send + 'static) {
        if self.store.disks.is_empty() {
            work();
        } else if let Err(error) = tokio::task::spawn_blocking(work).await {
            tracing::error!("purges were not put in force: {error}");
        }
    }
}

fn max_object(settings: &Settings, memory: &Memory) -> u64 {
    settings.memory.max_object.unwrap_or(u64::MAX).min(memory.largest())
}
