//! A count that goes up and down.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A count that any thread may change, on cache lines of its own: the data beside it are read by each hit.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Gauge(AtomicUsize);

impl Gauge {
    /// Adds one; returns the count with it.
    #[inline]
    pub fn enter(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes one away. Who reads the lower count sees all that its thread did before.
    #[inline]
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Returns the count.
    #[inline]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}
