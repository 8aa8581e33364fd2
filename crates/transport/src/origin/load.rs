//! The load of an origin: its requests in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A request in progress at an origin, counted in its load; dropping it ends it.
#[derive(Debug)]
pub struct OriginLoad(Arc<AtomicU32>);

impl OriginLoad {
    /// Takes over one request that `load` counts.
    pub(super) fn of(load: &Arc<AtomicU32>) -> Self {
        Self(Arc::clone(load))
    }
}

impl Drop for OriginLoad {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
