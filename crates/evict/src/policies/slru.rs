//! Segmented LRU: an object moves up a segment with each hit, and down when others need its place.

use crate::params::{params, read_count};
use crate::parts::by_slot::BySlot;
use crate::parts::list::Links;
use crate::parts::segment::{Segment, validate_all};
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Equal segments, each an LRU queue. A hit moves an object to the next higher segment, and objects there move down to
/// make room; victims come from the lowest segment. While the cache fills, a new object enters the lowest segment that
/// has room for it.
///
/// An object larger than a segment does not move up: a hit makes it the newest of its segment. The lowest segment may
/// hold more than its share.
pub struct Slru {
    links: Links,
    /// Lowest first.
    segments: Vec<Segment>,
    levels: BySlot<u8>,
}

params! {
    /// The parameters of [`Slru`].
    SlruParams {
        segments: u32 = 4, |value| read_count(value, 1..=64), "number of equal segments: 1 to 64";
    }
}

impl Slru {
    fn share<R: Residents>(&self, residents: &R) -> u64 {
        residents.capacity().amount / self.segments.len() as u64
    }

    #[inline]
    fn put<R: Residents>(&mut self, level: usize, slot: Slot, residents: &R) {
        self.levels[slot] = level as u8;
        self.segments[level].push_front(&mut self.links, slot, residents);
    }

    /// Moves objects down until no segment up to `level`, except the lowest, holds more than `share`.
    #[inline]
    fn sink<R: Residents>(&mut self, level: usize, share: u64, residents: &R) {
        for level in (1..=level).rev() {
            while self.segments[level].used() > share {
                match self.segments[level].pop_back(&mut self.links, residents) {
                    Some(slot) => self.put(level - 1, slot, residents),
                    None => break,
                }
            }
        }
    }
}

impl Policy for Slru {
    type Params = SlruParams;

    const ABOUT: &'static str =
        "evicts by LRU from the lowest of several segments; a hit moves an object one segment up";
    const COST: &'static str = "O(segments)";

    fn new(_capacity: Capacity, params: SlruParams, _seed: u64) -> Self {
        let segments = (0..params.segments).map(|_| Segment::new()).collect();
        Self { links: Links::new(), segments, levels: BySlot::new() }
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let most = self.share(residents).checked_sub(residents.weight(slot));
        let has_room = |segment: &Segment| most.is_some_and(|most| segment.used() <= most);
        let level = self.segments.iter().position(has_room).unwrap_or(0);
        self.levels.put(slot, 0);
        self.put(level, slot, residents);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let level = usize::from(self.levels[slot]);
        let share = self.share(residents);
        if level + 1 == self.segments.len() || residents.weight(slot) > share {
            self.segments[level].move_to_front(&mut self.links, slot);
            return;
        }
        self.segments[level].remove(&mut self.links, slot, residents);
        self.put(level + 1, slot, residents);
        self.sink(level + 1, share, residents);
    }

    #[inline(always)]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        self.segments.iter_mut().find_map(|segment| segment.pop_back(&mut self.links, residents))
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.segments[usize::from(self.levels[slot])].remove(&mut self.links, slot, residents);
    }

    fn heap_bytes(&self) -> usize {
        let segments = self.segments.capacity() * size_of::<Segment>();
        self.links.heap_bytes() + self.levels.heap_bytes() + segments
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        validate_all(&self.segments, &self.links, residents, |slot| usize::from(self.levels[slot]))
    }
}
