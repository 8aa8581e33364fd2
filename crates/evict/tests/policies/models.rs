//! Comparison of policies with naive models, for each answer. `docs/internals/policies.md` lists the policies with a
//! model.

use std::collections::BTreeSet;

use crate::naive::{self, Cache, answers};
use crate::operations::{Answer, Op, apply, capacity, ops, ops_of, run};
use larder_evict::{By, Capacity, POLICIES, Spec, spread};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The expected answers of a policy, from a model that shares no code with it.
type Model = fn(Capacity, &[Op]) -> Vec<Answer>;

const MODELS: &[(&str, Model)] = &[
    ("adaptive", answers::<naive::Adaptive<naive::ByRequests>>),
    ("adaptive:objective=bytes", answers::<naive::Adaptive<naive::ByBytes>>),
    ("fifo", answers::<naive::Fifo>),
    ("gds", answers::<naive::Gds>),
    ("gds:cost=bytes", answers::<naive::GdsByPackets>),
    ("gds:cost=money", answers::<naive::GdsByMoney>),
    ("gdsf", answers::<naive::Gdsf>),
    ("gdsf:cost=money", answers::<naive::GdsfByMoney>),
    ("lfu", answers::<naive::Lfu>),
    ("lfuda", answers::<naive::Lfuda>),
    ("lru", answers::<naive::Lru>),
    ("lruk", answers::<naive::LruK<2>>),
    ("lruk:k=1", answers::<naive::LruK<1>>),
    ("lruk:k=3", answers::<naive::LruK<3>>),
    ("maxs", answers::<naive::Maxs>),
    ("sieve", answers::<naive::Sieve>),
];

/// Like [`MODELS`], for keys that collide in no sketch.
const COUNTING: &[(&str, Model)] =
    &[("tinylfu", answers::<naive::TinyLfu>), ("wtinylfu", answers::<naive::WTinyLfu>)];

/// Compares a policy with its model over requests for these keys: see [`QUEUES`].
type Comparison = fn(&str, Capacity, &[u64]);

/// Policies of several queues, over requests: what they remember of objects that are removed or replaced is not in their
/// papers.
const QUEUES: &[(&str, Comparison)] = &[
    ("2q", compare::<naive::TwoQ>),
    ("arc", compare::<naive::Arc>),
    ("lirs", compare::<naive::Lirs>),
    ("s3fifo", compare::<naive::S3Fifo>),
];

fn spec(name: &str) -> Spec {
    Spec::parse(name).expect("a listed policy")
}

/// Time is a count of lookups, and begins with the first one.
fn after_a_lookup(ops: Vec<Op>) -> Vec<Op> {
    std::iter::once(Op::Get(0)).chain(ops).collect()
}

fn distinct() -> impl Strategy<Value = Vec<Op>> {
    ops_of(naive::keys(24))
}

proptest! {
    #[test]
    fn policies_answer_as_their_naive_models(capacity in capacity(), ops in ops()) {
        let ops = after_a_lookup(ops);
        for (name, model) in MODELS {
            prop_assert_eq!(run(&spec(name), capacity, &ops), model(capacity, &ops), "{}", name);
        }
    }

    #[test]
    fn policies_that_count_answer_as_their_naive_models(capacity in capacity(), ops in distinct()) {
        for (name, model) in COUNTING {
            prop_assert_eq!(run(&spec(name), capacity, &ops), model(capacity, &ops), "{}", name);
        }
    }
}

/// A request: a lookup, and an insertion on a miss.
fn requests(keys: impl Iterator<Item = u64>) -> impl Iterator<Item = [Op; 2]> {
    keys.map(|n| {
        let (key, size) = (spread(n as u32), 1 + n * 7 % 60);
        [Op::Get(key), Op::Insert { key, size }]
    })
}

/// Compares the policy `name` with its model after each request. Returns the final cache of the model.
fn follow<N: naive::Naive>(name: &str, capacity: Capacity, keys: impl Iterator<Item = u64>) -> Cache<N> {
    let (mut shard, mut model) = (spec(name).build(capacity, 7), Cache::new(capacity));
    for (at, [get, insert]) in requests(keys).enumerate() {
        let found = apply(&mut shard, &get, at);
        assert_eq!(found, model.answer(at, &get), "{name}, request {at}: {get:?}");
        if found.found.is_none() {
            let stored = apply(&mut shard, &insert, at);
            assert_eq!(stored, model.answer(at, &insert), "{name}, request {at}: {insert:?}");
        }
    }
    model
}

fn compare<N: naive::Naive>(name: &str, capacity: Capacity, keys: &[u64]) {
    follow::<N>(name, capacity, keys.iter().copied());
}

fn adapt(capacity: Capacity, keys: impl Iterator<Item = u64>) -> Cache<naive::Adaptive<naive::ByRequests>> {
    follow("adaptive", capacity, keys)
}

proptest! {
    #[test]
    fn policies_of_queues_evict_in_bytes_as_their_papers(
        amount in 1..600_u64,
        by in prop::sample::select(&[By::Bytes, By::Entries]),
        keys in prop::collection::vec(0..40_u64, 1..400),
    ) {
        let amount = if by == By::Bytes { amount } else { amount / 20 + 1 };
        for (name, compare) in QUEUES {
            compare(name, Capacity { by, amount }, &keys);
        }
    }
}

/// Rounds in which only recency matters, and rounds in which only frequency matters.
fn phases(scale: u64) -> impl Iterator<Item = u64> {
    (0..200).flat_map(move |round| {
        let passing = round / 5 * 40 * scale..(round / 5 + 1) * 40 * scale;
        let strangers = 1_000_000 + round * 60 * scale;
        let lasting = (0..30 * scale).flat_map(move |n| [n, strangers + 2 * n, strangers + 2 * n + 1]);
        let (passing, lasting) =
            if round / 50 % 2 == 0 { (Some(passing), None) } else { (None, Some(lasting)) };
        passing.into_iter().flatten().chain(lasting.into_iter().flatten())
    })
}

#[test]
fn adaptive_thins_its_sample_and_changes_its_policy_as_its_model() {
    let model = adapt(Capacity { by: By::Entries, amount: 50 }, phases(1));
    assert!(model.policy.changes >= 3 && model.policy.thinning == 0, "{} changes", model.policy.changes);
    let model = adapt(Capacity { by: By::Entries, amount: 200 }, phases(4).take(20_000));
    assert!(model.policy.changes >= 1 && model.policy.thinning == 1, "{} changes", model.policy.changes);
    let model = adapt(Capacity { by: By::Entries, amount: 100 }, (0..8_000).map(|at| at % 300));
    assert!(model.policy.failed_probation() > 100, "{}", model.policy.failed_probation());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn adaptive_answers_as_its_model_for_long(
        seed in any::<u64>(), amount in 20..400_u64, by_bytes in any::<bool>(), skew in 1..4_u32
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let by = if by_bytes { By::Bytes } else { By::Entries };
        let amount = if by_bytes { amount * 20 } else { amount };
        // The product of random numbers: some keys are requested far more often than others, and the popular keys
        // change over time.
        let keys = (0..4_000_u64).map(|at| {
            let share: f64 = (0..skew).map(|_| random.f64()).product();
            at / 1_000 * 50 + (share * 900.0) as u64
        });
        adapt(Capacity { by, amount }, keys);
    }
}

/// Returns a fixed sample of the operations that proptest generates.
fn samples() -> Vec<(Capacity, Vec<Op>)> {
    let mut runner = TestRunner::deterministic();
    let strategy = (capacity(), distinct());
    let sample = |_| strategy.new_tree(&mut runner).expect("a sample").current();
    (0..200).map(sample).map(|(capacity, ops)| (capacity, after_a_lookup(ops))).collect()
}

/// Shows that the comparison can fail.
#[test]
fn no_model_answers_as_another_policy() {
    let samples = samples();
    let all: Vec<_> = MODELS.iter().chain(COUNTING).collect();
    let answers =
        |model: &Model| -> Vec<_> { samples.iter().map(|(capacity, ops)| model(*capacity, ops)).collect() };
    let answers: Vec<_> = all.iter().map(|(_, model)| answers(model)).collect();
    for (at, (name, _)) in all.iter().enumerate() {
        let policy: Vec<_> = samples.iter().map(|(capacity, ops)| run(&spec(name), *capacity, ops)).collect();
        for (other, (model, _)) in all.iter().enumerate() {
            let is_plain_lru = |name: &str| ["lru", "lruk:k=1"].contains(&name);
            let is_same = other == at || is_plain_lru(name) && is_plain_lru(model);
            assert_eq!(answers[other] == policy, is_same, "the policy {name} and the model of {model}");
        }
    }
}

/// Checks the docs' list of policies with a model: the rows of a table, by their first column.
#[test]
fn the_docs_say_which_policies_have_a_model() {
    let page = include_str!("../../../../docs/internals/policies.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let rows: Vec<_> =
        rows.map(|(name, rest)| (name, rest.split('|').map(str::trim).collect::<Vec<_>>())).collect();
    let names: Vec<_> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, POLICIES.iter().map(|policy| policy.name).collect::<Vec<_>>());
    let told: BTreeSet<_> =
        rows.iter().filter(|(_, cells)| cells[0] == "yes").map(|(name, _)| *name).collect();
    let modelled = MODELS.iter().chain(COUNTING).map(|(spec, _)| spec.split(':').next().expect("a name"));
    let modelled = modelled.chain(QUEUES.iter().map(|(name, _)| *name));
    assert_eq!(told, modelled.collect());
    for (name, cells) in rows {
        assert!(
            cells[..2] != ["-", "-"],
            "{name} is compared with nothing: write a model of it in tests/naive"
        );
    }
}
