//! What was counted for each site, by every worker.
//!
//! A site is known by its name: it keeps its counts when the config is read again, and one that is gone keeps
//! them, too, so that no sum ever falls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::counters::{Counters, Counts};

/// The counts of one site.
#[derive(Debug)]
pub(crate) struct Account {
    site: Arc<str>,
    workers: Box<[Counters]>,
}

/// Counts what origins of a site send.
#[derive(Debug)]
pub(crate) struct Meter {
    account: Arc<Account>,
    worker: usize,
}

/// The counts of all sites that there were.
#[derive(Debug)]
pub(crate) struct Accounts {
    workers: usize,
    all: Mutex<Vec<Arc<Account>>>,
}

impl Account {
    pub(crate) fn site(&self) -> &Arc<str> {
        &self.site
    }

    /// The counters of the worker with this number, counted from 0.
    pub(crate) fn of(&self, worker: usize) -> &Counters {
        &self.workers[worker]
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.workers.iter().for_each(|counters| counts.add(counters));
        counts
    }
}

impl Meter {
    /// That of the worker with this number.
    pub(crate) fn new(account: &Arc<Account>, worker: usize) -> Self {
        Self { account: Arc::clone(account), worker }
    }

    pub(crate) fn count(&self, bytes: usize) {
        self.account.of(self.worker).received(bytes as u64);
    }
}

impl Accounts {
    /// Room for so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers, all: Mutex::default() }
    }

    /// The account of a site, opened now if there was none.
    pub(crate) fn open(&self, site: &str) -> Arc<Account> {
        let mut all = self.locked();
        if let Some(account) = all.iter().find(|account| &*account.site == site) {
            return Arc::clone(account);
        }
        let workers = (0..self.workers).map(|_| Counters::default()).collect();
        all.push(Arc::new(Account { site: Arc::from(site), workers }));
        all[all.len() - 1].clone()
    }

    /// All of them, in the order in which they were opened.
    pub(crate) fn all(&self) -> Vec<Arc<Account>> {
        self.locked().clone()
    }

    /// The counts of all sites together.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for account in self.all() {
            account.workers.iter().for_each(|counters| counts.add(counters));
        }
        counts
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::status::Why;

    use super::*;
    use crate::base::outcome::{Kind, Outcome};

    #[test]
    fn a_site_that_comes_back_goes_on_counting() {
        let accounts = Accounts::new(2);
        let miss = Outcome::forwarded(Kind::Miss, Why::Absent);
        for (site, worker) in [("a", 0), ("b", 1), ("a", 1), ("a", 0)] {
            accounts.open(site).of(worker).record(&miss, 10);
        }
        let requests = |site| accounts.open(site).counts().totals().requests;
        assert_eq!((requests("a"), requests("b"), accounts.all().len()), (3, 1, 2));
        let all = accounts.counts().totals();
        assert_eq!((all.misses, all.bytes_served), (4, 40));
    }
}
