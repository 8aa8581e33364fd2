//! Requests, what shadows predict for them, and what caches really do.

use larder_advise::{Answer, Cell, Heavy, Panel, Report, Sums, Tier, Traffic};
use larder_evict::{By, Capacity, Object, Policy, PolicyVisitor, Replay, Shape, spread};

use super::{SEED, panel, request, spec, sums};

/// A simulated cache for requests of objects with these numbers and sizes. Returns its hits.
pub(crate) struct Simulation<'r>(pub(crate) &'r [(u32, u64)], pub(crate) u64);

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
                hits += sums(1.0, size as f64);
            }
        }
        hits
    }
}

/// Requests in the order of their arrival: the numbers of objects, and their sizes.
pub(crate) struct Workload(pub(crate) Vec<(u32, u64)>);

impl Workload {
    /// Objects whose popularity follows Zipf's law, of 0.1 to 6 kB.
    pub(crate) fn zipf(objects: u32, requests: usize) -> Self {
        Self::seeded(1, objects, requests)
    }

    pub(crate) fn seeded(seed: u64, objects: u32, requests: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let skewed = |random: &mut fastrand::Rng| (f64::from(objects).powf(random.f64()) - 1.0) as u32;
        Self(
            (0..requests).map(|_| skewed(&mut random)).map(|id| (id + 1, 100 + spread(id) % 5_900)).collect(),
        )
    }

    /// Replaces a share of the requests by requests for one more object.
    pub(crate) fn with_one(mut self, share: f64, size: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(2);
        self.0.iter_mut().filter(|_| random.f64() < share).for_each(|request| *request = (0, size));
        self
    }

    /// Shows the requests to the shadows beside a cache under `policy`, which counts what it really does, and returns the report.
    pub(crate) fn watch(&self, policy: &str, size: u64, halvings: u32) -> Report {
        self.watch_and(policy, size, halvings, |_, _| ())
    }

    /// Does this with the shadows after each request.
    pub(crate) fn watch_and(
        &self,
        policy: &str,
        size: u64,
        halvings: u32,
        mut then: impl FnMut(usize, &mut Panel),
    ) -> Report {
        let mut panel = panel(policy, ["lru", "sieve", "gdsf"].map(spec).to_vec(), size, halvings);
        let (mut heavy, mut left) = (Heavy::default(), Heavy::DISTANCE);
        let mut real = spec(policy).build::<()>(Capacity { by: By::Bytes, amount: size }, 3);
        for (at, &(id, size)) in self.0.iter().enumerate() {
            let key = spread(id);
            let asked = sums(1.0, size as f64);
            let is_hit = real.get(key).is_some();
            if !is_hit {
                let _ = real.insert(Object { key, size, cost: 0 }, (), &mut Vec::new());
            }
            panel.count(1, Traffic { asked, hit: if is_hit { asked } else { Sums::default() } }, 0);
            if let Some(shadow) = panel.request(&request(key, size)) {
                panel.compare(&request(key, size), shadow, if is_hit { Answer::Hit } else { Answer::Miss });
            }
            left = left.saturating_sub(Heavy::step(size));
            if left == 0 {
                left = Heavy::DISTANCE / 16;
                heavy.count(key, size);
            }
            if at % 2_048 == 2_047 {
                panel.set_heavy(&heavy.choose(), heavy.largest());
            }
            then(at, &mut panel);
        }
        panel.report(Tier::Memory, 0)
    }

    /// Returns the hit ratio and the byte hit ratio of a cache.
    pub(crate) fn real(&self, policy: &str, size: u64) -> (f64, f64) {
        let bytes: f64 = self.0.iter().map(|(_, size)| *size as f64).sum();
        let hits = spec(policy).select(Simulation(&self.0, size));
        (hits.requests / self.0.len() as f64, hits.bytes / bytes)
    }

    /// Returns by how much predicted hit ratios are beyond the real ones, and their errors.
    pub(crate) fn differences(&self, report: &Report) -> impl Iterator<Item = (f64, f64)> {
        report.cells.iter().map(|Cell { policy, size, ratios, .. }| {
            (ratios.hit_ratio - self.real(policy, *size).0, ratios.hit_ratio_error)
        })
    }

    /// Checks that predicted ratios are real ones within four standard errors and a point, and that these errors are small.
    pub(crate) fn check(&self, report: &Report) {
        for Cell { policy, size, ratios, .. } in &report.cells {
            let real = self.real(policy, *size);
            let hits = (ratios.hit_ratio - real.0).abs() < 4.0 * ratios.hit_ratio_error + 0.01;
            let hit_bytes = (ratios.byte_hit_ratio - real.1).abs() < 4.0 * ratios.byte_hit_ratio_error + 0.01;
            let is_precise = ratios.hit_ratio_error < 0.02 && ratios.byte_hit_ratio_error < 0.05;
            assert!(hits && hit_bytes && is_precise, "{policy} of {size}: {ratios:?}, really {real:?}");
        }
    }
}
