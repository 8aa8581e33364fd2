//! How many keys shadows see: as many as they have room and time for.

use super::Panel;
use crate::row::Row;

/// The requests between two checks of the number of objects.
const CHECKED: u64 = 64;
/// The part of the most objects at which there is room for a larger sample.
const GROWN: f64 = 0.4;
/// The requests after which shadows know the keys that the sample has gained, as a multiple of the objects in the largest.
const WARM: u64 = 8;
/// The part of the objects in shadows, and of their requests, that large ones may be, and heavy keys: they are in every sample.
const LARGE_SHARE: f64 = 1.0 / 3.0;

/// The requests seen since the selection became smaller.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) all: u64,
    /// Those for large objects, and for other keys that only their weight selects.
    pub(super) large: u64,
    pub(super) heavy: u64,
}

impl Panel {
    /// Adapts the selection from time to time.
    pub(super) fn check(&mut self) {
        if self.answered >= self.checked {
            self.checked = self.answered + CHECKED;
            self.fit();
        }
        if self.answered >= self.warm {
            self.counted = self.sample();
        }
    }

    /// Makes the selection smaller while the shadows have too many objects.
    fn fit(&mut self) {
        while self.rows.iter().map(Row::len).sum::<usize>() > self.most {
            self.thin();
        }
        while self.endless.fit(&self.selection) {
            if self.endless_share() < self.sample().share() / 16.0 {
                self.selection.raise_large();
                self.review();
            }
        }
    }

    /// Makes the selection no larger than that of `other`, of which this panel sees the requests.
    pub fn narrow(&mut self, other: &Self) {
        if self.selection.narrow(&other.selection) {
            self.review();
        }
    }

    /// Halves the sample, or leaves out more of the large objects if they are too large a part of what shadows have or see.
    pub fn thin(&mut self) {
        let seen = self.seen.large as f64 > LARGE_SHARE * self.seen.all as f64;
        self.seen = Seen::default();
        let mut is_less = false;
        if self.sample().share() < 1.0 && seen {
            self.selection.raise_large();
            is_less = true;
        }
        while self.large_share() > LARGE_SHARE {
            self.selection.raise_large();
            is_less = self.sample().share() < 1.0;
        }
        if !is_less {
            self.selection.sample = self.sample().half();
        }
        self.review();
    }

    /// Whether the requests for heavy keys are too large a part of those that shadows see. If so, the count
    /// begins again: there should be fewer heavy keys now.
    pub fn has_too_many_heavy(&mut self) -> bool {
        let is_so = self.seen.heavy as f64 > LARGE_SHARE * self.seen.all as f64;
        if is_so {
            self.seen = Seen::default();
        }
        is_so
    }

    /// Doubles the sample, if the shadows have room for that.
    pub fn grow(&mut self) {
        let objects: usize = self.rows.iter().map(Row::len).sum();
        let (sample, double) = (self.sample(), self.sample().double());
        if double == sample || self.counted != sample || objects > (self.most as f64 * GROWN) as usize {
            return;
        }
        let most = self.rows.iter().flat_map(Row::residents).max().unwrap_or(0);
        self.warm = self.answered + WARM * most as u64;
        self.endless.grow(double);
        self.selection.sample = double;
        // First the room, so that no object leaves for those that take more of it now.
        self.resize();
        self.review();
    }

    /// Returns the share of the keys whose requests count.
    pub fn counted_share(&self) -> f64 {
        self.counted.share()
    }

    /// Returns the part of the selected objects in shadows that are large.
    fn large_share(&self) -> f64 {
        let (mut all, mut large) = (0_u32, 0_u32);
        for row in &self.rows {
            row.for_each(&mut |key, size| {
                all += u32::from(self.selection.contains(key, size));
                large += u32::from(self.selection.is_large(size));
            });
        }
        f64::from(large) / f64::from(all.max(1))
    }

    /// Removes what is no longer selected, and makes the rest take its part of the room.
    fn review(&mut self) {
        let Self { rows, endless, selection, .. } = self;
        endless.review_all(selection);
        if self.counted.share() > selection.sample.share() {
            self.counted = selection.sample;
        }
        for row in rows {
            let mut objects = Vec::with_capacity(row.len());
            row.for_each(&mut |key, size| objects.push((selection.contains(key, size), key)));
            // First what leaves, so that the rest has room.
            objects.sort_unstable();
            objects.dedup();
            objects.into_iter().for_each(|(_, key)| row.review(key, selection));
        }
        self.resize();
    }
}
