//! Counts of each site, over all workers.
//!
//! Accounts are identified by the site's name. A site keeps its counts after a reload, and a removed site keeps them,
//! too, so that sums never decrease.

use std::sync::Arc;

use parking_lot::Mutex;

use super::counters::{Counters, Counts};

/// The counts of one site.
#[derive(Debug)]
pub struct Account {
    site: Arc<str>,
    workers: Box<[Counters]>,
}

/// Counts the bytes that origins of a site send.
#[derive(Debug)]
pub struct Meter {
    account: Arc<Account>,
    worker: usize,
}

/// The counts of all current and former sites.
#[derive(Debug)]
pub struct Accounts {
    workers: usize,
    all: Mutex<Vec<Arc<Account>>>,
}

impl Account {
    /// Returns the name of the site.
    #[inline]
    pub fn site(&self) -> &Arc<str> {
        &self.site
    }

    /// Returns the counters of the worker with this number, counted from 0.
    #[inline]
    pub fn of(&self, worker: usize) -> &Counters {
        &self.workers[worker]
    }

    /// Returns the sum over all workers.
    #[inline]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.workers.iter().for_each(|counters| counts.add(counters));
        counts
    }
}

impl Meter {
    /// Creates a meter for the worker with this number.
    #[inline]
    pub fn new(account: &Arc<Account>, worker: usize) -> Self {
        Self { account: Arc::clone(account), worker }
    }

    /// Counts bytes of content.
    #[inline]
    pub fn count(&self, bytes: usize) {
        self.account.of(self.worker).received(bytes as u64);
    }
}

impl Accounts {
    /// Creates accounts for this number of workers.
    #[inline]
    pub fn new(workers: usize) -> Self {
        Self { workers, all: Mutex::default() }
    }

    /// Returns the number of workers.
    #[inline]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the account of a site, and opens it if there is none.
    pub fn open(&self, site: &str) -> Arc<Account> {
        let mut all = self.all.lock();
        if let Some(account) = all.iter().find(|account| &*account.site == site) {
            return Arc::clone(account);
        }
        let workers = (0..self.workers).map(|_| Counters::default()).collect();
        all.push(Arc::new(Account { site: Arc::from(site), workers }));
        all[all.len() - 1].clone()
    }

    /// Returns all accounts, in the order in which they were opened.
    #[inline]
    pub fn all(&self) -> Vec<Arc<Account>> {
        self.all.lock().clone()
    }

    /// Returns the sum of the counts of all sites.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for account in self.all() {
            account.workers.iter().for_each(|counters| counts.add(counters));
        }
        counts
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
