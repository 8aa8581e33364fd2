//! Validation histories of URLs, for sites whose heuristic lifetimes adapt to them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_semantics::history::History;

/// The number of slots for histories. If two URLs share a slot, it holds the later one.
const PLACES: usize = 1 << 14;

/// The histories. They take 128 KiB, allocated with the first one.
#[derive(Default)]
pub struct Histories(OnceLock<Box<[AtomicU64]>>);

impl Histories {
    /// Returns the history of the URL whose key has this hash.
    pub(crate) fn of(&self, hash: u64) -> History {
        let place = self.0.get().map(|places| places[hash as usize % PLACES].load(Ordering::Relaxed));
        match place {
            Some(word) if word != 0 && word >> 40 == hash >> 40 => {
                History { streak: (word >> 32) as u8 as i8, since: word as u32 }
            }
            _ => History::default(),
        }
    }

    /// Iterates over the slots in use: their number and content.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let places = self.0.get().into_iter().flatten().map(|place| place.load(Ordering::Relaxed));
        (0..).zip(places).filter(|(_, word)| *word != 0)
    }

    /// Restores a slot of the process before this one.
    pub fn restore(&self, (place, word): (u64, u64)) {
        self.places()[place as usize % PLACES].store(word, Ordering::Relaxed);
    }

    fn places(&self) -> &[AtomicU64] {
        self.0.get_or_init(|| (0..PLACES).map(|_| AtomicU64::default()).collect())
    }

    /// Stores the history of the URL whose key has this hash.
    pub(crate) fn note(&self, hash: u64, history: History) {
        let word = (hash >> 40 << 40) | u64::from(history.streak as u8) << 32 | u64::from(history.since);
        self.places()[hash as usize % PLACES].store(word, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_url_has_its_own_until_another_takes_its_place() {
        let histories = Histories::default();
        let (one, other) = (0x0123_4567_89ab_cdef, 0x0123_5567_89ab_cdef);
        assert_eq!(histories.of(one), History::default());
        for streak in -4..=4 {
            let history = History { streak, since: u32::MAX - 7 };
            histories.note(one, history);
            assert_eq!(histories.of(one), history);
        }
        assert_eq!(histories.of(other), History::default());
        histories.note(other, History { streak: 1, since: 5 });
        assert_eq!(histories.of(one), History::default());
    }
}
