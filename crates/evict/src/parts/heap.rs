//! Resident slots by priority, the lowest first: a heap with the position of each slot.
//!
//! Equal priorities are ordered by least recent touch, which is a push or an update. An entry is one integer of 128
//! bits, with the priority above the touch above the slot, so that a comparison takes no branches, and the four
//! children of an entry fill a cache line. This takes 20 bytes for each object.
//!
//! An entry above all earlier ones does not need the heap: it may wait in a [`Run`], and the lower of the two first
//! entries leaves first. If objects of one size are ranked by worth and age, all new ones enter the run, and most leave
//! from there. Heap and run both keep their allocated room, so a heap has a run only on request.

use crate::parts::by_slot::BySlot;
use crate::parts::run::Run;
use crate::policy::{Residents, Slot};

const CHILDREN: usize = 4;

/// By slot: the position of its entry in the heap or, with [`APART`], its number in a [`Run`].
pub(crate) type Places = BySlot<u32>;

/// The mark of a place in a run.
pub(crate) const APART: u32 = 1 << 31;

/// The heap. Priorities are integers; [`ascending`] converts other numbers.
pub(crate) struct Heap {
    entries: Vec<u128>,
    run: Run,
    has_run: bool,
    places: Places,
    /// Touches so far. The count wraps after 2^32, and then equal priorities are in a wrong order for a while; there is
    /// no other effect.
    touches: u32,
}

impl Heap {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), run: Run::new(), has_run: false, places: BySlot::new(), touches: 0 }
    }

    /// Returns a heap with a run.
    pub(crate) fn with_run() -> Self {
        Self { has_run: true, ..Self::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.run.len()
    }

    /// Returns the places. A caller may use those of slots that are absent from the heap.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the places for changes.
    pub(crate) fn places_mut(&mut self) -> &mut Places {
        &mut self.places
    }

    /// Adds `slot`, which must be absent.
    #[inline]
    pub(crate) fn push(&mut self, slot: Slot, priority: u64) {
        let entry = self.touch(slot, priority);
        if self.has_run && self.run.takes(entry) {
            let places = &mut self.places;
            let number = self.run.push(entry, |entry, number| places[slot_of(entry)] = number | APART);
            self.places.put(slot, number | APART);
            return;
        }
        self.places.put(slot, 0);
        self.add(entry);
    }

    #[inline]
    fn remove_from_run(&mut self, place: u32) {
        let places = &mut self.places;
        self.run.remove(place & !APART, |entry, number| places[slot_of(entry)] = number | APART);
    }

    #[inline]
    fn add(&mut self, entry: u128) {
        let len = self.entries.len();
        if len == self.entries.capacity() {
            self.entries.reserve_exact(1 + len / 8);
        }
        self.entries.push(entry);
        self.raise(len, entry);
    }

    /// Changes the priority of `slot`, which must be present.
    #[inline]
    pub(crate) fn update(&mut self, slot: Slot, priority: u64) {
        let entry = self.touch(slot, priority);
        let place = self.places[slot];
        if place & APART != 0 {
            self.remove_from_run(place);
            return self.add(entry);
        }
        let at = place as usize;
        if entry < self.entries[at] { self.raise(at, entry) } else { self.sink(at, entry) }
    }

    /// Removes and returns the slot with the lowest priority, and that priority.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Slot, u64)> {
        let first = match (self.entries.first(), self.run.first()) {
            (None, None) => return None,
            (Some(&first), run) if run.is_none_or(|run| first < run) => {
                self.take(0);
                first
            }
            (_, run) => {
                self.run.pop();
                run?
            }
        };
        Some((slot_of(first), priority_of(first)))
    }

    /// Returns the slot with the lowest priority, and that priority.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Slot, u64)> {
        let first = self.entries.first().copied().into_iter().chain(self.run.first()).min()?;
        Some((slot_of(first), priority_of(first)))
    }

    /// Returns every slot, in no particular order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.entries.iter().copied().chain(self.run.iter()).map(slot_of)
    }

    /// Changes the priority of every slot, in time proportional to their number; equals keep their order.
    pub(crate) fn rerank(&mut self, priority: impl Fn(Slot) -> u64) {
        self.entries.extend(self.run.drain());
        for entry in &mut self.entries {
            *entry = u128::from(priority(slot_of(*entry))) << 64 | *entry & u128::from(u64::MAX);
        }
        for at in (0..self.entries.len()).rev() {
            self.sink(at, self.entries[at]);
        }
    }

    /// Removes `slot`, which must be present.
    pub(crate) fn remove(&mut self, slot: Slot) {
        match self.places[slot] {
            place if place & APART != 0 => self.remove_from_run(place),
            place => self.take(place as usize),
        }
    }

    /// Passes the slots with a priority of at most `limit` to `see`, in no particular order, until `see` returns
    /// `false`. Examines at most four times as many entries as it passes on, not counting gaps in the run.
    #[inline]
    pub(crate) fn show_lowest(&self, limit: u64, mut see: impl FnMut(Slot) -> bool) {
        let mut run = self.run.iter().take_while(|&entry| priority_of(entry) <= limit);
        let _goes_on = run.all(|entry| see(slot_of(entry))) && self.show_from(0, limit, &mut see);
    }

    fn show_from(&self, at: usize, limit: u64, see: &mut impl FnMut(Slot) -> bool) -> bool {
        match self.entries.get(at) {
            Some(&entry) if priority_of(entry) <= limit => {
                let first = at * CHILDREN + 1;
                see(slot_of(entry))
                    && (first..first + CHILDREN).all(|child| self.show_from(child, limit, see))
            }
            _ => true,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<u128>();
        entries + self.run.heap_bytes() + self.places.heap_bytes()
    }

    /// Checks that no entry is lower than its parent, and that the heap holds every resident once.
    pub(crate) fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.validate_but(0, residents)
    }

    /// Checks the heap if it lacks `others` of the residents.
    pub(crate) fn validate_but<R: Residents>(&self, others: usize, residents: &R) -> Result<(), String> {
        for (at, &entry) in self.entries.iter().enumerate() {
            let slot = slot_of(entry);
            if self.places.get(slot) != Some(&(at as u32)) {
                return Err(format!(
                    "slot {slot} stands at {at} and is sought at {:?}",
                    self.places.get(slot)
                ));
            }
            if !residents.contains(slot) {
                return Err(format!("slot {slot} is ranked and not resident"));
            }
            if at > 0 && entry < self.entries[parent(at)] {
                return Err(format!("slot {slot} at {at} is lower than its parent"));
            }
        }
        self.validate_run(residents)?;
        match self.len() + others == residents.len() {
            true => Ok(()),
            false => Err(format!("{} slots ranked of {} residents", self.len() + others, residents.len())),
        }
    }

    fn validate_run<R: Residents>(&self, residents: &R) -> Result<(), String> {
        if !self.run.iter().is_sorted() || self.run.iter().count() != self.run.len() {
            return Err(format!("the run does not ascend, or has not {} entries", self.run.len()));
        }
        let is_found = |entry| {
            let place = self.places.get(slot_of(entry)).filter(|&&place| place & APART != 0);
            place.is_some_and(|place| self.run.get(place & !APART) == Some(entry))
        };
        match self.run.iter().find(|&entry| !is_found(entry) || !residents.contains(slot_of(entry))) {
            Some(entry) => Err(format!("slot {} is in the run and not found there", slot_of(entry))),
            None => Ok(()),
        }
    }

    #[inline]
    fn touch(&mut self, slot: Slot, priority: u64) -> u128 {
        self.touches = self.touches.wrapping_add(1);
        u128::from(priority) << 64 | u128::from(self.touches) << 32 | u128::from(slot)
    }

    #[inline]
    fn take(&mut self, at: usize) {
        let Some(last) = self.entries.pop() else { return };
        if at == self.entries.len() {
            return;
        }
        if last < self.entries[at] { self.raise(at, last) } else { self.sink(at, last) }
    }

    /// Places `entry` at `at` or above, and moves higher entries down.
    #[inline]
    fn raise(&mut self, mut at: usize, entry: u128) {
        while at > 0 && entry < self.entries[parent(at)] {
            self.put(at, self.entries[parent(at)]);
            at = parent(at);
        }
        self.put(at, entry);
    }

    /// Places `entry` at `at` or below, and moves the lowest children up.
    #[inline]
    fn sink(&mut self, mut at: usize, entry: u128) {
        while let Some(child) = self.lowest_child(at)
            && self.entries[child] < entry
        {
            self.put(at, self.entries[child]);
            at = child;
        }
        self.put(at, entry);
    }

    #[inline]
    fn lowest_child(&self, at: usize) -> Option<usize> {
        let first = at * CHILDREN + 1;
        let lower = |a: usize, b: usize| if self.entries[b] < self.entries[a] { b } else { a };
        if first + CHILDREN <= self.entries.len() {
            return Some(lower(lower(first, first + 1), lower(first + 2, first + 3)));
        }
        (first..self.entries.len()).reduce(lower)
    }

    #[inline]
    fn put(&mut self, at: usize, entry: u128) {
        self.entries[at] = entry;
        self.places[slot_of(entry)] = at as u32;
    }
}

/// Returns an integer with the same order as `number`, which must not be negative or NaN.
#[inline]
pub(crate) fn ascending(number: f64) -> u64 {
    debug_assert!(number >= 0.0, "{number} has no place");
    number.to_bits()
}

#[inline]
fn parent(at: usize) -> usize {
    (at - 1) / CHILDREN
}

#[inline]
fn slot_of(entry: u128) -> Slot {
    entry as Slot
}

#[inline]
fn priority_of(entry: u128) -> u64 {
    (entry >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(heap: &mut Heap) -> Vec<(Slot, u64)> {
        std::iter::from_fn(|| heap.pop()).collect()
    }

    #[test]
    fn pops_in_order_of_priority() {
        let mut heap = Heap::new();
        let priorities: Vec<u64> = (0..1_000).map(|slot| slot * 7_919 % 1_009).collect();
        (0..).zip(&priorities).for_each(|(slot, &priority)| heap.push(slot, priority));
        let mut expected: Vec<_> = (0..).zip(priorities).collect();
        expected.sort_by_key(|&(_, priority)| priority);
        assert_eq!(drain(&mut heap), expected);
    }

    #[test]
    fn removals_from_a_run_of_the_heap_keep_the_order_of_others() {
        let mut heap = Heap::with_run();
        for first in (0..1_000).step_by(20) {
            (first..first + 20).for_each(|slot| heap.push(slot, u64::from(slot)));
            heap.remove(first + 3);
            heap.update(first + 7, 5_000 + u64::from(first));
            heap.remove(first + 19);
        }
        let low = (0..1_000).filter(|slot| ![3, 7, 19].contains(&(slot % 20)));
        let high = (0..1_000).step_by(20).map(|first| (first + 7, 5_000 + u64::from(first)));
        assert_eq!(heap.len(), 900);
        assert_eq!(drain(&mut heap), Vec::from_iter(low.map(|slot| (slot, u64::from(slot))).chain(high)));
    }

    #[test]
    fn equals_go_by_least_recent_touch() {
        let mut heap = Heap::new();
        (0..6).for_each(|slot| heap.push(slot, 5));
        heap.update(0, 5);
        heap.update(2, 9);
        heap.update(2, 5);
        heap.update(4, 1);
        heap.remove(3);
        assert_eq!(drain(&mut heap), [(4, 1), (1, 5), (5, 5), (0, 5), (2, 5)]);
    }

    #[test]
    fn shows_what_is_low_until_enough_was_seen() {
        let mut heap = Heap::new();
        (0..100).for_each(|slot| heap.push(slot, u64::from(slot * 37 % 100)));
        let shown = |limit, most: usize| {
            let mut priorities = Vec::new();
            heap.show_lowest(limit, |slot| {
                priorities.push(slot * 37 % 100);
                priorities.len() < most
            });
            priorities.sort_unstable();
            priorities
        };
        assert_eq!(shown(9, 100), Vec::from_iter(0..=9));
        assert_eq!(shown(1_000, 1_000), Vec::from_iter(0..100));
        assert_eq!(shown(50, 7).len(), 7);
    }

    #[test]
    fn other_priorities_make_another_order() {
        let mut heap = Heap::new();
        (0..1_000).for_each(|slot| heap.push(slot, 7));
        heap.update(500, 8);
        heap.rerank(|slot| u64::from(slot) % 2);
        assert_eq!(heap.first(), Some((0, 0)));
        let even = (0..1_000).step_by(2).filter(|slot| *slot != 500).chain([500]).map(|slot| (slot, 0));
        let odd = (1..1_000).step_by(2).map(|slot| (slot, 1));
        assert_eq!(drain(&mut heap), Vec::from_iter(even.chain(odd)));
    }

    #[test]
    fn numbers_keep_their_order() {
        let numbers = [0.0, f64::MIN_POSITIVE, 0.1, 1.0, 1.0 + f64::EPSILON, 1e300, f64::INFINITY];
        assert!(numbers.map(ascending).is_sorted_by(|a, b| a < b));
    }
}
