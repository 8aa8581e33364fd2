//! Shadows are compared with caches that see every request.

use larder_advise::{
    Advice, Cell, Change, Freshness, Heavy, Panel, PanelSettings, Report, Request, Sample, Sums, Tier,
    Traffic,
};
use larder_evict::{By, Capacity, Object, Policy, PolicyVisitor, Replay, Shape, Spec, spread};
use proptest::prelude::*;

const SEED: u64 = 0x5851_f42d_4c95_7f2d;
const FOREVER: Option<Freshness> = Some(Freshness { lifetime: u32::MAX, stale: 0 });

fn spec(name: &str) -> Spec {
    name.parse().expect("a policy")
}

/// Returns the shadows beside a cache of `size` bytes that runs `policy`, for one key in 2^`halvings`.
fn panel(policy: &str, others: Vec<Spec>, size: u64, halvings: u32) -> Panel {
    Panel::new(PanelSettings {
        by: By::Bytes,
        sizes: Panel::sizes_beside(size, |kept| (kept, u64::MAX)),
        running: spec(policy),
        others,
        sample: (0..halvings).fold(Sample::all(SEED), |sample, _| sample.half()),
    })
}

fn request(key: u64, size: u64) -> Request {
    let object = Object { key, size, cost: 0 };
    let (requests, bytes, change) = (1, size, Change::None);
    Request {
        object,
        now: 1,
        requests,
        bytes,
        freshness: FOREVER,
        is_forced: false,
        is_shared: false,
        change,
    }
}

/// A simulated cache for requests of objects with these numbers and sizes. Returns its hits.
struct Simulation<'r>(&'r [(u32, u64)], u64);

impl PolicyVisitor for Simulation<'_> {
    type Output = Sums;

    fn run<P: Policy>(self, params: P::Params) -> Sums {
        let Self(requests, amount) = self;
        let objects = requests.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
        let shape = Shape { objects, sized: true, costed: false };
        let mut cache = Replay::<P>::new(Capacity { by: By::Bytes, amount }, shape, params, SEED);
        let mut hits = Sums::default();
        for &(id, size) in requests {
            if cache.request(larder_evict::Request { id, size, cost: 0, next: u64::MAX }) {
                hits += Sums { requests: 1.0, bytes: size as f64 };
            }
        }
        hits
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn shadows_equal_the_simulator_on_the_requests_of_the_sample(
        ids in prop::collection::vec(0..60_u32, 1..400),
        halvings in 0..3_u32,
    ) {
        let mut panel = panel("sieve", Panel::usual_policies(), 1_600, halvings);
        let sizes = |id: u32| u64::from(id % 13 + 1) * 7;
        let in_sample: Vec<_> = ids.iter().filter(|id| panel.sample().contains(spread(**id))).map(|id| (*id, sizes(*id))).collect();
        ids.iter().for_each(|id| _ = panel.request(&request(spread(*id), sizes(*id))));
        let asked = Sums { requests: in_sample.len() as f64, bytes: in_sample.iter().map(|(_, size)| *size as f64).sum() };
        let stands_for = f64::from(1 << halvings);
        let all = Sums { requests: asked.requests * stands_for, bytes: asked.bytes * stands_for };
        panel.count(1, Traffic { asked: all, hit: Sums::default() }, 0);
        for cell in panel.report(Tier::Memory, 0).cells {
            let hits = spec(&cell.policy).select(Simulation(&in_sample, cell.size >> halvings));
            let found = (cell.ratios.hit_ratio * asked.requests, cell.ratios.byte_hit_ratio * asked.bytes);
            let is_equal = (found.0 - hits.requests).abs() < 1e-6 && (found.1 - hits.bytes).abs() < 1e-3;
            prop_assert!(is_equal, "{} at {}: {found:?}, simulated {hits:?}", cell.policy, cell.size);
        }
    }
}

/// Requests in the order of their arrival: the numbers of objects, and their sizes.
struct Workload(Vec<(u32, u64)>);

impl Workload {
    /// Objects whose popularity follows Zipf's law, of 0.1 to 6 kB.
    fn zipf(objects: u32, requests: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let skewed = |random: &mut fastrand::Rng| (f64::from(objects).powf(random.f64()) - 1.0) as u32;
        Self(
            (0..requests).map(|_| skewed(&mut random)).map(|id| (id + 1, 100 + spread(id) % 5_900)).collect(),
        )
    }

    /// Replaces a share of the requests by requests for one more object.
    fn with_one(mut self, share: f64, size: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(2);
        self.0.iter_mut().filter(|_| random.f64() < share).for_each(|request| *request = (0, size));
        self
    }

    /// Shows the requests to the shadows beside a cache under `policy`, which counts what it really does, and returns the report.
    fn watch(&self, policy: &str, size: u64, halvings: u32) -> Report {
        let mut panel = panel(policy, ["lru", "sieve", "gdsf"].map(spec).to_vec(), size, halvings);
        let mut heavy = Heavy::default();
        let mut real = spec(policy).build::<()>(Capacity { by: By::Bytes, amount: size }, 3);
        for (at, &(id, size)) in self.0.iter().enumerate() {
            let key = spread(id);
            let asked = Sums { requests: 1.0, bytes: size as f64 };
            let is_hit = real.get(key).is_some();
            if !is_hit {
                let _ = real.insert(Object { key, size, cost: 0 }, (), &mut Vec::new());
            }
            panel.count(1, Traffic { asked, hit: if is_hit { asked } else { Sums::default() } }, 0);
            panel.request(&request(key, size));
            if at % 8 == 0 {
                heavy.count(key, size);
            }
            if at % 2_048 == 2_047 {
                panel.set_heavy(&heavy.choose());
            }
        }
        panel.report(Tier::Memory, 0)
    }

    /// Checks that predicted ratios are real ones within four standard errors and a point, and that these errors are small.
    fn check(&self, report: &Report) {
        let bytes: f64 = self.0.iter().map(|(_, size)| *size as f64).sum();
        for Cell { policy, size, ratios, .. } in &report.cells {
            let real = spec(policy).select(Simulation(&self.0, *size));
            let real = (real.requests / self.0.len() as f64, real.bytes / bytes);
            let hits = (ratios.hit_ratio - real.0).abs() < 4.0 * ratios.hit_ratio_error + 0.01;
            let hit_bytes = (ratios.byte_hit_ratio - real.1).abs() < 4.0 * ratios.byte_hit_ratio_error + 0.01;
            let is_precise = ratios.hit_ratio_error < 0.02 && ratios.byte_hit_ratio_error < 0.05;
            assert!(hits && hit_bytes && is_precise, "{policy} of {size}: {ratios:?}, really {real:?}");
        }
    }
}

#[test]
fn one_key_in_four_predicts_all_cells() {
    let workload = Workload::zipf(20_000, 30_000);
    let report = workload.watch("lru", 8_000_000, 2);
    workload.check(&report);
    assert!((report.check.predicted - report.check.measured).abs() < 0.02);
}

#[test]
fn a_key_with_nearly_half_of_the_requests_does_not_mislead() {
    let workload = Workload::zipf(20_000, 30_000).with_one(0.45, 500);
    workload.check(&workload.watch("lru", 8_000_000, 2));
}

#[test]
fn an_object_with_nearly_half_of_the_bytes_does_not_mislead() {
    let workload = Workload::zipf(20_000, 30_000).with_one(0.01, 200_000);
    workload.check(&workload.watch("lru", 8_000_000, 2));
}

#[test]
fn a_better_policy_is_advised_once_the_cache_evicts() {
    let workload = Workload::zipf(20_000, 30_000);
    let report = workload.watch("fifo", 2_000_000, 0);
    let Some(Advice { gain, error, .. }) = report.advice else { panic!("{:?}", report.doubt) };
    assert!(gain > 0.02 && gain > 2.0 * error, "{gain} {error}");
    let large = workload.watch("fifo", 4_000_000_000, 0);
    assert_eq!(large.advice, None);
    assert!(large.doubt.is_some_and(|doubt| doubt.contains("only 0 objects were evicted")));
}

#[test]
fn lifetimes_and_purges_hold_in_shadows() {
    let mut panel = panel("lru", Vec::new(), 10_000, 0);
    let fresh = Some(Freshness { lifetime: 60, stale: 0 });
    let stale = Some(Freshness { lifetime: 60, stale: 30 });
    let at = |now, freshness, change| Request { now, freshness, change, ..request(1, 10) };
    let mut expect = |request: Request, is_hit: bool| {
        let answer = panel.request(&request).map(|answer| answer == larder_advise::Answer::Hit);
        assert_eq!(answer, Some(is_hit), "{request:?}");
    };
    expect(at(100, fresh, Change::None), false);
    expect(at(159, fresh, Change::None), true);
    expect(at(160, fresh, Change::None), false);
    expect(at(219, fresh, Change::None), true);
    expect(at(220, fresh, Change::Refreshed(200)), true);
    expect(at(221, fresh, Change::Removed), false);
    expect(at(222, fresh, Change::Expired), false);
    expect(at(223, fresh, Change::None), true);
    expect(at(300, stale, Change::None), true);
    expect(at(301, stale, Change::Expired), false);
    expect(Request { is_forced: true, ..at(302, fresh, Change::None) }, false);
    expect(at(400, None, Change::None), false);
    expect(at(401, None, Change::None), false);
}

#[test]
fn an_adversary_steers_figures_by_no_more_than_his_share() {
    let honest = Workload::zipf(5_000, 20_000);
    let mut both = Vec::new();
    for (at, request) in honest.0.iter().enumerate() {
        both.push(*request);
        // A tenth of the requests: a loop over objects that no cache keeps.
        if at % 9 == 0 {
            both.push((10_000 + at as u32, 1_000));
        }
    }
    let (alone, attacked) = (honest.watch("lru", 2_000_000, 2), Workload(both).watch("lru", 2_000_000, 2));
    for (alone, attacked) in alone.cells.iter().zip(&attacked.cells) {
        let difference = (alone.ratios.hit_ratio - attacked.ratios.hit_ratio).abs();
        assert!(difference < 0.15, "{} at {}: {difference}", alone.policy, alone.size);
    }
}

#[test]
fn shadows_take_less_than_16_megabytes() {
    let mut panel = panel("adaptive", Panel::usual_policies(), 1 << 40, 0);
    for id in 0..100_000 {
        panel.request(&request(spread(id), 1 << 27));
    }
    assert!(panel.sample().share() < 0.2, "{}", panel.sample().share());
    assert!(panel.bytes() < 16_000_000, "{} {}", panel.bytes(), panel.sample().share());
}
