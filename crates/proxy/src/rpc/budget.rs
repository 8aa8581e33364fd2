//! The memory budget for pages that are buffered whole before they are sent.

use std::sync::Arc;

use bytes::Bytes;
use larder_rpc::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure;

/// The unit of the budget, in bytes.
const UNIT: usize = 4 << 10;
/// Maximum of bytes of buffered pages in the whole process.
const MOST: usize = 256 << 20;

/// The bytes that all calls together may hold in buffered pages.
#[derive(Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST / UNIT)))
    }
}

/// The share of the budget that one call holds.
pub(super) struct Share {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Budget {
    /// Creates an empty share.
    pub(super) fn share(&self) -> Share {
        Share { budget: Arc::clone(&self.0), held: None, bytes: 0 }
    }
}

impl Share {
    /// Adds `bytes` to the share. Returns false if the budget is exhausted.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        self.bytes += bytes;
        let missing = self.bytes.div_ceil(UNIT).saturating_sub(held);
        if missing == 0 {
            return true;
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(&self.budget).try_acquire_many_owned(missing) else { return false };
        match &mut self.held {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        true
    }
}

/// A whole page, and its share of the budget.
pub(super) struct Collected {
    pub(super) bytes: Bytes,
    pub(super) share: Share,
}

/// The reason why a page cannot be buffered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The page has more than this number of bytes.
    TooLong(u64),
    /// The budget is exhausted.
    Crowded,
    /// The origin's response is incomplete or malformed.
    Broken(String),
}

impl Obstacle {
    pub(super) fn failure(self, url: &str) -> Failure {
        match self {
            Self::TooLong(most) => failure(url, 502, format!("the page has more than {most} bytes")),
            Self::Crowded => failure(url, 503, "too many pages are being assembled; try again"),
            Self::Broken(why) => failure(url, 502, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_what_all_hold_together() {
        let budget = Budget::default();
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.grow(MOST / 2) && other.grow(MOST / 2 - UNIT));
        assert!(other.grow(UNIT) && !one.grow(1));
        drop(other);
        let mut third = budget.share();
        assert!(third.grow(MOST / 2) && !third.grow(1));
    }
}
