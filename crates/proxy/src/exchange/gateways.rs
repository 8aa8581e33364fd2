//! The tag pools of all gateways, which outlive a reload.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_cluster::message;
use larder_tags::{Pools, Report, Segment, Settings};
use serde::Serialize;

use super::settled::Settled;
use crate::base::clock;
use crate::base::settings::{Origin, Site};

/// The pools of all gateways. A site is known by its name, and keeps them when the config is read again.
pub(crate) struct Gateways {
    all: Mutex<Vec<Gateway>>,
    settled: Settled,
}

struct Gateway {
    site: String,
    origins: Vec<Origin>,
    settings: Settings,
    pools: Arc<Pools>,
}

/// What a gateway's pools hold and did.
#[derive(Debug, Serialize)]
pub(crate) struct Holdings {
    pub(crate) site: String,
    pub(crate) pools: Vec<Report>,
}

impl Gateways {
    /// None yet; `settled` is what the last process said of those that it had.
    pub(crate) fn new(settled: Settled) -> Self {
        Self { all: Mutex::default(), settled }
    }

    /// The pools of `site`, if it is a gateway. Those of one that has changed are emptied. A gateway starts in doubt,
    /// unless the last process ended it with nothing in progress.
    pub(crate) fn open(&self, site: &Site) -> Option<Arc<Pools>> {
        let settings = site.tags.as_ref()?;
        let mut all = self.all();
        if let Some(known) = all.iter_mut().find(|known| known.site == site.name) {
            if known.origins != site.origins || known.settings != *settings {
                known.pools.change(settings.clone());
                (known.origins, known.settings) = (site.origins.clone(), settings.clone());
            }
            return Some(Arc::clone(&known.pools));
        }
        let pools = Arc::new(Pools::new(settings.clone(), seconds));
        if !self.settled.has(&site.name, &site.origins) {
            pools.start_in_doubt();
        }
        let (origins, settings) = (site.origins.clone(), settings.clone());
        all.push(Gateway { site: site.name.clone(), origins, settings, pools: Arc::clone(&pools) });
        Some(pools)
    }

    /// Blanks what a change concerns that went through a gateway of the same name on another node; says no more than
    /// that it did, unless it `is_over`.
    pub(crate) fn changed_elsewhere(&self, pools: &message::Pools, is_over: bool) {
        let all = self.all();
        let segment = pools.pool.as_deref().map_or(Segment::Anywhere, |name| Segment::Named(name.into()));
        let known = all.iter().filter(|known| known.site == pools.site);
        known.for_each(|known| known.pools.changed_elsewhere(&segment, is_over));
    }

    /// Blanks all pools of all gateways.
    pub(crate) fn blank_all(&self) {
        self.all().iter().for_each(|known| known.pools.changed_elsewhere(&Segment::Anywhere, true));
    }

    /// The same; and none makes tags for a while.
    pub(crate) fn start_in_doubt(&self) {
        self.all().iter().for_each(|known| known.pools.start_in_doubt());
    }

    /// Says for the next process which gateways have nothing in progress and nothing in doubt. To be called when there
    /// are no connections any more.
    pub(crate) fn ended(&self) {
        let all = self.all();
        let settled = all.iter().filter(|known| known.pools.is_settled());
        self.settled.write(settled.map(|known| (known.site.as_str(), known.origins.as_slice())));
    }

    fn all(&self) -> MutexGuard<'_, Vec<Gateway>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all of them hold and did.
    pub(crate) fn report(&self) -> Vec<Holdings> {
        self.all()
            .iter()
            .map(|known| Holdings { site: known.site.clone(), pools: known.pools.report() })
            .collect()
    }
}

/// Seconds of a clock that nobody sets: a doubt is as long as it should be.
fn seconds() -> u32 {
    u32::try_from(clock::millis() / 1_000).unwrap_or(u32::MAX)
}
