//! The eviction queue of RAND in the seed report's two data structures: a vector, which moves all entries behind the
//! evicted one, and an indexed queue, in which the last entry takes its place. The proxy is not involved.

use std::hint::black_box;

use larder_lab::workload::Random;
use larder_load::spent_by_thread as spent;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::seed;
use crate::findings::Finding;
use crate::size::Size;
use crate::{Bench, Bound, ClaimKind, Halt, Journal, Samples};

const VECTOR: &str = "vector";
const INDEXED: &str = "indexed queue";
/// The entries of a small and a large queue.
const ENTRIES: [u32; 2] = [10_000, 100_000];

/// The time of an eviction, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct EvictionTime {
    structure: String,
    entries: u32,
    repetition: u64,
    nanoseconds: f64,
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let (evictions, repetitions) = match bench.scale.size {
        Size::Smoke => (10, 1),
        Size::Quick => (2_000, 6),
        Size::Full => (20_000, 20),
    };
    let cells = |repetition: u64| {
        [VECTOR, INDEXED].into_iter().flat_map(move |name| ENTRIES.map(|entries| (name, entries, repetition)))
    };
    let cells: Vec<_> = (0..repetitions).flat_map(cells).collect();
    bench.measure(
        &cells,
        |(name, entries, repetition)| format!("queue/{name}/{entries}/{repetition:02}"),
        |_, &(name, entries, repetition)| {
            let mut queue: Vec<u32> = (0..entries).collect();
            let mut random = Random::seed_from_u64(repetition);
            let before = spent();
            for _ in 0..evictions {
                let place = random.random_range(0..queue.len());
                let evicted = evict(name, &mut queue, place);
                queue.push(black_box(evicted));
            }
            let spent = spent().saturating_sub(before).as_nanos() as f64;
            let (structure, nanoseconds) = (name.to_owned(), spent / f64::from(evictions));
            Ok(EvictionTime { structure, entries, repetition, nanoseconds })
        },
    )
}

/// Evicts the entry at a place, and returns it.
fn evict(structure: &str, queue: &mut Vec<u32>, place: usize) -> u32 {
    if structure == VECTOR { queue.remove(place) } else { queue.swap_remove(place) }
}

/// Returns the claims on both structures.
pub(super) fn claims(journal: &Journal) -> [Finding; 2] {
    let all: Vec<EvictionTime> = journal.all("queue/");
    let growth = |structure: &str| {
        let of =
            |entries: u32| all.iter().filter(move |one| one.structure == structure && one.entries == entries);
        let ratio = |large: &EvictionTime| {
            let small = of(ENTRIES[0]).find(|small| small.repetition == large.repetition)?;
            Some((large.repetition, large.nanoseconds / small.nanoseconds))
        };
        let mut samples = Samples::default();
        samples.add(structure, of(ENTRIES[1]).filter_map(ratio));
        samples
    };
    let decide = |claim: &str, source, structure: &str, bound| {
        let unit = (1.0, "times as long with ten times the entries");
        Finding::sampled(claim, source, ClaimKind::OnAverage, (growth(structure), bound), unit).saying(
            format!(
                "CPU time of an eviction at a random place, with {} and {} entries.",
                ENTRIES[0], ENTRIES[1]
            ),
        )
    };
    [
        decide(
            "RAND's eviction from a vector takes at least 5 times as long with 10 times the entries",
            seed(
                "However, on further analysis we realized that the time needed for removing an element from an arbitrary position in a \
                 vector is linear in terms of the number of elements following that element.",
            ),
            VECTOR,
            Bound::Above(5.0),
        ),
        decide(
            "RAND's eviction from an indexed queue takes at most twice as long with 10 times the entries",
            seed(
                "The time required to evict an arbitrary element from this data structure is an amortized constant.",
            ),
            INDEXED,
            Bound::Below(2.0),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_structures_evict_the_entry_at_the_place() {
        for structure in [VECTOR, INDEXED] {
            let mut queue = vec![1, 2, 3, 4];
            assert_eq!(evict(structure, &mut queue, 1), 2, "{structure}");
            queue.sort_unstable();
            assert_eq!(queue, [1, 3, 4], "{structure}");
        }
    }
}
