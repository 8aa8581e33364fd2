//! Invariants of the ring.

use larder_cluster::{Node, Ring, key_hash};
use proptest::prelude::*;

const KEYS: u64 = 4000;

fn keys() -> impl Iterator<Item = u64> {
    (0..KEYS).map(|key| key_hash(&key.to_le_bytes()))
}

fn weighted(weights: &[u16]) -> Vec<Node> {
    let nodes = weights.iter().enumerate();
    nodes.map(|(i, weight)| Node { weight: *weight, ..Node::new(format!("node-{i}")) }).collect()
}

fn names(ring: &Ring) -> Vec<Option<String>> {
    keys().map(|key| ring.owner(key).map(|owner| ring.nodes()[owner].name.clone())).collect()
}

/// Returns how many of `KEYS` keys each node gets. Another salt makes other keys.
fn counted(ring: &Ring, salt: u64) -> Vec<u64> {
    let mut counts = vec![0; ring.nodes().len()];
    let keys = (0..KEYS).map(|key| key_hash(&[salt.to_le_bytes(), key.to_le_bytes()].concat()));
    keys.filter_map(|key| ring.owner(key)).for_each(|owner| counts[owner] += 1);
    counts
}

/// Returns how improbable it is that `hits` of `KEYS` random keys go to a node with this share of them: by Chernoff's
/// bound, this number or more (or this number or fewer) has a probability of at most `exp(-surprise)`.
fn surprise(hits: u64, share: f64) -> f64 {
    let term = |found: f64, expected: f64| if found > 0.0 { found * (found / expected).ln() } else { 0.0 };
    let found = hits as f64 / KEYS as f64;
    KEYS as f64 * (term(found, share) + term(1.0 - found, 1.0 - share))
}

/// A run compares at most 48 cases * 2 rings * 8 nodes, each on two sides: the probability that one of these 1536
/// comparisons fails by chance is below `1536 * exp(-30)`, which is less than 1e-9.
const MOST_SURPRISE: f64 = 30.0;

fn any_weights() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(prop_oneof![4 => 1_u16..20, 1 => Just(0), 1 => Just(u16::MAX)], 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn only_the_keys_of_a_lost_node_move(weights in any_weights(), lost: prop::sample::Index) {
        let all = weighted(&weights);
        let lost = all[lost.index(all.len())].clone();
        let rest = all.iter().filter(|node| **node != lost).cloned().collect();
        let (before, after) = (names(&Ring::new(all)), names(&Ring::new(rest)));
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before == after || before.as_deref() == Some(&lost.name));
            prop_assert!(after.as_deref() != Some(&lost.name));
        }
    }

    #[test]
    fn a_draining_node_is_as_good_as_gone(weights in any_weights(), leaves: prop::sample::Index) {
        let mut nodes = weighted(&weights);
        let leaves = leaves.index(nodes.len());
        nodes[leaves].draining = true;
        let draining = Ring::new(nodes.clone());
        let name = nodes.remove(leaves).name;
        prop_assert_eq!(names(&draining), names(&Ring::new(nodes)));
        prop_assert_eq!(draining.share(draining.position(&name).unwrap()), 0.0);
    }

    #[test]
    fn the_order_of_nodes_means_nothing(nodes in Just(weighted(&[3, 1, 4, 1, 5])).prop_shuffle()) {
        prop_assert_eq!(Ring::new(nodes.clone()), Ring::new(weighted(&[3, 1, 4, 1, 5])));
        prop_assert_eq!(Ring::slots(nodes, 50), Ring::slots(weighted(&[3, 1, 4, 1, 5]), 50));
    }

    #[test]
    fn weights_are_respected(weights in any_weights(), salt: u64) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        for ring in [Ring::new(weighted(&weights)), Ring::slots(weighted(&weights), 50)] {
            for (index, hits) in counted(&ring, salt).into_iter().enumerate() {
                let share = ring.share(index);
                prop_assert!(surprise(hits, share) <= MOST_SURPRISE, "{hits} of {KEYS} for {share}: {ring:?}");
            }
        }
    }

    #[test]
    fn shares_add_up(weights in any_weights()) {
        for ring in [Ring::new(weighted(&weights)), Ring::slots(weighted(&weights), 50)] {
            let sum: f64 = (0..weights.len()).map(|index| ring.share(index)).sum();
            let expected = if weights.iter().any(|weight| *weight > 0) { 1.0 } else { 0.0 };
            prop_assert!((sum - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn the_next_node_in_rank_owns_a_key_without_its_owner(weights in any_weights(), key: u64) {
        let ring = Ring::new(weighted(&weights));
        let mut ranked = ring.ranked(key).into_iter();
        let mut nodes = ring.nodes().to_vec();
        prop_assert_eq!(ring.owner(key), ring.ranked(key).first().copied());
        while let Some(owner) = Ring::new(nodes.clone()).owner(key) {
            let name = Ring::new(nodes.clone()).nodes()[owner].name.clone();
            prop_assert_eq!(ranked.next().map(|index| &ring.nodes()[index].name), Some(&name));
            nodes.retain(|node| node.name != name);
        }
        prop_assert_eq!(ranked.next(), None);
    }

    #[test]
    fn slots_rank_each_node_once_and_the_owner_first(weights in any_weights(), key: u64) {
        let ring = Ring::slots(weighted(&weights), 50);
        let mut ranked = ring.ranked(key);
        prop_assert_eq!(ring.owner(key), ranked.first().copied());
        ranked.sort_unstable();
        let keepers = (0..weights.len()).filter(|index| ring.nodes()[*index].weight > 0);
        prop_assert_eq!(ranked, keepers.collect::<Vec<_>>());
    }
}

#[test]
fn a_ring_without_weight_has_no_owners() {
    for ring in [Ring::new(Vec::new()), Ring::new(weighted(&[0, 0])), Ring::slots(weighted(&[0]), 50)] {
        assert_eq!(ring.owner(7), None);
        assert_eq!(ring.ranked(7), Vec::<usize>::new());
    }
}

#[test]
fn a_thousand_nodes_share_evenly() {
    let ring = Ring::new(weighted(&[1; 1000]));
    let keys = 100_000;
    let mut counts = vec![0_u32; 1000];
    (0..keys)
        .map(|key: u64| key_hash(&key.to_le_bytes()))
        .for_each(|key| counts[ring.owner(key).unwrap()] += 1);
    // Each count is a Poisson variable of mean 100: chi-squared over the mean is 999 +- 45.
    let squares: f64 = counts.iter().map(|count| (f64::from(*count) - 100.0).powi(2) / 100.0).sum();
    assert!((squares - 999.0).abs() < 5.0 * 45.0, "{squares}");
}

#[test]
fn the_slots_are_dealt_in_turn() {
    let ring = Ring::slots(weighted(&[1, 1, 1]), 50);
    let owners: Vec<_> = (0..6).map(|hash| ring.owner(hash).unwrap()).collect();
    assert_eq!(owners, [0, 1, 2, 0, 1, 2]);
    assert_eq!((ring.owner(49), ring.owner(50)), (Some(1), Some(0)));
    assert_eq!([0, 1, 2].map(|index| ring.share(index)), [0.34, 0.34, 0.32]);
}

/// The expected values were computed separately, with a logarithm in floating point.
#[test]
fn golden_owners() {
    let ring = Ring::new(weighted(&[1, 2, 3]));
    let owner = |key: &str| ring.nodes()[ring.owner(key_hash(key.as_bytes())).unwrap()].name.clone();
    let owners: String = (0..40).map(|i| owner(&format!("http://example.com/{i}")).pop().unwrap()).collect();
    assert_eq!(owners, "0122222122221102211022220211212110201020");
}
