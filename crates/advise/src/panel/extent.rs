//! How many keys shadows see: as many as they have room and time for.

use super::Panel;
use crate::heavy::Heavy;
use crate::row::Row;

/// The requests between two checks of the number of objects.
const CHECKED: u64 = 64;
/// The part of the most objects at which there is room for a larger sample.
const GROWN: f64 = 0.4;
/// The requests after which shadows know the keys that the sample has gained, as a multiple of the objects in the largest.
const WARM: u64 = 8;
/// The part of the objects in shadows, and of their requests, that large ones may be, and heavy keys: they are in every sample.
const LARGE_SHARE: f64 = 1.0 / 3.0;
/// The part of the requests seen below which it does not help to see fewer of the sample.
const SMALL: f64 = 1.0 / 8.0;

/// The requests seen since the selection became smaller.
#[derive(Default)]
pub(super) struct ExtentCounts {
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
            self.endless.counted = self.endless.sample;
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

    /// Halves the sample, or leaves out more of the large objects if they are too large a part of what shadows have or see. The sample
    /// remains if nearly all requests seen are for keys beside it.
    pub fn thin(&mut self) {
        let ExtentCounts { all, large, heavy } = std::mem::take(&mut self.seen);
        let is_part = self.sample().share() < 1.0;
        let mut is_less = is_part && large as f64 > LARGE_SHARE * all as f64;
        if is_less {
            self.selection.raise_large();
        } else if is_part && ((all - large - heavy) as f64) < SMALL * all as f64 {
            return;
        }
        while self.large_share() > LARGE_SHARE {
            self.selection.raise_large();
            is_less = is_part;
        }
        if !is_less {
            self.selection.sample = self.sample().half();
        }
        self.review();
    }

    /// Makes fewer keys `heavy` if the requests for them are too large a part of those that shadows see. Returns whether it did.
    pub fn narrow_heavy(&mut self, heavy: &mut Heavy) -> bool {
        let is_too_much = self.seen.heavy as f64 > LARGE_SHARE * self.seen.all as f64;
        let is_less = is_too_much && heavy.narrow();
        if is_less {
            self.seen = ExtentCounts::default();
        }
        is_less
    }

    /// Doubles the sample if it has less than this share of the keys and the shadows have room for that, and that of the shadow without
    /// a limit.
    pub fn grow(&mut self, most: f64) {
        let sample = self.sample();
        if self.counted != sample {
            return;
        }
        let objects: usize = self.rows.iter().map(Row::len).sum();
        let has_room = objects <= (self.most as f64 * GROWN) as usize;
        let next = if has_room && sample.share() < most { sample.double() } else { sample };
        if !self.endless.grow(next) && next == sample {
            return;
        }
        let most = self.rows.iter().flat_map(Row::residents).max().unwrap_or(0);
        self.warm = self.answered + WARM * most as u64;
        if next != sample {
            self.selection.sample = next;
            // First the room, so that no object leaves for those that take more of it now.
            self.resize();
            self.review();
        }
    }

    /// Returns the share of the keys whose requests count.
    pub fn counted_share(&self) -> f64 {
        self.counted.share()
    }

    /// Returns the part of the selected objects in shadows that are large.
    fn large_share(&self) -> f64 {
        let (mut all, mut large) = (0_u32, 0_u32);
        for row in &self.rows {
            row.for_each(&mut |key, size, _| {
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
            let mut objects = Vec::new();
            row.for_each(&mut |key, size, part| {
                let stays = selection.contains(key, size);
                if !stays || part != selection.part(key, size) {
                    objects.push((stays, key));
                }
            });
            // First what leaves, so that the rest has room.
            objects.sort_unstable();
            objects.dedup();
            objects.into_iter().for_each(|(_, key)| row.review(key, selection));
        }
        self.resize();
    }
}
