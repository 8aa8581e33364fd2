//! The entries of a request in limits on requests in progress.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::base::settings::CountedRequests;
use crate::net::byte_budget::Share;
use crate::net::limiter::LimitEntry;

/// The entries of a request in limits on requests in progress, until its reply is sent.
#[derive(Debug, Default)]
pub(crate) struct LimitEntries {
    all: Mutex<Vec<LimitEntry>>,
    /// Whether the request counts as a miss. It does so once, also if it needs several fetches.
    is_miss: AtomicBool,
    /// Its share of the memory for long heads, until it has a reply.
    pub(crate) long_head: Option<Box<Share>>,
}

impl LimitEntries {
    /// Takes the entries out; `None` if there are none.
    pub(crate) fn take(&mut self) -> Option<Box<[LimitEntry]>> {
        let all = std::mem::take(self.all.get_mut());
        (!all.is_empty()).then(|| all.into())
    }

    /// Adds the entries of requests of the kind `counted`.
    pub(crate) fn add(&self, counted: CountedRequests, new: Vec<LimitEntry>) {
        self.is_miss.fetch_or(counted == CountedRequests::Misses, Ordering::Relaxed);
        self.all.lock().extend(new);
    }

    /// Whether the request counts as one of the kind `counted`, for which it may be asked several times.
    pub(crate) fn have(&self, counted: CountedRequests) -> bool {
        counted == CountedRequests::Misses && self.is_miss.load(Ordering::Relaxed)
    }
}
