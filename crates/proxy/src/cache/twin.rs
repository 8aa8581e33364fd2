//! The agreement of the two processes that answer requests during an upgrade. A purge is acknowledged when the other process obeys
//! it, too. What the earlier process is fetching is not fetched again, if that takes no longer than a moment.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_words::with_defaults;
use tokio::sync::watch;

/// The time after which a purge is acknowledged in any case: the other process is about to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest wait for a fetch of the earlier process. A client of a longer one would wait for all of its content.
const FETCH: Duration = Duration::from_secs(1);

/// No other process answers requests.
const NOBODY: u64 = u64::MAX;

with_defaults! {
    /// The other process, if there is one.
    #[derive(Debug)]
    pub struct Twin {
        /// The purges that wait for the other process have numbers up to this one.
        asked: AtomicU64 = <_>::default(),
        /// The number up to which the other process obeys, or [`NOBODY`].
        obeyed: watch::Sender<u64> = watch::Sender::new(NOBODY),
        /// The number up to which this process obeys the other one.
        heard: AtomicU64 = <_>::default(),
        /// The hashes of the keys that the earlier process is fetching.
        fetches: watch::Sender<HashSet<u64>> = <_>::default(),
    }
}

impl Twin {
    /// From now on, another process answers requests, too.
    pub fn meet(&self) {
        [&self.asked, &self.heard].into_iter().for_each(|number| number.store(0, Ordering::SeqCst));
        self.obeyed.send_replace(0);
    }

    /// From now on, no other process answers requests.
    pub fn leave(&self) {
        self.obeyed.send_replace(NOBODY);
    }

    /// Returns once the other process obeys all purges that this one has put in force so far.
    pub(crate) async fn agree(&self) {
        if *self.obeyed.borrow() == NOBODY {
            return;
        }
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut obeyed = self.obeyed.subscribe();
        // The sender lives as long as the cache.
        let _ = tokio::time::timeout(PATIENCE, obeyed.wait_for(|obeyed| *obeyed >= number)).await;
    }

    /// Notes the hashes of all keys that the earlier process is fetching. What it has fetched is stored here already.
    pub fn note_fetches(&self, hashes: HashSet<u64>) {
        self.fetches.send_replace(hashes);
    }

    /// Returns once the earlier process is not fetching the key with this hash, or after [`FETCH`].
    pub(crate) async fn fetched(&self, hash: u64) {
        if self.fetches.borrow().contains(&hash) {
            let mut fetches = self.fetches.subscribe();
            let ended = Box::pin(fetches.wait_for(|hashes| !hashes.contains(&hash)));
            // The sender lives as long as the cache.
            let _ = Box::pin(tokio::time::timeout(FETCH, ended)).await;
        }
    }

    /// Returns the number of the last purge that waits for the other process.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Notes that the other process obeys up to this number.
    pub fn note_obeyed(&self, number: u64) {
        self.obeyed.send_if_modified(|obeyed| {
            let is_later = number > *obeyed;
            *obeyed = number.max(*obeyed);
            is_later
        });
    }

    /// Notes that this process obeys the other one up to this number.
    pub fn note_heard(&self, number: u64) {
        self.heard.store(number, Ordering::SeqCst);
    }

    /// Returns the number up to which this process obeys the other one.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::SeqCst)
    }
}
