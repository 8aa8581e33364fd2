//! The limit of idle connections that all clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The limit of idle connections, over all origins and workers.
#[derive(Debug)]
pub(super) struct Quota {
    most: usize,
    waiting: AtomicUsize,
}

/// One idle connection that counts against a quota until it is dropped.
#[derive(Debug)]
pub(super) struct QuotaPermit(Arc<Quota>);

impl Quota {
    /// Creates a quota of `most` connections.
    pub(super) fn new(most: usize) -> Self {
        Self { most, waiting: AtomicUsize::new(0) }
    }

    /// Counts one more connection, if there is room.
    pub(super) fn count(self: &Arc<Self>) -> Option<QuotaPermit> {
        let counted = QuotaPermit(Arc::clone(self));
        (self.waiting.fetch_add(1, Ordering::Relaxed) < self.most).then_some(counted)
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
