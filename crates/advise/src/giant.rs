//! The object with the most bytes.
//!
//! Whether it stays in a cache can depend on a few requests, above all under a policy that looks at sizes. So what shadows say about
//! it may be true of a cache that is somewhat larger, or smaller: the next sizes tell how much that matters.

use crate::panel::FACTORS;

/// An object in every sample, and its bytes in each shadow.
#[derive(Default)]
pub(crate) struct Giant {
    key: Option<u64>,
    /// The bytes of all objects that were requested since it was the one with the most.
    all: f64,
    /// The bytes that hit, in the order of the shadows.
    hit: Vec<f64>,
}

impl Giant {
    /// Begins again if another object has the most bytes.
    pub(crate) fn set(&mut self, key: Option<u64>) {
        if self.key != key {
            *self = Self { key, ..Self::default() };
        }
    }

    /// Counts requested bytes. Returns whether they are its own.
    pub(crate) fn count(&mut self, key: u64, bytes: f64) -> bool {
        self.all += bytes;
        self.key == Some(key)
    }

    /// Counts its bytes that hit in this one of the `shadows`.
    pub(crate) fn hit(&mut self, shadow: usize, bytes: f64, shadows: usize) {
        self.hit.resize(shadows, 0.0);
        self.hit[shadow] += bytes;
    }

    /// Returns the errors of the byte hit ratios of the policy in this place that it may cause.
    pub(crate) fn errors(&self, place: usize) -> [f64; FACTORS.len()] {
        let Some(hit) = self.hit.chunks_exact(FACTORS.len()).nth(place) else { return Default::default() };
        std::array::from_fn(|at| {
            let beside = [at.saturating_sub(1), (at + 1).min(FACTORS.len() - 1)];
            let [less, more] = beside.map(|other| (hit[other] - hit[at]).abs());
            less.max(more) / 2.0 / self.all.max(1.0)
        })
    }
}
