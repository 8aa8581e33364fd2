//! Clusters: the simulation of several nodes equals a separate count with several caches.

use std::num::{NonZeroU16, NonZeroUsize};

use larder_cluster::{Node, Ring, key_hash};
use larder_evict::{By, Capacity, POLICIES, Spec};
use larder_lab::nodes::{Cell, LoadShares, Placement, Plan};
use larder_lab::subject::Subject;
use larder_lab::sweep;
use larder_lab::trace::{Builder, Record, Trace};
use proptest::prelude::*;

const SEED: u64 = 5;

fn trace(requests: &[(u64, u64)]) -> Trace {
    let mut builder = Builder::default();
    for &(key, size) in requests {
        builder.push_number(Record { key, time: 0, size, cost: 0 }).expect("few requests");
    }
    builder.finish()
}

/// Some objects are requested far more often than others.
fn skewed(requests: usize, objects: u64) -> Trace {
    let mut random = fastrand::Rng::with_seed(3);
    let mut one = || (random.f64().powi(4) * objects as f64) as u64;
    trace(&(0..requests).map(|_| one()).map(|key| (key, 100 + key % 7)).collect::<Vec<_>>())
}

fn nodes(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("some nodes")
}

fn plan(policy: &str, count: u16, hot: f64) -> Plan {
    let specs = vec![Spec::parse(policy).expect("a policy")];
    let base = sweep::Plan { specs, warmup: 0.0, seed: SEED, threads: NonZeroUsize::MIN };
    Plan { base, nodes: vec![nodes(count)], hot: vec![hot], sharing: LoadShares::default() }
}

fn run(plan: &Plan, trace: Trace, capacity: Capacity) -> Cell {
    let subject = Subject::whole("made up", trace);
    plan.run(&subject, &[capacity], &|_| true).pop().expect("a cell")
}

fn entries(amount: u64) -> Capacity {
    Capacity { by: By::Entries, amount }
}

/// A minimal LRU: the last is the most recent.
#[derive(Default, Clone)]
struct Lru(Vec<(u32, u64)>);

impl Lru {
    fn request(&mut self, id: u32, size: u64, capacity: Capacity) -> bool {
        let weight = capacity.weigh(size);
        if let Some(at) = self.0.iter().position(|(there, _)| *there == id) {
            let found = self.0.remove(at);
            self.0.push(found);
            return true;
        }
        if weight <= capacity.amount {
            self.0.push((id, weight));
            while self.0.iter().map(|(_, weight)| weight).sum::<u64>() > capacity.amount {
                self.0.remove(0);
            }
        }
        false
    }
}

/// Returns hits, hits without another node, requests between nodes and bytes between nodes, for nodes that serve
/// consecutive requests.
fn model(trace: &Trace, placement: &Placement, own: Capacity, copies: Capacity) -> (u64, u64, u64, u128) {
    let caches = vec![Lru::default(); placement.nodes().into()];
    let (mut owners, mut copied) = (caches.clone(), caches);
    let (mut hits, mut local, mut crossed, mut bytes) = (0, 0, 0, 0);
    for (at, &id) in trace.ids().iter().enumerate() {
        let (asked, owner) = placement.at(at);
        let size = trace.size(at);
        if asked != owner && copied[usize::from(asked)].request(id, size, copies) {
            (hits, local) = (hits + 1, local + 1);
            continue;
        }
        let found = owners[usize::from(owner)].request(id, size, own);
        hits += u64::from(found);
        match asked == owner {
            true => local += u64::from(found),
            false => (crossed, bytes) = (crossed + 1, bytes + u128::from(size)),
        }
    }
    (hits, local, crossed, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn simulated_nodes_have_the_hits_of_separate_caches(
        requests in prop::collection::vec((0_u64..40, 1_u64..30), 1..600),
        count in 1_u16..9,
        amount in 20_u64..200,
        share in prop_oneof![Just(0.0), 0.05_f64..0.9],
        affinity in prop_oneof![Just(0.0), 0.0_f64..1.0],
    ) {
        let sharing = LoadShares { affinity, ..LoadShares::default() };
        // A filter that admits everything: copies are then treated like other objects.
        let plan = Plan { sharing: sharing.clone(), ..plan("size:max=1MiB+lru", count, share) };
        let capacity = Capacity { by: By::Bytes, amount };
        let trace = trace(&requests);
        let placement = Placement::new(&trace, nodes(count), &sharing, 0, SEED);
        let for_copies = if count == 1 { 0 } else { (amount as f64 * share) as u64 };
        let part = |amount| Capacity { by: By::Bytes, amount };
        let expected = model(&trace, &placement, part(amount - for_copies), part(for_copies));
        let counts = run(&plan, trace, capacity).counts;
        prop_assert_eq!(
            (counts.hits, counts.local_hits, counts.peer_requests, counts.peer_bytes),
            expected
        );
    }

    #[test]
    fn one_node_is_the_plain_simulation(
        requests in prop::collection::vec((0_u64..60, 1_u64..30), 1..600),
        amount in 20_u64..200,
        share in 0.0_f64..0.9,
        warmup in 0.0_f64..0.9,
        by in prop_oneof![Just(By::Bytes), Just(By::Entries)],
    ) {
        let capacity = Capacity { by, amount };
        let specs: Vec<_> = POLICIES.iter().filter(|policy| !policy.is_offline).collect();
        let specs: Vec<_> = specs.iter().map(|policy| Spec::parse(policy.name).expect("listed")).collect();
        let plain = sweep::Plan { specs, warmup, seed: SEED, threads: NonZeroUsize::MIN };
        let alone = Plan { base: plain.clone(), ..plan("lru", 1, share) };
        let subject = Subject::whole("made up", trace(&requests));
        let plain = plain.run(&subject, &[capacity], &|_| true);
        let alone = alone.run(&subject, &[capacity], &|_| true);
        prop_assert_eq!(plain.len(), alone.len());
        for (plain, alone) in plain.iter().zip(&alone) {
            let counts = &alone.counts;
            prop_assert_eq!((plain.requests, plain.hits), (counts.requests, counts.hits), "{}", plain.spec);
            prop_assert_eq!(plain.byte_hit_ratio, counts.byte_hit_ratio());
            prop_assert_eq!((counts.local_hits, counts.peer_requests), (counts.hits, 0));
            prop_assert_eq!((counts.request_imbalance, counts.byte_imbalance), (1.0, 1.0));
        }
    }
}

#[test]
fn owners_are_the_rings() {
    let ring = Ring::new((0..30).map(|node| Node::new(format!("node-{node:05}"))).collect());
    let trace = skewed(2_000, 500);
    let placement = Placement::new(&trace, nodes(30), &LoadShares::default(), 0, SEED);
    for (at, &id) in trace.ids().iter().enumerate() {
        assert_eq!(Some(usize::from(placement.at(at).1)), ring.owner(key_hash(&id.to_le_bytes())));
    }
}

#[test]
fn nodes_with_room_for_all_objects_fetch_each_once() {
    for count in [1, 3, 100, 1_000] {
        let trace = skewed(20_000, 2_000);
        let objects = u64::from(trace.shape().objects);
        let cell = run(&plan("lru", count, 0.0), trace, entries(objects));
        assert_eq!(cell.counts.origin_requests(), objects, "{count}");
    }
}

#[test]
fn a_balancer_by_the_ring_causes_no_requests_between_peers() {
    let sharing = LoadShares { affinity: 1.0, ..LoadShares::default() };
    let counts = run(&Plan { sharing, ..plan("lru", 10, 0.1) }, skewed(20_000, 2_000), entries(50)).counts;
    assert_eq!((counts.peer_requests, counts.local_hits), (0, counts.hits));
}

#[test]
fn copies_of_popular_objects_save_requests_between_peers() {
    let counts = |hot| run(&plan("lru", 10, hot), skewed(50_000, 2_000), entries(200)).counts;
    let (without, with) = (counts(0.0), counts(0.1));
    // Nine in ten requests arrive at a node that does not own the object. Three in ten are for the twenty most popular
    // objects, and there is room for twenty.
    assert!((without.peer_requests_per_request() - 0.9).abs() < 0.01, "{without:?}");
    assert!(with.peer_requests_per_request() < 0.7, "{with:?}");
    assert!(with.local_hit_ratio() > without.local_hit_ratio() + 0.2, "{with:?}");
    assert!(with.request_imbalance < without.request_imbalance, "{with:?}");
}

#[test]
fn a_lost_node_costs_its_share_and_the_fixed_pool_most() {
    let dip = |slots| {
        let sharing = LoadShares { lost: 1, slots, ..LoadShares::default() };
        let counts =
            run(&Plan { sharing, ..plan("lru", 10, 0.0) }, skewed(50_000, 5_000), entries(500)).counts;
        let (before, after) = counts.around_loss.expect("a loss");
        before - after
    };
    let (ring, pool) = (dip(None), dip(NonZeroU16::new(50)));
    assert!((0.0..0.1).contains(&ring), "{ring}");
    assert!(pool > 3.0 * ring, "{pool} after {ring}");
}

#[test]
fn a_stopped_run_returns_the_cells_that_are_complete() {
    let plan = Plan { nodes: [1, 2, 3].map(nodes).to_vec(), ..plan("lru", 1, 0.0) };
    let subject = Subject::whole("made up", skewed(1_000, 100));
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let watch = |requests| asked.fetch_add(requests, std::sync::atomic::Ordering::Relaxed) < 1_000;
    assert_eq!(plan.run(&subject, &[entries(10)], &watch).len(), 1);
}
