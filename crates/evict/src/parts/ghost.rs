//! Keys of evicted objects, kept for a while: S3-FIFO, 2Q, ARC and others learn from them.
//!
//! A queue of fingerprints and a table from each to its position in the queue: 8 bytes and the note in the one, 6 to 12 in
//! the other. A fingerprint has 32 bits, so that two of a million keys may be confused now and then: then a policy gets a
//! wrong hint, and no client a wrong object.
//!
//! Removal from the middle leaves a gap. Gaps are closed when the queue is full, which is rare enough for an insertion to
//! pay for at most 8 others' moves.

use std::collections::VecDeque;

use crate::index::Index;

/// Keys in the order in which they came, each with a weight and a note `T`.
pub(crate) struct Ghosts<T = ()> {
    /// Oldest first, gaps included. A gap weighs 0, and the index does not lead to it.
    queue: VecDeque<Ghost<T>>,
    /// The number of the queue's first place; numbers wrap.
    first: u32,
    index: Index,
    used: u64,
}

#[derive(Clone, Copy)]
struct Ghost<T> {
    fingerprint: u32,
    weight: u32,
    note: T,
}

impl<T: Copy> Ghosts<T> {
    pub(crate) const fn new() -> Self {
        Self { queue: VecDeque::new(), first: 0, index: Index::new(), used: 0 }
    }

    /// Adds `key`, which is not there, as the newest, after forgetting the oldest until all weigh at most
    /// `bound`. What weighs more than `bound` alone is not remembered. A weight of 0 counts as 1, so that `bound`
    /// also limits how many there are; one above 4 GiB counts as 4 GiB.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, weight: u64, note: T, bound: u64) {
        let fingerprint = fingerprint(key);
        let weight = weight.clamp(1, u32::MAX.into()) as u32;
        let Some(rest) = bound.checked_sub(weight.into()) else { return };
        self.truncate(rest);
        if self.queue.len() == self.queue.capacity() || !self.index.has_room() {
            self.rebuild();
        }
        let place = self.first.wrapping_add(self.queue.len() as u32);
        self.queue.push_back(Ghost { fingerprint, weight, note });
        self.index.insert(hash(fingerprint), place);
        self.used += u64::from(weight);
    }

    /// Forgets `key`; its note, if it was remembered.
    #[inline]
    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        Some(self.forget(key)?.1)
    }

    /// Forgets `key`; its place in the queue and its note, if it was remembered.
    #[inline]
    fn forget(&mut self, key: u64) -> Option<(usize, T)> {
        let fingerprint = fingerprint(key);
        let at = |place: u32| place.wrapping_sub(self.first) as usize;
        let is_key = |place| self.queue[at(place)].fingerprint == fingerprint;
        let place = self.index.take(hash(fingerprint), is_key)?;
        let ghost = &mut self.queue[at(place)];
        self.used -= u64::from(std::mem::take(&mut ghost.weight));
        Some((at(place), ghost.note))
    }

    /// Forgets `key`; how many came after it, of which a few that were forgotten may be missing, if it was
    /// remembered.
    #[inline]
    pub(crate) fn take(&mut self, key: u64) -> Option<usize> {
        let (place, _) = self.forget(key)?;
        Some(self.queue.len() - 1 - place)
    }

    /// Forgets the oldest one.
    #[inline]
    pub(crate) fn pop_oldest(&mut self) -> Option<T> {
        loop {
            let ghost = self.queue.pop_front()?;
            let place = self.first;
            self.first = place.wrapping_add(1);
            if ghost.weight > 0 {
                self.index.remove(hash(ghost.fingerprint), place);
                self.used -= u64::from(ghost.weight);
                return Some(ghost.note);
            }
        }
    }

    /// Forgets the oldest until all weigh at most `bound`.
    #[inline]
    pub(crate) fn truncate(&mut self, bound: u64) {
        while self.used > bound && self.pop_oldest().is_some() {}
    }

    /// The sum of the weights.
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// How many keys are remembered.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Ghost<T>>() + self.index.heap_bytes()
    }

    /// Checks that the index leads to all that are remembered, and the sum of the weights.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let (mut count, mut used) = (0, 0);
        for (at, ghost) in self.queue.iter().enumerate().filter(|(_, ghost)| ghost.weight > 0) {
            let place = self.first.wrapping_add(at as u32);
            if self.index.find(hash(ghost.fingerprint), |other| other == place).is_none() {
                return Err(format!("the index does not lead to the ghost at {place}"));
            }
            count += 1;
            used += u64::from(ghost.weight);
        }
        match (count, used) == (self.len(), self.used) {
            true => Ok(()),
            false => Err(format!("{count} ghosts weigh {used}, {} and {} counted", self.len(), self.used)),
        }
    }

    /// Closes the gaps, and makes room for an eighth more.
    #[cold]
    fn rebuild(&mut self) {
        let len = self.len();
        let mut queue = VecDeque::new();
        queue.reserve_exact(len + len / 8 + 1);
        queue.extend(self.queue.iter().filter(|ghost| ghost.weight > 0));
        self.queue = queue;
        self.first = 0;
        self.index.rebuild(len, (0..).zip(self.queue.iter().map(|ghost| hash(ghost.fingerprint))));
    }
}

#[inline]
fn fingerprint(key: u64) -> u32 {
    (key ^ key >> 32) as u32
}

/// What the index takes for a key: 64 bits that look random.
#[inline]
fn hash(fingerprint: u32) -> u64 {
    u64::from(fingerprint).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same in the fewest words: keys, weights and notes, oldest first.
    #[derive(Default)]
    struct Naive(Vec<(u64, u64, u64)>);

    impl Naive {
        fn remove(&mut self, key: u64) -> Option<u64> {
            let at = self.0.iter().position(|ghost| ghost.0 == key)?;
            Some(self.0.remove(at).2)
        }

        fn insert(&mut self, key: u64, weight: u64, note: u64, bound: u64) {
            let weight = weight.max(1);
            if weight <= bound {
                self.truncate(bound - weight);
                self.0.push((key, weight, note));
            }
        }

        fn truncate(&mut self, bound: u64) {
            while self.used() > bound {
                self.0.remove(0);
            }
        }

        fn used(&self) -> u64 {
            self.0.iter().map(|ghost| ghost.1).sum()
        }
    }

    proptest! {
        #[test]
        fn is_a_queue_with_a_bound(
            ops in prop::collection::vec((0..4, 0..40_u64, 0..9_u64), 0..2_000), bound in 0..60_u64
        ) {
            let mut ghosts = Ghosts::new();
            let mut naive = Naive::default();
            for (note, (op, key, weight)) in (0_u64..).zip(ops) {
                let key = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                match op {
                    0 if weight < 4 => {
                        let after = naive.0.iter().rev().position(|ghost| ghost.0 == key);
                        let taken = ghosts.take(key);
                        prop_assert_eq!(taken.is_some(), naive.remove(key).is_some());
                        prop_assert!(taken >= after);
                    }
                    0 => prop_assert_eq!(ghosts.remove(key), naive.remove(key)),
                    1 if weight == 0 => {
                        prop_assert_eq!(ghosts.pop_oldest(), naive.0.first().map(|ghost| ghost.2));
                        naive.0.drain(..naive.0.len().min(1));
                    }
                    _ => {
                        prop_assert_eq!(ghosts.remove(key), naive.remove(key));
                        ghosts.insert(key, weight, note, bound);
                        naive.insert(key, weight, note, bound);
                    }
                }
                prop_assert_eq!(ghosts.validate(), Ok(()));
                prop_assert_eq!((ghosts.len(), ghosts.used()), (naive.0.len(), naive.used()));
            }
        }
    }

    #[test]
    fn takes_few_bytes_however_long_it_runs() {
        const BOUND: u64 = 50_000;
        let mut ghosts = Ghosts::new();
        for n in 0..20 * BOUND {
            ghosts.insert(crate::spread(n as u32), 1, (), BOUND);
            ghosts.remove(crate::spread(n.saturating_sub(n % 7 * 3_000) as u32));
            let most = 24 * ghosts.len().max(100) as u64;
            assert!(ghosts.heap_bytes() as u64 <= most, "{} bytes for {}", ghosts.heap_bytes(), ghosts.len());
        }
    }

    #[test]
    fn what_is_too_heavy_is_not_remembered_and_costs_no_other() {
        let mut ghosts = Ghosts::new();
        ghosts.insert(1, 5, 'a', 10);
        ghosts.insert(2, 11, 'b', 10);
        ghosts.insert(3, u64::MAX, 'c', u64::MAX);
        assert_eq!(ghosts.used(), 5 + u64::from(u32::MAX));
        assert_eq!((ghosts.remove(1), ghosts.remove(2), ghosts.remove(3)), (Some('a'), None, Some('c')));
    }
}
