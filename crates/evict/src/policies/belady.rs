//! Belady's policy: evicts by the next request of each object, which it takes from the future of the trace. It is the
//! bound for objects of one size.

use crate::parts::priority::{ByPriority, Priority};
use crate::policy::{Residents, Slot};

/// Evicts the object whose next request is the latest, or never comes, and, among equals, the least recently requested.
///
/// If all sizes are equal, no policy that stores every requested object has more hits. If sizes differ, this is no
/// bound.
pub type Belady = ByPriority<Nearness>;

/// The priority of [`Belady`].
pub struct Nearness;

impl Priority for Nearness {
    const ABOUT: &'static str =
        "evicts the object whose next request is the latest: a bound, since it uses future requests";
    const OFFLINE: bool = true;

    #[inline]
    fn of<R: Residents>(slot: Slot, residents: &R) -> u64 {
        u64::MAX - residents.next(slot)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{By, Capacity, Replay, Request, UnitAttributes};

    /// Returns the most hits of any sequence of victims, by trying all of them.
    fn most_hits(ids: &[u32], capacity: usize, cache: &[u32]) -> usize {
        let Some((id, rest)) = ids.split_first() else { return 0 };
        if cache.contains(id) {
            return 1 + most_hits(rest, capacity, cache);
        }
        let with = |kept: &[u32]| most_hits(rest, capacity, &[kept, &[*id]].concat());
        if cache.len() < capacity {
            return with(cache);
        }
        let without =
            |victim: &u32| with(&cache.iter().copied().filter(|id| id != victim).collect::<Vec<_>>());
        cache.iter().map(without).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_choice_of_victims_has_more_hits(ids in prop::collection::vec(0..6_u32, 0..14), amount in 1..4_u64) {
            let capacity = Capacity { by: By::Entries, amount };
            let mut replay = Replay::<Belady, UnitAttributes>::of_alike(capacity, 6, (), 1);
            let is_hit = |(at, &id): (usize, &u32)| {
                let next = ids[at + 1..].iter().position(|&other| other == id);
                let next = next.map_or(u64::MAX, |ahead| (at + 2 + ahead) as u64);
                replay.request(Request { id, size: 1, cost: 0, next })
            };
            let hits = ids.iter().enumerate().map(is_hit).filter(|&is_hit| is_hit).count();
            prop_assert_eq!(hits, most_hits(&ids, amount as usize, &[]));
        }
    }
}
