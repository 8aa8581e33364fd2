//! The simulation of a live run's requests: for each, whether it is a hit.

use larder_evict::{AnyPolicy, Capacity, Replay, Shape, Spec};

use larder_lab::trace::Trace;

/// Returns for each request of `trace` whether it is a hit in a cache of `capacity` under `spec`.
pub(crate) fn outcomes(trace: &Trace, spec: &Spec, capacity: Capacity, seed: u64) -> Vec<bool> {
    // A live cache stores every object's size and cost, even if all are equal.
    let shape = Shape { sized: true, costed: true, ..trace.shape() };
    let mut cache = Replay::<AnyPolicy>::new(capacity, shape, spec.clone(), seed);
    (0..trace.len()).map(|at| cache.request(trace.request(at))).collect()
}

/// Returns the share of `outcomes` that are true.
pub(crate) fn share(outcomes: &[bool]) -> f64 {
    let hits = outcomes.iter().filter(|is_hit| **is_hit).count();
    larder_lab::replay::ratio(hits as f64, outcomes.len() as f64)
}

#[cfg(test)]
mod tests {
    use larder_evict::By;

    use super::*;
    use larder_lab::trace::{Builder, Record};

    #[test]
    fn fifo_misses_more_with_more_room_on_beladys_sequence() {
        let mut builder = Builder::default();
        for key in [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5] {
            builder.push_number(Record { key, time: 0, size: 1, cost: 0 }).unwrap();
        }
        let (trace, fifo) = (builder.finish(), Spec::parse("fifo").unwrap());
        let misses = |amount| {
            let outcomes = outcomes(&trace, &fifo, Capacity { by: By::Entries, amount }, 1);
            outcomes.iter().filter(|is_hit| !**is_hit).count()
        };
        assert_eq!((misses(3), misses(4)), (9, 10));
    }
}
