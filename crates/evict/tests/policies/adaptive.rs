//! The learning and the admission of `adaptive`.

use larder_evict::{AnyShard, By, Capacity, InsertResult, Object, Spec, spread};

fn shard(spec: &str, by: By, amount: u64) -> AnyShard<()> {
    Spec::parse(spec).expect("a valid spec").build(Capacity { by, amount }, 7)
}

/// Requests object `n` and stores it on a miss. Returns whether it was a hit.
fn ask(shard: &mut AnyShard<()>, n: u64, size: u64) -> bool {
    let key = spread(n as u32);
    let is_hit = shard.get(key).is_some();
    if !is_hit {
        let _stored = shard.insert(Object { key, size, cost: 0 }, (), &mut Vec::new());
    }
    is_hit
}

/// Objects with repeated requests in a short time, and none afterwards: only recency matters.
fn passing(round: u64, scale: u64) -> impl Iterator<Item = u64> {
    let set = round / 5 * 40 * scale;
    set..set + 40 * scale
}

/// A third of the objects is requested in each round, the others only once: only frequency matters.
fn lasting(round: u64, scale: u64) -> impl Iterator<Item = u64> {
    let strangers = 1_000_000 + round * 60 * scale;
    (0..30 * scale).flat_map(move |n| [n, strangers + 2 * n, strangers + 2 * n + 1])
}

/// Requests the objects in sequence. Returns the number of hits.
fn hits(shard: &mut AnyShard<()>, objects: impl Iterator<Item = u64>) -> u64 {
    objects.map(|n| u64::from(ask(shard, n, 1))).sum()
}

#[test]
fn the_adaptive_policy_learns_the_best_choice_whenever_the_load_changes() {
    // At the second scale, the ghosts see a sixteenth of the keys.
    for scale in [1, 100] {
        let mut shard = shard("adaptive", By::Entries, 50 * scale);
        for (phase, start) in [0, 100, 200, 300].into_iter().enumerate() {
            let mut last_five = 0;
            for round in start..start + 100 {
                let hits = match phase % 2 {
                    0 => hits(&mut shard, passing(round, scale)),
                    _ => hits(&mut shard, lasting(round, scale)),
                };
                last_five += if round >= start + 95 { hits } else { 0 };
            }
            // The maximum: all but the first round of a set, or the third that lasts.
            let most = [4 * 40 * scale, 5 * 30 * scale][phase % 2];
            assert!(last_five * 100 >= most * 95, "phase {phase}, scale {scale}: {last_five} of {most}");
            assert_eq!(shard.validate(), Ok(()));
        }
    }
}

/// Returns the hits in the tenth round of a loop over three times as many objects as fit.
fn hits_of_a_loop(params: &str, capacity: u64) -> u64 {
    let mut shard = shard(&format!("adaptive:{params}"), By::Entries, capacity);
    (0..10).map(|_| hits(&mut shard, 0..3 * capacity)).last().expect("ten rounds")
}

#[test]
fn the_adaptive_policy_keeps_part_of_a_loop_larger_than_the_cache() {
    // With 5,000 objects, the ghosts see a sample of the keys.
    for capacity in [100, 5_000] {
        let without = hits_of_a_loop("probation=false", capacity);
        for objective in ["requests", "bytes"] {
            let hits = hits_of_a_loop(&format!("objective={objective}"), capacity);
            assert!(hits * 100 >= capacity * 85, "{objective}: {hits} hits with room for {capacity}");
            assert!(hits > without, "{objective}: {hits} hits, {without} without probation");
        }
    }
}

#[test]
fn requests_back_and_forth_cost_no_more_than_under_lru() {
    for share in [20, 10, 5] {
        let [adaptive, lru] = ["adaptive", "lru"].map(|spec| {
            let mut shard = shard(spec, By::Entries, 2_000 / share);
            let way = |turn: u64| (0..2_000).map(move |n| if turn.is_multiple_of(2) { n } else { 1_999 - n });
            (0..40).flat_map(way).filter(|&n| !ask(&mut shard, n, 1)).count()
        });
        assert!(adaptive * 100 <= lru * 102, "a {share}th: {adaptive} misses, {lru} under LRU");
    }
}

#[test]
fn whatever_fits_gets_in_once_it_was_asked_for_often_enough() {
    for objective in ["requests", "bytes"] {
        let mut shard = shard(&format!("adaptive:objective={objective}"), By::Bytes, 1_000);
        for n in (0..100).chain(0..100) {
            ask(&mut shard, n, 10);
        }
        let asked = (1..).find(|_| ask(&mut shard, 1_000, 1_000)).expect("an endless row");
        assert!(asked < 300, "{objective}: a hit after {asked} requests");
    }
}

#[test]
fn objects_of_no_size_and_beyond_the_capacity_do_no_harm() {
    let mut shard = shard("adaptive", By::Bytes, 100);
    for round in 0..100 {
        (0..10).for_each(|n| assert_eq!(ask(&mut shard, n, 0), round > 0));
        assert!(!ask(&mut shard, 10, 101));
        ask(&mut shard, 11 + round, 60);
        assert_eq!(shard.validate(), Ok(()));
    }
    let object = Object { key: 1, size: 101, cost: 0 };
    assert_eq!(shard.insert(object, (), &mut Vec::new()), InsertResult::TooLarge(()));
}

#[test]
fn a_large_cache_spends_little_on_it() {
    let objects = 100_000;
    let mut shards = ["lru", "adaptive"].map(|spec| shard(spec, By::Entries, objects));
    for shard in &mut shards {
        hits(shard, (0..3 * objects).map(|n| n % (2 * objects)));
    }
    let [lru, adaptive] = shards.map(|shard| shard.overhead_per_object());
    let own = adaptive - lru + 8.0;
    assert!(own < 38.0, "{own} bytes an object");
}

/// Numbers that look random, by xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number from 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `n`: the lower, the more often, by the power `skew`.
    fn popular(&mut self, n: f64, skew: f64) -> u64 {
        let rest = 1.0 - skew;
        ((n.powf(rest) - 1.0) * self.share() + 1.0).powf(1.0 / rest) as u64 - 1
    }
}

/// Requests for the blocks of a disk: files that are read in sequence from the start or from the middle, some of them more
/// often than others, and single blocks between them.
fn blocks(seed: u64) -> Vec<u64> {
    let (mut random, mut requests) = (Random(seed * 7_919 + 1), Vec::new());
    while requests.len() < 60_000 {
        let file = random.popular(800.0, 0.9);
        let length = 4 + (spread(file as u32) >> 33) % 60;
        let start = if random.share() < 0.6 { 0 } else { random.next() % length };
        for block in start..length {
            requests.push(file * 64 + block);
            if random.share() < 0.05 {
                break;
            }
        }
        if random.share() < 0.3 {
            requests.extend((0..20).map(|_| 100_000 + random.popular(5_000.0, 0.7)));
        }
    }
    requests
}

#[test]
fn probation_costs_disk_traces_at_most_half_a_percent() {
    // From 4 to 256 KiB.
    let size = |block: u64| 4_096 << ((spread(block as u32) >> 40) % 7);
    for (seed, share) in [(1, 0.05), (1, 0.2), (2, 0.01), (2, 0.1)] {
        let requests = blocks(seed);
        let mut distinct = requests.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let total: u64 = distinct.iter().map(|&block| size(block)).sum();
        for (objective, counts_bytes) in [("requests", false), ("bytes", true)] {
            let missed = |probation: bool| {
                let spec = format!("adaptive:objective={objective},probation={probation}");
                let mut shard = shard(&spec, By::Bytes, (total as f64 * share) as u64);
                let missed = requests.iter().filter(|&&block| !ask(&mut shard, block, size(block)));
                missed.map(|&block| if counts_bytes { size(block) } else { 1 }).sum::<u64>() as f64
            };
            let cost = missed(true) / missed(false) - 1.0;
            assert!(cost < 0.005, "{objective}, trace {seed} at {share}: {:.2}%", 100.0 * cost);
        }
    }
}
