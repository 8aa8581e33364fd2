//! TinyLFU: admits an object if it was requested more often, recently, than those that it would replace.

use crate::filter::Filter;
use crate::parts::sketch::Sketch;
use crate::policy::{Object, Residents, Slot};

/// Victims examined for one candidate; further victims count as never requested.
const CROWD: usize = 64;

/// Admits an object if it is requested more often than all objects that it would replace together, by the estimate of a
/// [`Sketch`] of the last few thousand requests. An object for which there is room is admitted.
///
/// The rule that a large object has to outweigh all its victims is from Einziger, Eytan, Friedman and Manes,
/// Lightweight robust size aware cache management, 2021.
pub struct Frequency {
    sketch: Sketch,
}

impl Filter for Frequency {
    type Params = ();

    const ABOUT: &'static str = "admits objects that were requested more often than those to be evicted";

    const COST: &'static str = "O(victims)";

    fn new(_params: (), _seed: u64) -> Self {
        Self { sketch: Sketch::new() }
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.sketch.record(residents.object(slot).key);
    }

    fn admit<R: Residents>(
        &mut self,
        new: &Object,
        residents: &R,
        victims: impl Iterator<Item = Object>,
    ) -> bool {
        self.sketch.fit(residents.len());
        self.sketch.record(new.key);
        outweighs(&self.sketch, new.key, victims)
    }

    fn heap_bytes(&self) -> usize {
        self.sketch.heap_bytes()
    }
}

/// Whether `candidate` was requested more often than `victims` together. True if there are no victims.
#[inline]
pub(crate) fn outweighs(sketch: &Sketch, candidate: u64, victims: impl Iterator<Item = Object>) -> bool {
    let mut victims = victims.take(CROWD).peekable();
    if victims.peek().is_none() {
        return true;
    }
    let mut lead = sketch.estimate(candidate);
    for victim in victims {
        let frequency = sketch.estimate(victim.key);
        if lead <= frequency {
            return false;
        }
        lead -= frequency;
    }
    true
}
