//! The memory for pages that are assembled before they are sent.

use std::sync::Arc;

use bytes::Bytes;
use larder_rpc::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure;

/// The unit of the budget, in bytes.
const UNIT: usize = 4 << 10;
/// Bytes of pages that are being put together, in the whole process.
const MOST: usize = 256 << 20;

/// The bytes that all calls together may hold in pages that are assembled before they are sent.
#[derive(Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST / UNIT)))
    }
}

/// The part of the budget that one call holds.
pub(super) struct Share {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Budget {
    /// Nothing yet.
    pub(super) fn share(&self) -> Share {
        Share { budget: Arc::clone(&self.0), held: None, bytes: 0 }
    }
}

impl Share {
    /// Makes room for so many bytes more; false when others hold it.
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

/// A page as a whole, and its share of the budget.
pub(super) struct Collected {
    pub(super) bytes: Bytes,
    pub(super) share: Share,
}

/// Why a page cannot be put together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It has more bytes than this.
    TooLong(u64),
    /// All calls together hold too much.
    Crowded,
    /// The origin stopped, or what it sent is not what it said.
    Broken(String),
}

impl Obstacle {
    pub(super) fn failure(self, url: &str) -> Failure {
        match self {
            Self::TooLong(most) => failure(url, 502, format!("the page has more than {most} bytes")),
            Self::Crowded => failure(url, 503, "too many pages are being put together; try again"),
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
