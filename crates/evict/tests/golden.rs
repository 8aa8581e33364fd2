//! Hits and evictions of each policy on one small trace, to the digit.
//!
//! The counts were computed apart from this crate, by a few lines over an ordered dictionary.

use larder_evict::{By, Capacity, Object, Spec};

const REQUESTS: usize = 100_000;
const KEYS: usize = 10_000;

const CAPACITIES: [Capacity; 8] = [
    Capacity { by: By::Entries, amount: 0 },
    Capacity { by: By::Entries, amount: 1 },
    Capacity { by: By::Entries, amount: 100 },
    Capacity { by: By::Entries, amount: 1_000 },
    Capacity { by: By::Entries, amount: 20_000 },
    Capacity { by: By::Bytes, amount: 5_000 },
    Capacity { by: By::Bytes, amount: 500_000 },
    Capacity { by: By::Bytes, amount: 5_000_000 },
];

/// Per policy, (hits, evictions) at each of [`CAPACITIES`].
const GOLDEN: &[(&str, [(u64, u64); 8])] = &[
    (
        "fifo",
        [
            (0, 0),
            (1_765, 98_234),
            (34_244, 65_656),
            (62_844, 36_156),
            (91_441, 0),
            (4_633, 45_694),
            (33_973, 65_932),
            (62_612, 36_422),
        ],
    ),
    (
        "lru",
        [
            (0, 0),
            (1_765, 98_234),
            (39_099, 60_801),
            (67_292, 31_708),
            (91_441, 0),
            (4_986, 45_341),
            (38_771, 61_133),
            (67_018, 32_026),
        ],
    ),
];

/// A seeded Zipf trace (exponent 1) in arithmetic that is exact everywhere: no powers, no logarithms.
fn trace() -> Vec<Object> {
    let mut total = 0.0;
    let cumulated: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    let mut state = 1_u64;
    let request = |_| {
        let share = (split_mix(&mut state) >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = cumulated.partition_point(|&sum| sum <= share * total).min(KEYS - 1) as u64;
        Object { key: rank, size: 100 + rank * 7_919 % 9_973, cost: 1 }
    };
    (0..REQUESTS).map(request).collect()
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn replay(policy: &str, capacity: Capacity, trace: &[Object]) -> (u64, u64) {
    let mut shard = Spec::parse(policy).expect("a listed policy").build(capacity, 1);
    let mut hits = 0;
    for &object in trace {
        match shard.get(object.key) {
            Some(()) => hits += 1,
            None => drop(shard.insert(object, (), &mut Vec::new())),
        }
    }
    (hits, shard.evictions())
}

#[test]
fn counts_are_golden() {
    let trace = trace();
    for (policy, golden) in GOLDEN {
        let counted = CAPACITIES.map(|capacity| replay(policy, capacity, &trace));
        assert_eq!(counted, *golden, "{policy}");
    }
}
