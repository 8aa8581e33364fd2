//! A cache without a limit: what no size can improve.

use hashbrown::HashMap;

use crate::request::{Answer, Change, Request, StoredCopy};
use crate::sample::Sample;

/// The copies of all objects that were ever requested. Their number has a limit: beyond it, the sample becomes smaller.
pub(crate) struct Endless {
    copies: HashMap<u64, StoredCopy>,
    pub(crate) sample: Sample,
}

/// The most copies.
const MOST: usize = 1 << 15;

impl Endless {
    pub(crate) fn new(sample: Sample) -> Self {
        Self { copies: HashMap::new(), sample }
    }

    pub(crate) fn answer(&mut self, request: &Request) -> Answer {
        let key = request.object.key;
        if request.change == Change::Removed {
            self.copies.remove(&key);
        }
        match self.copies.get_mut(&key) {
            Some(copy) => copy.answer(request),
            None if request.freshness.is_some() => {
                self.copies.insert(key, request.copy(request.now));
                Answer::Miss
            }
            None => Answer::Miss,
        }
    }

    pub(crate) fn remove(&mut self, key: u64) {
        self.copies.remove(&key);
    }

    /// Halves the sample if there are too many copies, except those that `stays` keeps.
    pub(crate) fn fit(&mut self, stays: impl Fn(u64) -> bool) {
        while self.copies.len() > MOST {
            let half = self.sample.half();
            if half == self.sample {
                self.copies.clear();
            }
            self.sample = half;
            self.copies.retain(|key, _| half.contains(*key) || stays(*key));
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.copies.allocation_size()
    }
}
