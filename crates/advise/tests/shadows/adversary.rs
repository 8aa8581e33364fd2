//! Clients who want wrong advice. They know how shadows work, and see which of their requests hit, but not the seed of the sample.

use larder_advise::{Cell, Sample};
use larder_evict::{By, Capacity, Object, spread};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::workload::Workload;
use super::{SEED, panel, spec};

/// The part of the requests that are the adversary's, and the halvings of the sample.
const SHARE: f64 = 1.0 / 8.0;
const HALVINGS: u32 = 3;
/// The size of the cache, and the requests of all clients.
const SIZE: u64 = 4_000_000;
const REQUESTS: usize = 20_000;
/// The number of the adversary's first object.
const FIRST: u32 = 100_000;

#[test]
fn an_adversary_without_the_seed_makes_no_figure_wrong() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut both = Vec::new();
    for (at, request) in (0..).zip(Workload::zipf(10_000, 30_000).0) {
        both.push(request);
        // One request in eight is for objects that no cache keeps, for one object, for large objects in turn, or for one that is large
        // every other time.
        match random.u32(..28) {
            0 => both.push((20_000 + at, 6_000)),
            1 => both.push((0, 3_000)),
            2 => both.push((11_000 + at % 40, 50_000 + u64::from(at % 7) * 20_000)),
            3 => both.push((12_000, 3_000 + u64::from(at % 2) * 2_000)),
            _ => {}
        }
    }
    let workload = Workload(both);
    let report = workload.watch("lru", 4_000_000, 2);
    workload.check(&report);
    let ratio = |policy: &str| {
        let is_it = |cell: &&Cell| cell.policy == policy && cell.size == 4_000_000;
        report.cells.iter().find(is_it).expect("a cell").ratios.hit_ratio
    };
    let real = |policy| workload.real(policy, 4_000_000).0;
    for policy in ["sieve", "gdsf"] {
        let steered = (ratio(policy) - ratio("lru")) - (real(policy) - real("lru"));
        assert!(steered.abs() < 1.0 / 8.0, "{policy}: {steered} of the difference");
    }
}

/// What the adversary does for some of his requests.
#[derive(Clone, Debug)]
struct Move {
    /// The objects that he requests in turn, from this one on.
    first: u32,
    objects: u32,
    /// Their size, and by how much each further request for one has another size.
    size: u64,
    growth: u64,
    /// The requests for one object before the next.
    times: u32,
    /// Whether he goes on to the next object when a request hits, when it misses, or in any case.
    next: Option<bool>,
    requests: u32,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let sizes = prop_oneof![100..4_000_u64, 1_000..9_000_u64, 9_000..400_000_u64];
    let one = (0..2_000_u32, 1..600_u32, sizes, 0..3_000_u64, 1..40_u32, any::<Option<bool>>(), 50..800_u32);
    let one = one.prop_map(|(first, objects, size, growth, times, next, requests)| Move {
        first,
        objects,
        size,
        growth,
        times,
        next,
        requests,
    });
    prop::collection::vec(one, 1..6)
}

/// Returns the requests of a workload and, in between, those of an adversary who sees the answers of the real cache.
fn with_adversary(moves: &[Move]) -> Workload {
    let mut cache = spec("lru").build::<()>(Capacity { by: By::Bytes, amount: SIZE }, 3);
    let mut moves = moves.iter().cycle().flat_map(|each| (0..each.requests).map(move |_| each));
    let (mut all, mut at, mut done) = (Vec::new(), 0, 0_u64);
    for (number, other) in Workload::zipf(10_000, REQUESTS).0.into_iter().enumerate() {
        let is_his = number as f64 % (1.0 / SHARE) == 0.0;
        let next = if is_his { moves.next() } else { None };
        let (id, size) = next.map_or(other, |each| {
            (FIRST + each.first + at / each.times % each.objects, each.size + each.growth * (done % 4))
        });
        let is_hit = cache.get(spread(id)).is_some();
        if !is_hit {
            let _ = cache.insert(Object { key: spread(id), size, cost: 0 }, (), &mut Vec::new());
        }
        if let Some(each) = next {
            let goes_on = each.next.is_none_or(|when| when == is_hit);
            at += if goes_on { each.times } else { 1 };
            done += 1;
        }
        all.push((id, size));
    }
    Workload(all)
}

/// Returns by how much the advantages of policies over the running one are predicted wrongly, and by how much the advised policy is
/// really worse.
fn steered(workload: &Workload) -> (f64, f64) {
    let report = workload.watch("lru", SIZE, HALVINGS);
    let predicted = |policy: &str| {
        let cell = report.cells.iter().find(|cell| cell.policy == policy && cell.size == SIZE);
        cell.expect("a cell").ratios.hit_ratio
    };
    let real = |policy: &str| workload.real(policy, SIZE).0;
    let wrong = |policy| ((predicted(policy) - predicted("lru")) - (real(policy) - real("lru"))).abs();
    let worse = report.advice.map_or(0.0, |advice| real("lru") - real(&advice.policy));
    (["sieve", "gdsf"].map(wrong).into_iter().fold(0.0, f64::max), worse)
}

/// The cases are the same each time: that none of many others is beyond the bound was measured, and is not certain.
#[test]
fn an_adversary_steers_advice_by_at_most_his_share() {
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::with_cases(24), random);
    let found = runner.run(&moves(), |moves| {
        let (wrong, worse) = steered(&with_adversary(&moves));
        prop_assert!(wrong <= SHARE, "{} of the difference is wrong", wrong);
        prop_assert!(worse <= 0.01, "the advised policy hits {} less", worse);
        Ok(())
    });
    found.unwrap_or_else(|failure| panic!("{failure}"));
}

/// With the seed, he requests only what is in the sample: small objects in turn, which LRU evicts and `gdsf` keeps.
#[test]
fn an_adversary_who_knew_the_seed_would_steer_further() {
    let sample: Sample = panel("lru", Vec::new(), SIZE, HALVINGS).sample();
    let of = |is_in_sample: bool| {
        let ids = (FIRST..).filter(|id| !is_in_sample || sample.contains(spread(*id))).take(400);
        let ids: Vec<_> = ids.collect();
        let mut workload = Workload::zipf(10_000, REQUESTS);
        let his = workload.0.iter_mut().step_by(8);
        his.enumerate().for_each(|(at, request)| *request = (ids[at % ids.len()], 200));
        steered(&workload).0
    };
    let (blind, knowing) = (of(false), of(true));
    assert!(blind <= SHARE && knowing > SHARE && knowing > 3.0 * blind, "{blind} {knowing} with {SEED}");
}
