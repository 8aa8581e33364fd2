//! Least hit density: the expected hits of an object for the space and time it takes, estimated from similar objects.
//!
//! Objects are similar if the order of magnitude of the sum of their last two intervals between requests is the same,
//! and the time since then, too. The paper coarsens ages to a grain that it tunes; here ages are counted in bins that
//! widen with age, eight to an octave, which suits every cache.

use crate::parts::urn::{Samples, Urn};
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Evicts the object with the lowest hit density, among `samples` drawn at random.
pub struct Lhd {
    urn: Urn<Wait>,
    samples: u32,
    classes: Vec<Class>,
    /// Hits and evictions until the densities are computed again.
    countdown: u64,
}

/// The waiting times of an object.
#[derive(Clone, Copy)]
struct Wait {
    /// The time when the object was stored or last requested, in lookups modulo 2^32.
    since: u32,
    /// Lookups between the last two requests.
    before: u32,
    class: u8,
}

/// A class of similar objects, by age.
#[derive(Clone)]
struct Class {
    hits: [f32; BINS],
    evictions: [f32; BINS],
    densities: [f32; BINS],
}

/// Ages below this have a bin each.
const EXACT: u32 = 16;
const PER_OCTAVE: u32 = 8;
const BINS: usize = (EXACT + (u32::BITS - EXACT.ilog2()) * PER_OCTAVE) as usize;

/// A class covers two octaves of the sum of the last two intervals; the last class is for objects without a second
/// request.
const CLASSES: usize = u32::BITS as usize / 2 + 1;
const NEW: u8 = CLASSES as u8 - 1;

/// The minimum number of hits and evictions after which densities are computed again; the number of residents, if that
/// is larger.
const PERIOD: u64 = 4_096;

/// The weight of a count after one period.
const DECAY: f32 = 0.9;

#[inline]
fn bin(age: u32) -> usize {
    if age < EXACT {
        return age as usize;
    }
    let octave = age.ilog2();
    let within = age >> (octave - PER_OCTAVE.ilog2()) & (PER_OCTAVE - 1);
    (EXACT + (octave - EXACT.ilog2()) * PER_OCTAVE + within) as usize
}

/// Returns the number of ages in a bin.
fn width(bin: usize) -> f32 {
    match (bin as u32).checked_sub(EXACT) {
        None => 1.0,
        Some(above) => (1_u32 << (above / PER_OCTAVE + EXACT.ilog2() - PER_OCTAVE.ilog2())) as f32,
    }
}

impl Class {
    /// Returns class number `class` of [`CLASSES`], without any data.
    fn new(class: usize) -> Self {
        let mut new = Self { hits: [0.0; BINS], evictions: [0.0; BINS], densities: [0.0; BINS] };
        new.learn(class);
        new
    }

    /// Computes the densities: for all objects that reach an age, the number of future hits over the lookups spent
    /// waiting for them.
    ///
    /// One event is fictitious: a hit that is likelier the shorter the intervals of the class are, after the object has
    /// waited as long again. It is the only data at first, and real data outweigh it soon.
    fn learn(&mut self, class: usize) {
        let prior = (CLASSES - class) as f32 / CLASSES as f32;
        let (mut hits, mut events, mut waited) = (0.0, 0.0, 0.0);
        let mut age = (0..BINS).map(width).sum::<f32>();
        for bin in (0..BINS).rev() {
            self.hits[bin] *= DECAY;
            self.evictions[bin] *= DECAY;
            hits += self.hits[bin];
            events += self.hits[bin] + self.evictions[bin];
            waited += events * width(bin);
            self.densities[bin] = (hits + prior) / (waited + age);
            age -= width(bin);
        }
    }
}

impl Wait {
    #[inline]
    fn age(&self, now: u64) -> u32 {
        (now as u32).wrapping_sub(self.since)
    }
}

impl Lhd {
    #[inline]
    fn count_down(&mut self) {
        self.countdown -= 1;
        if self.countdown == 0 {
            (0..).zip(&mut self.classes).for_each(|(number, class)| class.learn(number));
            self.countdown = PERIOD.max(self.urn.len() as u64);
        }
    }
}

impl Policy for Lhd {
    type Params = Samples<32>;

    const ABOUT: &'static str = "evicts the object with the fewest expected hits for its space and time";
    const COST: &'static str = "O(samples)";

    fn new(_capacity: Capacity, samples: Samples<32>, seed: u64) -> Self {
        let classes = (0..CLASSES).map(Class::new).collect();
        Self { urn: Urn::new(seed), samples: samples.count(), classes, countdown: PERIOD }
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.urn.insert(slot, Wait { since: residents.now() as u32, before: 0, class: NEW });
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let wait = &mut self.urn[slot];
        let age = wait.age(residents.now());
        self.classes[usize::from(wait.class)].hits[bin(age)] += 1.0;
        let class = age.saturating_add(wait.before).max(1).ilog2() as u8 / 2;
        *wait = Wait { since: residents.now() as u32, before: age, class };
        self.count_down();
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let (now, capacity) = (residents.now(), residents.capacity());
        let classes = &self.classes;
        let density = |slot, wait: &Wait| {
            let weight = capacity.weigh(residents.object(slot).size).max(1);
            classes[usize::from(wait.class)].densities[bin(wait.age(now))] / weight as f32
        };
        let victim = self.urn.lowest(self.samples, density)?;
        let wait = self.urn[victim];
        self.classes[usize::from(wait.class)].evictions[bin(wait.age(now))] += 1.0;
        self.urn.remove(victim);
        self.count_down();
        Some(victim)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.urn.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.urn.heap_bytes() + self.classes.capacity() * size_of::<Class>()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.urn.validate_holds_all(residents)
    }
}
