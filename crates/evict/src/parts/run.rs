//! Entries added in ascending order: a queue that supports removal of any entry.
//!
//! An entry keeps its number while others leave. Removal from the middle leaves a gap; gaps are closed when the queue
//! is full or half of it is gaps. This is so rare that a change pays for at most 8 moves.

use std::collections::VecDeque;

/// The mark of a gap.
const GAP: u128 = u128::MAX;

/// The number of gaps that are tolerated.
const FEW: usize = 32;

/// The mask of a number's bits; numbers wrap.
const MASK: u32 = u32::MAX >> 1;

/// The queue. Its first and last entries are never gaps.
pub(crate) struct Run {
    entries: VecDeque<u128>,
    /// The number of the first entry.
    first: u32,
    len: usize,
}

impl Run {
    pub(crate) const fn new() -> Self {
        Self { entries: VecDeque::new(), first: 0, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the lowest entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<u128> {
        self.entries.front().copied()
    }

    /// Whether `entry` is above all others, so that it can be pushed.
    #[inline]
    pub(crate) fn takes(&self, entry: u128) -> bool {
        self.entries.back().is_none_or(|&last| last < entry)
    }

    /// Adds `entry`, which must be above all others. Returns its number; `moved` is called for each entry whose number
    /// changes.
    #[inline]
    pub(crate) fn push(&mut self, entry: u128, moved: impl FnMut(u128, u32)) -> u32 {
        if self.entries.len() == self.entries.capacity() {
            self.close_gaps(moved);
        }
        let number = self.first.wrapping_add(self.entries.len() as u32) & MASK;
        self.entries.push_back(entry);
        self.len += 1;
        number
    }

    /// Removes the lowest entry.
    #[inline]
    pub(crate) fn pop(&mut self) {
        if self.entries.pop_front().is_some() {
            self.first = self.first.wrapping_add(1) & MASK;
            self.len -= 1;
            self.trim_front();
        }
    }

    /// Returns the entry with `number`, which must be present.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<u128> {
        self.entries.get(self.at(number)).copied()
    }

    /// Removes the entry with `number`, which must be present; `moved` is called for each entry whose number changes.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32, moved: impl FnMut(u128, u32)) {
        let at = self.at(number);
        let Some(entry) = self.entries.get_mut(at) else { return };
        *entry = GAP;
        self.len -= 1;
        self.trim_front();
        while self.entries.back() == Some(&GAP) {
            self.entries.pop_back();
        }
        if self.entries.len() > 2 * self.len + FEW {
            self.close_gaps(moved);
        }
    }

    /// Returns every entry in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u128> {
        self.entries.iter().copied().filter(|&entry| entry != GAP)
    }

    /// Removes and returns all entries.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = u128> {
        self.len = 0;
        self.entries.drain(..).filter(|&entry| entry != GAP)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u128>()
    }

    #[inline]
    fn at(&self, number: u32) -> usize {
        (number.wrapping_sub(self.first) & MASK) as usize
    }

    #[inline]
    fn trim_front(&mut self) {
        while self.entries.front() == Some(&GAP) {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1) & MASK;
        }
    }

    #[cold]
    fn close_gaps(&mut self, mut moved: impl FnMut(u128, u32)) {
        let mut entries = VecDeque::new();
        entries.reserve_exact(self.len + self.len / 8 + 1);
        entries.extend(self.iter());
        (self.entries, self.first) = (entries, 0);
        (0..).zip(&self.entries).for_each(|(number, &entry)| moved(entry, number));
    }
}
