//! Keys of recently evicted objects, from which S3-FIFO, 2Q, ARC and other policies learn.
//!
//! A queue of fingerprints and a table from each to its position in the queue: 8 bytes and the note in the queue, 6 to
//! 12 bytes in the table. A fingerprint has 32 bits, so that two of a million keys may occasionally be confused: a
//! policy then gets a wrong hint, but no client gets a wrong object.
//!
//! In a replay, objects are numbered, and the place of each is noted with the object ([`Residents::keep_note`]). This
//! replaces fingerprints and table: there are no hashes, and so no confusion.
//!
//! Removal from the middle leaves a gap. Gaps are closed when the queue is full; this is so rare that an insertion pays
//! for at most 8 moves.

use std::collections::VecDeque;

use crate::index::Index;
use crate::policy::{MOST_NOTE, Object, Residents, Slot};

/// Keys in order of insertion, each with a weight and a note `T`.
pub(crate) struct Ghosts<T = ()> {
    /// Oldest first, gaps included. A gap weighs 0, and has no entry in the index.
    queue: VecDeque<Ghost<T>>,
    /// The number of the first place in the queue; numbers wrap.
    first: u32,
    index: Index,
    /// Whether objects are numbered. Then the place of each is noted with the object, and the index stays empty.
    are_numbered: bool,
    len: usize,
    used: u64,
}

#[derive(Clone, Copy)]
struct Ghost<T> {
    /// The key's fingerprint, or the object's number.
    id: u32,
    weight: u32,
    note: T,
}

/// The identity of a ghost. All calls of one [`Ghosts`] must use the same kind.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    key: u64,
    number: Option<u32>,
}

impl Name {
    /// Returns the name of the object in `slot`.
    #[inline(always)]
    pub(crate) fn of<R: Residents>(slot: Slot, residents: &R) -> Self {
        Self { key: residents.object(slot).key, number: residents.number(slot) }
    }

    /// Returns the name of `new`, which is requested now and is not resident.
    #[inline(always)]
    pub(crate) fn of_newcomer<R: Residents>(new: &Object, residents: &R) -> Self {
        Self { key: new.key, number: residents.number_of_newcomer() }
    }
}

impl From<u64> for Name {
    fn from(key: u64) -> Self {
        Self { key, number: None }
    }
}

impl<T: Copy> Ghosts<T> {
    pub(crate) const fn new() -> Self {
        Self { queue: VecDeque::new(), first: 0, index: Index::new(), are_numbered: false, len: 0, used: 0 }
    }

    /// Adds `name`, which must be absent, as the newest, and forgets the oldest until all weigh at most `bound`. A name
    /// that alone weighs more than `bound` is not remembered. A weight of 0 counts as 1, so that `bound` also limits
    /// the number of names; a weight above 4 GiB counts as 4 GiB.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        name: impl Into<Name>,
        weight: u64,
        note: T,
        bound: u64,
        residents: &impl Residents,
    ) {
        let name = name.into();
        let weight = weight.clamp(1, u32::MAX.into()) as u32;
        let Some(rest) = bound.checked_sub(weight.into()) else { return };
        self.truncate(rest);
        let id = match name.number {
            Some(number) => self.lead_to_number(number, residents),
            None => self.lead_to_key(name.key),
        };
        self.queue.push_back(Ghost { id, weight, note });
        self.len += 1;
        self.used += u64::from(weight);
    }

    /// Makes room for one more, and notes its place with the object numbered `number`.
    #[inline(always)]
    fn lead_to_number<R: Residents>(&mut self, number: u32, residents: &R) -> u32 {
        if self.queue.len() == self.queue.capacity() || self.first + self.queue.len() as u32 > MOST_NOTE {
            self.are_numbered = true;
            self.close_gaps();
            for (place, ghost) in (0..).zip(&self.queue) {
                residents.keep_note(ghost.id, place);
            }
        }
        residents.keep_note(number, self.first + self.queue.len() as u32);
        number
    }

    /// Makes room for one more, and indexes its place by `key`.
    #[inline]
    fn lead_to_key(&mut self, key: u64) -> u32 {
        if self.queue.len() == self.queue.capacity() || !self.index.has_room() {
            self.close_gaps();
            self.index.rebuild(self.len, (0..).zip(self.queue.iter().map(|ghost| hash(ghost.id))));
        }
        let place = self.first.wrapping_add(self.queue.len() as u32);
        let fingerprint = fingerprint(key);
        self.index.insert(hash(fingerprint), place);
        fingerprint
    }

    /// Forgets `name`, which is not resident. Returns its note if it was remembered.
    #[inline(always)]
    pub(crate) fn remove(&mut self, name: impl Into<Name>, residents: &impl Residents) -> Option<T> {
        let name = name.into();
        let at = match name.number {
            Some(number) => self.position_of_number(number, residents)?,
            None => self.take_position(name.key)?,
        };
        let ghost = &mut self.queue[at];
        self.len -= 1;
        self.used -= u64::from(std::mem::take(&mut ghost.weight));
        Some(ghost.note)
    }

    #[inline(always)]
    fn position_of_number<R: Residents>(&self, number: u32, residents: &R) -> Option<usize> {
        // The place of an object without a note, or with an old one, is outside the queue.
        let at = residents.note(number).wrapping_sub(self.first) as usize;
        let ghost = self.queue.get(at)?;
        ((ghost.id == number) & (ghost.weight > 0)).then_some(at)
    }

    #[inline]
    fn take_position(&mut self, key: u64) -> Option<usize> {
        let fingerprint = fingerprint(key);
        let at = |place: u32| place.wrapping_sub(self.first) as usize;
        let is_key = |place| self.queue[at(place)].id == fingerprint;
        self.index.take(hash(fingerprint), is_key).map(at)
    }

    /// Forgets the oldest name.
    #[inline(always)]
    pub(crate) fn pop_oldest(&mut self) -> Option<T> {
        loop {
            let ghost = self.queue.pop_front()?;
            let place = self.first;
            self.first = place.wrapping_add(1);
            if ghost.weight > 0 {
                if !self.are_numbered {
                    self.index.remove(hash(ghost.id), place);
                }
                self.len -= 1;
                self.used -= u64::from(ghost.weight);
                return Some(ghost.note);
            }
        }
    }

    /// Forgets the oldest names until all weigh at most `bound`.
    #[inline(always)]
    pub(crate) fn truncate(&mut self, bound: u64) {
        while self.used > bound && self.pop_oldest().is_some() {}
    }

    /// Returns the sum of the weights.
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the bytes allocated. In a replay, returns the bytes for the same ghosts in a live cache: numbers belong
    /// to the trace.
    pub(crate) fn heap_bytes(&self) -> usize {
        let index = match self.are_numbered {
            true => Index::bytes_for(self.queue.capacity()),
            false => self.index.heap_bytes(),
        };
        self.queue.capacity() * size_of::<Ghost<T>>() + index
    }

    /// Checks the sum of the weights, and that all remembered names can be found.
    pub(crate) fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        let (mut count, mut used) = (0, 0);
        for (at, ghost) in self.queue.iter().enumerate().filter(|(_, ghost)| ghost.weight > 0) {
            let place = self.first.wrapping_add(at as u32);
            let is_found = match self.are_numbered {
                true => residents.note(ghost.id) == place,
                false => self.index.find(hash(ghost.id), |other| other == place).is_some(),
            };
            if !is_found {
                return Err(format!("nothing leads to the ghost at {place}"));
            }
            count += 1;
            used += u64::from(ghost.weight);
        }
        if !self.are_numbered && self.index.len() != count {
            return Err(format!("the index leads to {} ghosts, {count} are there", self.index.len()));
        }
        match (count, used) == (self.len, self.used) {
            true => Ok(()),
            false => Err(format!("{count} ghosts weigh {used}, {} and {} counted", self.len, self.used)),
        }
    }

    /// Closes the gaps, and makes room for an eighth more. Afterwards the places are numbered from 0.
    #[cold]
    fn close_gaps(&mut self) {
        let mut queue = VecDeque::new();
        queue.reserve_exact(self.len + self.len / 8 + 1);
        queue.extend(self.queue.iter().filter(|ghost| ghost.weight > 0));
        self.queue = queue;
        self.first = 0;
    }
}

#[inline]
fn fingerprint(key: u64) -> u32 {
    (key ^ key >> 32) as u32
}

/// Returns the hash of a fingerprint for the index: 64 bits that look random.
#[inline]
fn hash(fingerprint: u32) -> u64 {
    u64::from(fingerprint).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::cell::Cell;

    use super::*;
    use crate::policy::{By, Capacity, NO_NOTE};

    /// Keeps the notes of objects numbered below 40. No object is resident.
    struct Notes([Cell<u32>; 40]);

    impl Notes {
        fn new() -> Self {
            Self([const { Cell::new(NO_NOTE) }; 40])
        }
    }

    impl Residents for Notes {
        fn object(&self, slot: Slot) -> Object {
            panic!("slot {slot} is vacant")
        }

        fn contains(&self, _slot: Slot) -> bool {
            false
        }

        fn len(&self) -> usize {
            0
        }

        fn used(&self) -> u64 {
            0
        }

        fn capacity(&self) -> Capacity {
            Capacity { by: By::Entries, amount: 0 }
        }

        fn now(&self) -> u64 {
            0
        }

        fn keep_note(&self, number: u32, note: u32) {
            self.0[number as usize].set(note);
        }

        fn note(&self, number: u32) -> u32 {
            self.0[number as usize].get()
        }
    }

    /// A minimal model: keys, weights and notes, oldest first.
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
            ops in prop::collection::vec((0..4, 0..40_u64, 0..9_u64), 0..2_000),
            bound in 0..60_u64,
            are_numbered: bool,
        ) {
            let (mut ghosts, notes) = (Ghosts::new(), Notes::new());
            let mut naive = Naive::default();
            for (note, (op, key, weight)) in (0_u64..).zip(ops) {
                let number = are_numbered.then_some(key as u32);
                let key = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let name = Name { key, number };
                match op {
                    0 => prop_assert_eq!(ghosts.remove(name, &notes), naive.remove(key)),
                    1 if weight == 0 => {
                        prop_assert_eq!(ghosts.pop_oldest(), naive.0.first().map(|ghost| ghost.2));
                        naive.0.drain(..naive.0.len().min(1));
                    }
                    _ => {
                        prop_assert_eq!(ghosts.remove(name, &notes), naive.remove(key));
                        ghosts.insert(name, weight, note, bound, &notes);
                        naive.insert(key, weight, note, bound);
                    }
                }
                prop_assert_eq!(ghosts.validate(&notes), Ok(()));
                prop_assert_eq!((ghosts.len, ghosts.used()), (naive.0.len(), naive.used()));
            }
        }
    }

    #[test]
    fn takes_few_bytes_however_long_it_runs() {
        const BOUND: u64 = 50_000;
        let (mut ghosts, notes) = (Ghosts::new(), Notes::new());
        for n in 0..20 * BOUND {
            ghosts.insert(crate::spread(n as u32), 1, (), BOUND, &notes);
            ghosts.remove(crate::spread(n.saturating_sub(n % 7 * 3_000) as u32), &notes);
            let most = 24 * ghosts.len.max(100) as u64;
            assert!(ghosts.heap_bytes() as u64 <= most, "{} bytes for {}", ghosts.heap_bytes(), ghosts.len);
        }
    }

    #[test]
    fn a_ghost_heavier_than_the_limit_is_dropped_and_evicts_no_other() {
        let (mut ghosts, notes) = (Ghosts::new(), Notes::new());
        ghosts.insert(1, 5, 'a', 10, &notes);
        ghosts.insert(2, 11, 'b', 10, &notes);
        ghosts.insert(3, u64::MAX, 'c', u64::MAX, &notes);
        assert_eq!(ghosts.used(), 5 + u64::from(u32::MAX));
        let removed = [1, 2, 3].map(|key| ghosts.remove(key, &notes));
        assert_eq!(removed, [Some('a'), None, Some('c')]);
    }
}
