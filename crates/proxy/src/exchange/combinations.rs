//! The settings for combinations of rules, which hits borrow without a lock or a count of references.
//!
//! Few combinations occur, and the first to occur are found first: they are in a small table, and further ones in larger
//! tables behind it. What is in a table stays there.

use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use larder_rules::Numbers;

use super::rulebook::{Ruling, RulingRef};

/// The places of the first table; each further one has four times as many.
const FIRST: usize = 16;
/// The places of the last table. Combinations without a place are combined for each request.
const LAST: usize = 1_024;
/// The places of a table where a combination may be.
const PROBES: usize = 4;

/// A place for a combination: its numbers, and its settings.
type Place = OnceLock<(Numbers, Arc<Ruling>)>;

/// A table of combinations, and the larger one behind it.
#[derive(Debug)]
pub(super) struct Combinations {
    places: Box<[Place]>,
    behind: OnceLock<Box<Combinations>>,
}

impl Default for Combinations {
    fn default() -> Self {
        Self::of(FIRST)
    }
}

impl Combinations {
    fn of(places: usize) -> Self {
        Self { places: (0..places).map(|_| OnceLock::new()).collect(), behind: OnceLock::new() }
    }

    /// Returns the settings for the rules of these numbers, which `combine` makes if they occur for the first time.
    #[inline]
    pub(super) fn get(&self, numbers: &Numbers, combine: impl Fn() -> Arc<Ruling>) -> RulingRef<'_> {
        let hash = FixedState::default().hash_one(numbers) as usize;
        let mut table = self;
        loop {
            for at in hash..hash + PROBES {
                let place = &table.places[at % table.places.len()];
                let (own, ruling) = place.get_or_init(|| (numbers.clone(), combine()));
                if own == numbers {
                    return RulingRef::Kept(ruling);
                }
            }
            if table.places.len() >= LAST {
                return RulingRef::Shared(combine());
            }
            table = table.behind.get_or_init(|| Box::new(Self::of(4 * table.places.len())));
        }
    }
}
