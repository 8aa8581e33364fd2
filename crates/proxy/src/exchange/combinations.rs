//! The settings for combinations of rules, which hits borrow without a lock or a count of references.
//!
//! Few combinations occur, and the first to occur are found first: they are in a small table, and further ones in larger
//! tables behind it. What is in a table stays there.

use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use larder_rules::Numbers;

/// The places of the first table; each further one has four times as many.
const FIRST: usize = 16;
/// The places of the last table. Combinations without a place are combined for each request.
const LAST: usize = 1_024;
/// The places of a table where a combination may be.
const PROBES: usize = 4;

/// A place for a combination: its numbers, and its settings.
type Place<T> = OnceLock<(Numbers, Arc<T>)>;

/// A table of the settings `T` for combinations, and the larger one behind it.
#[derive(Debug)]
pub(super) struct Combinations<T> {
    places: Box<[Place<T>]>,
    behind: OnceLock<Box<Self>>,
}

impl<T> Default for Combinations<T> {
    fn default() -> Self {
        Self::of(FIRST)
    }
}

impl<T> Combinations<T> {
    fn of(places: usize) -> Self {
        Self { places: (0..places).map(|_| OnceLock::new()).collect(), behind: OnceLock::new() }
    }

    /// Returns the settings for the rules of these numbers, which `combine` makes if they occur for the first time.
    /// Errors: the settings, if there is no place to keep them.
    #[inline]
    pub(super) fn get(&self, numbers: &Numbers, combine: impl Fn() -> Arc<T>) -> Result<&Arc<T>, Arc<T>> {
        let hash = FixedState::default().hash_one(numbers) as usize;
        let mut table = self;
        loop {
            for at in hash..hash + PROBES {
                let place = &table.places[at % table.places.len()];
                let (own, settings) = place.get_or_init(|| (numbers.clone(), combine()));
                if own == numbers {
                    return Ok(settings);
                }
            }
            if table.places.len() >= LAST {
                return Err(combine());
            }
            table = table.behind.get_or_init(|| Box::new(Self::of(4 * table.places.len())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn few_combinations_are_made_once_and_any_number_is_right() {
        let (table, made) = (Combinations::default(), Cell::new(0));
        let ask = |number: u16| {
            let numbers = Numbers::from_slice(&[number, number + 1]);
            let combine = || {
                made.set(made.get() + 1);
                Arc::new(numbers.clone())
            };
            let is_right = |found: &Arc<Numbers>| **found == numbers;
            assert!(table.get(&numbers, combine).map_or_else(|own| is_right(&own), is_right));
        };
        for _ in 0..3 {
            (0..300).for_each(ask);
            assert_eq!(made.get(), 300);
        }
        (0..10_000).for_each(ask);
    }
}
