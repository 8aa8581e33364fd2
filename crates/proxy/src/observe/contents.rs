//! Snapshots of the cache's contents for the statistics database: a dedicated thread scans memory and the near tiers periodically, at
//! no cost for requests.
//!
//! A snapshot of a large cache contains its largest objects, which use most of the space.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use larder_semantics::freshness::Freshness;
use larder_stats::Content;
use larder_store::{Memory, Store, Tier, TierName};

use super::ledger::Ledger;
use crate::base::error::Error;
use crate::base::settings::{QueryStrings, Statistics};
use crate::exchange::target;

/// Maximum of objects of each tier in a snapshot.
const MOST: usize = 25_000;
/// Maximum of objects in a near tier that a snapshot reads, in batches with a pause after each, since every object has to be
/// read.
const MOST_READ: usize = 200_000;
const READ: usize = 500;
const PAUSE: Duration = Duration::from_millis(50);

/// Starts the thread for snapshots, at the interval in the settings. Fails when the thread cannot be started.
pub fn start(ledger: Option<Arc<Ledger>>, store: Arc<Store>, settings: &Statistics) -> Result<(), Error> {
    let (Some(ledger), Some(every)) = (ledger, settings.contents) else { return Ok(()) };
    let query = settings.query;
    let thread = thread::Builder::new().name("contents".to_owned());
    let started = thread.spawn(move || keep_up(&store, &ledger, every, query));
    started.map(drop).map_err(|error| Error::new("cannot start the snapshots of the cache's contents", error))
}

/// Takes snapshots until the process ends.
fn keep_up(store: &Store, ledger: &Ledger, every: Duration, query: QueryStrings) {
    let mut recorded = 0;
    loop {
        thread::sleep(every);
        let now = ledger.recorded();
        // Without requests, no response is stored and few are removed, so no snapshot is taken.
        if now != recorded {
            let mut contents = in_memory(&store.memory);
            store.near().iter().for_each(|tier| contents.extend(behind(&**tier)));
            contents.iter_mut().for_each(|content| content.url = query.kept(&content.url).to_owned());
            ledger.record_contents(contents);
        }
        recorded = now;
    }
}

fn in_memory(memory: &Memory) -> Vec<Content> {
    let mut largest = Largest::default();
    memory.list(&mut |resident, used| {
        let variants = resident.variants();
        for entry in variants {
            largest.add(entry.charge(), || {
                let freshness = entry.freshness();
                let content = content(entry.key(), &freshness, TierName::Memory)?;
                let (hash, hits) = (format!("{:016x}", memory.hash(entry.key())), u64::from(used.hits));
                Some(Content { hash, hits, stored: millis(freshness.received), ..content })
            });
        }
    });
    largest.take()
}

fn behind(tier: &dyn Tier) -> Vec<Content> {
    let (mut largest, mut seen) = (Largest::default(), 0);
    tier.list(None, &mut |stored| {
        largest.add(stored.size, || {
            let content = content(&stored.key, &stored.freshness, tier.name())?;
            // These tiers do not count hits, only the time of the last one.
            let (hash, hits) = (stored.name.to_string(), u64::from(stored.used > stored.stored));
            Some(Content { hash, hits, stored: millis(stored.stored), ..content })
        });
        seen += 1;
        if seen % READ == 0 {
            thread::sleep(PAUSE);
        }
        seen < MOST_READ
    });
    largest.take()
}

/// Returns the data that each tier has about an object; `None` if its key is not the key of a request.
fn content(key: &[u8], freshness: &Freshness, tier: TierName) -> Option<Content> {
    // The keys of slices have no role.
    let url = target::key_role(key).and_then(|_| target::url(key))?;
    let Freshness { received, initial_age, lifetime, .. } = *freshness;
    let expires = (u64::from(received) + u64::from(lifetime)).saturating_sub(u64::from(initial_age)) * 1_000;
    Some(Content { url, expires, tier: tier.name().into(), ..Content::default() })
}

fn millis(seconds: u32) -> u64 {
    u64::from(seconds) * 1_000
}

/// The largest of the added objects. Temporarily holds more than the maximum.
#[derive(Default)]
struct Largest(Vec<Content>);

impl Largest {
    fn add(&mut self, size: u64, content: impl FnOnce() -> Option<Content>) {
        self.0.extend(content().map(|content| Content { size, ..content }));
        if self.0.len() >= 2 * MOST {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.0.len() > MOST {
            self.0.select_nth_unstable_by_key(MOST, |content| std::cmp::Reverse(content.size));
            self.0.truncate(MOST);
        }
    }

    fn take(mut self) -> Vec<Content> {
        self.cut();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_shown() {
        let mut largest = Largest::default();
        let sizes = (0..3 * MOST as u64).map(|number| number * 7_919 % 99_991);
        sizes.clone().for_each(|size| largest.add(size, || Some(Content::default())));
        let mut shown = largest.take().iter().map(|content| content.size).collect::<Vec<_>>();
        let mut all = sizes.collect::<Vec<_>>();
        shown.sort_unstable();
        all.sort_unstable();
        assert_eq!(shown, all[all.len() - MOST..]);
    }
}
