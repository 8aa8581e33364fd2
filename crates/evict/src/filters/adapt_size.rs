//! AdaptSize: admits larger objects with lower probability, by a parameter that follows the requests.
//!
//! D. Berger, R. Sitaraman and M. Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a
//! content delivery network, NSDI 2017. An object is admitted with probability exp(-size / c). The c with the most hits is
//! computed periodically from a Markov model of the cache, with a sample of the latest requests.

use std::collections::BTreeMap;

use hashbrown::HashTable;

use crate::filter::Filter;
use crate::params::params;
use crate::policy::{Object, Residents, Slot};

/// The maximum number of objects in the sample.
const SAMPLE: usize = 2_048;
/// Requests before the first evaluation of the sample. The distance to the next evaluation doubles, up to the window.
const FIRST: u64 = 1_000;
/// Bisection steps that find the time an object stays, to a thousandth of an octave.
const HALVINGS: u32 = 15;

/// The range of the time an object may stay, as powers of two of the sampled time: longer times are unknown.
const SPANS: (f64, f64) = (-30.0, 0.0);

/// Admits objects with a probability that falls with their size. Admits all objects until enough requests have been
/// seen.
pub struct AdaptSize {
    params: AdaptSizeParams,
    random: fastrand::Rng,
    /// The size, in bytes, at which one object in e is admitted.
    scale: f64,
    sample: Sample,
    due: u64,
}

params! {
    /// The parameters of AdaptSize's learning.
    AdaptSizeParams {
        /// Requests between two adjustments.
        window: u64 = 30_000, read_window, "requests between two adjustments: 1000 or more";
    }
}

fn read_window(value: &str) -> Result<u64, String> {
    let window = value.parse().ok().filter(|window| *window >= FIRST);
    window.ok_or_else(|| "a number of requests, 1000 or more".into())
}

impl Filter for AdaptSize {
    type Params = AdaptSizeParams;

    const ABOUT: &'static str =
        "admits objects with a probability that falls with their size, tuned for most hits";

    fn new(params: AdaptSizeParams, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { params, random, scale: f64::INFINITY, sample: Sample::default(), due: FIRST }
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.sample.record(&residents.object(slot));
    }

    fn admit<R: Residents>(&mut self, new: &Object, residents: &R, _: impl Iterator<Item = Object>) -> bool {
        self.sample.record(new);
        if residents.now() >= self.due {
            self.due = residents.now() + residents.now().min(self.params.window);
            let share = self.sample.share();
            let capacity = residents.capacity();
            let model = Model::new(&self.sample, capacity.amount as f64 * share, |size| capacity.weigh(size));
            self.scale = model.best_scale();
            self.sample.fade();
        }
        self.random.f64() < (-(new.size as f64) / self.scale).exp()
    }

    fn heap_bytes(&self) -> usize {
        self.sample.objects.allocation_size()
    }
}

/// Requests for objects whose keys are in a sample of one in 2^`skips`.
#[derive(Default)]
struct Sample {
    objects: HashTable<AdmissionSample>,
    skips: u32,
}

#[derive(Clone, Copy)]
struct AdmissionSample {
    mixed: u64,
    size: u64,
    requests: f32,
}

impl Sample {
    #[inline]
    fn record(&mut self, object: &Object) {
        let mixed = object.key.wrapping_mul(0xA24B_AED4_963E_E407);
        let mixed = mixed ^ mixed >> 32;
        if mixed.trailing_zeros() >= self.skips {
            self.count(mixed, object.size);
        }
    }

    fn count(&mut self, mixed: u64, size: u64) {
        // Sampled keys have equal low bits, so the table uses the others.
        let hash = |mixed: u64| mixed.rotate_right(32);
        let unseen = AdmissionSample { mixed, size, requests: 0.0 };
        let entry = self.objects.entry(hash(mixed), |seen| seen.mixed == mixed, |seen| hash(seen.mixed));
        let mut entry = entry.or_insert(unseen);
        entry.get_mut().requests += 1.0;
        entry.get_mut().size = size;
        if self.objects.len() > SAMPLE {
            self.skips += 1;
            self.objects.retain(|seen| seen.mixed.trailing_zeros() >= self.skips);
        }
    }

    fn share(&self) -> f64 {
        0.5_f64.powi(self.skips as i32)
    }

    /// Halves the past counts, and removes objects without recent requests.
    fn fade(&mut self) {
        self.objects.iter_mut().for_each(|seen| seen.requests /= 2.0);
        self.objects.retain(|seen| seen.requests > 0.25);
    }
}

/// The sampled objects in the model: classes of about equal rate and size.
struct Model {
    rates: Vec<Rate>,
    /// The sample's share of the capacity.
    capacity: f64,
}

/// Objects with equal numbers of requests.
struct Rate {
    requests: f64,
    sizes: Vec<Class>,
}

/// Objects of similar size.
#[derive(Clone, Copy, Default)]
struct Class {
    objects: f64,
    bytes: f64,
    weight: f64,
}

impl Class {
    fn size(&self) -> f64 {
        self.bytes / self.objects
    }
}

impl Model {
    fn new(sample: &Sample, capacity: f64, weigh: impl Fn(u64) -> u64) -> Self {
        let mut classes: BTreeMap<u32, BTreeMap<u32, Class>> = BTreeMap::new();
        for seen in &sample.objects {
            let rate = classes.entry(half_octave(f64::from(seen.requests) * 4.0)).or_default();
            let class = rate.entry(half_octave(seen.size as f64)).or_default();
            class.objects += 1.0;
            class.bytes += seen.size as f64;
            class.weight += weigh(seen.size) as f64;
        }
        let rates = classes.into_iter().map(|(rate, sizes)| Rate {
            requests: f64::from(rate).mul_add(0.5, -2.0).exp2(),
            sizes: sizes.into_values().collect(),
        });
        Self { rates: rates.collect(), capacity }
    }

    /// Returns the scale with most hits, to a quarter of an octave. It is at least the typical size: the model assumes
    /// independent requests, so it favours refusals even if all sizes are equal.
    fn best_scale(&self) -> f64 {
        let classes = || self.rates.iter().flat_map(|rate| &rate.sizes);
        let objects: f64 = classes().map(|class| class.objects).sum();
        if objects == 0.0 {
            return f64::INFINITY;
        }
        let octaves: f64 = classes().map(|class| class.objects * class.size().max(1.0).log2()).sum();
        let typical = (octaves / objects).exp2();
        let most = classes().map(Class::size).fold(typical, f64::max);
        let better = |a: &(f64, f64), b: &(f64, f64)| a.0.total_cmp(&b.0);
        let rated = |scale: f64| (self.hits(scale), scale);
        // All octaves, then the quarters around the best octave.
        let octaves = (most * 16.0 / typical).log2() as i32;
        let coarse = (0..=octaves).map(|octave| rated(typical * f64::from(octave).exp2()));
        let Some(best) = coarse.chain([rated(f64::INFINITY)]).max_by(better) else { return f64::INFINITY };
        let fine = (-3..=3).map(|quarter| rated((best.1 * (f64::from(quarter) / 4.0).exp2()).max(typical)));
        fine.chain([best]).max_by(better).map_or(f64::INFINITY, |(_, scale)| scale)
    }

    /// Returns the hits that the model expects at `scale`.
    fn hits(&self, scale: f64) -> f64 {
        let (mut short, mut long) = SPANS;
        for _ in 0..HALVINGS {
            let middle = (short + long) / 2.0;
            match self.sum(f64::exp2(middle), scale, |_, class| class.weight) < self.capacity {
                true => short = middle,
                false => long = middle,
            }
        }
        self.sum(f64::exp2(short), scale, |rate, class| rate.requests * class.objects)
    }

    /// Returns the sum of `value` over the objects expected in the cache, if an object without requests stays for
    /// `time`.
    fn sum(&self, time: f64, scale: f64, value: impl Fn(&Rate, &Class) -> f64) -> f64 {
        let in_rate = |rate: &Rate| {
            let asked = (rate.requests * time).min(700.0).exp_m1();
            let resident = |class: &Class| {
                let odds = asked * (-class.size() / scale).exp();
                value(rate, class) * odds / (1.0 + odds)
            };
            rate.sizes.iter().map(resident).sum::<f64>()
        };
        self.rates.iter().map(in_rate).sum()
    }
}

/// Returns the number of half octaves up to `amount`.
fn half_octave(amount: f64) -> u32 {
    (amount.max(1.0).log2() * 2.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the model of a cache of `capacity` bytes, from groups of `(objects, requests for each, size)`.
    fn model(groups: &[(u64, u32, u64)], capacity: f64) -> Model {
        let mut sample = Sample::default();
        let mut key = 0;
        for &(objects, requests, size) in groups {
            for _ in 0..objects {
                key += 1;
                (0..requests).for_each(|_| sample.record(&Object { key, size, cost: 0 }));
            }
        }
        assert_eq!(sample.skips, 0);
        Model::new(&sample, capacity, |size| size)
    }

    #[test]
    fn admits_all_where_all_fits() {
        let model = model(&[(100, 4, 1_000), (10, 4, 100_000)], 1e9);
        let all = model.hits(f64::INFINITY);
        // 440 requests, and one object in e^4 is not requested again within the sampled time.
        assert!((all - 431.9).abs() < 0.1, "{all}");
        assert!(model.hits(model.best_scale()) >= all * 0.999);
    }

    #[test]
    fn keeps_the_large_out_where_the_small_would_fit() {
        let model = model(&[(1_000, 4, 1_000), (100, 4, 1_000_000)], 1.1e6);
        let scale = model.best_scale();
        assert!((10_000.0..300_000.0).contains(&scale), "{scale}");
        assert!(model.hits(scale) > 5.0 * model.hits(f64::INFINITY));
    }

    #[test]
    fn the_sample_stays_small_and_fair() {
        let mut sample = Sample::default();
        (0..100_000).for_each(|key| sample.record(&Object { key, size: 1, cost: 0 }));
        assert!(sample.objects.len() <= SAMPLE);
        let estimate = sample.objects.len() as f64 / sample.share();
        assert!((80_000.0..120_000.0).contains(&estimate), "{estimate}");
    }
}
