//! A cache without a limit: what no size can improve.

use hashbrown::HashMap;

use crate::request::{Answer, Change, Request, StoredCopy};
use crate::sample::Sample;
use crate::selection::Selection;

/// The copies of all objects that were ever requested. Their number has a limit: beyond it, the sample becomes smaller.
pub(crate) struct Endless {
    copies: HashMap<u64, SizedCopy>,
    pub(crate) sample: Sample,
    /// The sample whose requests count: less than the whole until the keys that it has gained are known.
    pub(crate) counted: Sample,
}

/// A copy, and the size of its object in bytes, or [`u32::MAX`] if that is less.
struct SizedCopy {
    copy: StoredCopy,
    size: u32,
}

/// The most copies.
const MOST: usize = 1 << 15;

impl Endless {
    pub(crate) fn new(sample: Sample) -> Self {
        Self { copies: HashMap::new(), sample, counted: sample }
    }

    pub(crate) fn answer(&mut self, request: &Request) -> Answer {
        let key = request.object.key;
        if request.change == Change::Removed {
            self.copies.remove(&key);
        }
        match self.copies.get_mut(&key) {
            Some(sized) => sized.copy.answer(request),
            None if request.freshness.is_some() => {
                let size = request.object.size.try_into().unwrap_or(u32::MAX);
                self.copies.insert(key, SizedCopy { copy: request.copy(request.now), size });
                Answer::Miss
            }
            None => Answer::Miss,
        }
    }

    /// Removes a copy that is no longer selected.
    pub(crate) fn review(&mut self, key: u64, selection: &Selection) {
        let sample = self.sample;
        let is_left =
            |sized: &SizedCopy| !sample.contains(key) && !selection.is_exact(key, sized.size.into());
        if self.copies.get(&key).is_some_and(is_left) {
            self.copies.remove(&key);
        }
    }

    /// Removes the copies that are no longer selected, from a sample that is no larger than the `selection`'s.
    pub(crate) fn review_all(&mut self, selection: &Selection) {
        if self.sample.share() > selection.sample.share() {
            self.sample = selection.sample;
        }
        if self.counted.share() > self.sample.share() {
            self.counted = self.sample;
        }
        let sample = self.sample;
        self.copies.retain(|key, sized| sample.contains(*key) || selection.is_exact(*key, sized.size.into()));
    }

    /// Doubles the sample if it is smaller than `most`, and there is room for twice the copies. Returns whether it did.
    pub(crate) fn grow(&mut self, most: Sample) -> bool {
        let is_smaller = self.sample.share() < most.share() && self.counted == self.sample;
        let is_more = is_smaller && 2 * self.copies.len() < MOST;
        if is_more {
            self.sample = self.sample.double();
        }
        is_more
    }

    /// Halves the sample if there are too many copies. Returns whether there are still too many afterwards.
    pub(crate) fn fit(&mut self, selection: &Selection) -> bool {
        if self.copies.len() > MOST {
            self.sample = self.sample.half();
            self.review_all(selection);
        }
        self.copies.len() > MOST
    }

    pub(crate) fn bytes(&self) -> usize {
        self.copies.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_far_below_another_grows_once_its_keys_are_known() {
        let all = Sample::all(1);
        let mut endless = Endless::new(all.half().half());
        assert_eq!((endless.grow(all), endless.grow(all)), (true, false));
        endless.counted = endless.sample;
        assert!(endless.grow(all) && endless.sample == all);
    }
}
