//! The simulation of a cache in front of the services: the requests of a live run, the services' own answers to them, and
//! the eviction code of a live cache.
//!
//! Answers change while they are stored, which a trace cannot express. So the requests are sent to the services once,
//! in sequence, and each answer is identified by its content.

use std::collections::HashMap;

use larder_evict::{By, Capacity, InsertResult, Object, Spec};
use larder_lab::replay::ratio;
use larder_lab::workload::{Latency, Method, Pages, Rate, Sizes};
use serde::{Deserialize, Serialize};

use super::conditions::ENTITIES;
use super::conditions::{WRITES, workload};
use crate::Halt;
use crate::experiments::services::cell::{ROOMY, Room};
use crate::services::{AnswerTraits, Rehearsal};

/// GETs, numbered by path in the order of first requests, with the services' answers.
pub(super) struct RequestRehearsal(Vec<(u64, AnswerTraits)>);

/// The hit ratio at a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SimulatedRatio {
    /// The capacity in bytes.
    pub(super) capacity: u64,
    pub(super) hit_ratio: f64,
}

/// The hit ratios of the first requests and of all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Growth {
    pub(super) repetition: u64,
    pub(super) first: f64,
    pub(super) all: f64,
}

impl RequestRehearsal {
    /// Sends the first `requests` requests of `seed` to new services. Fails if the services cannot be created.
    pub(super) fn new(requests: u64, seed: u64) -> Result<Self, Halt> {
        let services = Rehearsal::new(ENTITIES).map_err(|error| Halt::because("cannot simulate", error))?;
        let pages = Pages { sizes: Sizes::Fixed(0), latency: Latency::Constant(0) };
        let (mut numbers, mut reads) = (HashMap::new(), Vec::new());
        for step in workload(requests, WRITES).workload(&pages, Rate(1.0), seed).steps {
            let said = services.answer(&step);
            if step.method == Method::Get {
                let next = numbers.len() as u64;
                reads.push((*numbers.entry(step.path).or_insert(next), said));
            }
        }
        Ok(Self(reads))
    }

    /// Returns the bytes that a stored answer takes in addition to its content, if the answers in a cache with
    /// unlimited room take the bytes in `room`.
    pub(super) fn overhead(&self, room: &Room) -> u64 {
        let last: HashMap<u64, u64> = self.0.iter().map(|(key, said)| (*key, said.length)).collect();
        room.bytes.saturating_sub(last.values().sum()) / room.objects.max(1)
    }

    /// Returns the hit ratios of the first tenth of the GETs and of all, in a cache with unlimited room.
    pub(super) fn growth(&self, repetition: u64, spec: &Spec) -> Growth {
        let ratio = |count: usize| Self(self.0[..count].to_vec()).hit_ratio(spec, ROOMY.amount, 0);
        Growth { repetition, first: ratio(self.0.len() / 10), all: ratio(self.0.len()) }
    }

    /// Returns hits over GETs in a cache of `capacity` bytes under `spec`. A stored answer counts as a hit if it equals
    /// the services' current answer, and that has status 200.
    pub(super) fn hit_ratio(&self, spec: &Spec, capacity: u64, overhead: u64) -> f64 {
        let mut cache = spec.build::<u64>(Capacity { by: By::Bytes, amount: capacity }, 1);
        let (mut hits, mut dropped) = (0_u32, Vec::new());
        for &(key, AnswerTraits { status, length, content }) in &self.0 {
            // The keys are spread like the hashes of a live cache.
            let key = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            if cache.get(key) == Some(&content) && status == 200 {
                hits += 1;
                continue;
            }
            let object = Object { key, size: length + overhead, cost: 0 };
            // An object may be refused; the next request for it goes to the services.
            let _: InsertResult<u64> = cache.insert(object, content, &mut dropped);
            dropped.clear();
        }
        ratio(f64::from(hits), self.0.len() as f64)
    }

    /// Returns the hit ratio at `count` sizes up to `full` bytes, with a constant factor between sizes.
    pub(super) fn curve(&self, spec: &Spec, full: u64, overhead: u64, count: u32) -> Vec<SimulatedRatio> {
        let least = full as f64 / 100.0;
        let at = |step: u32| {
            let capacity = least * 110_f64.powf(f64::from(step) / f64::from(count.max(2) - 1));
            let capacity = capacity as u64;
            SimulatedRatio { capacity, hit_ratio: self.hit_ratio(spec, capacity, overhead) }
        };
        (0..count).map(at).collect()
    }
}

/// Returns the smallest size on `curve` from which on the hit ratio is at least `share` of that at the largest size.
pub(super) fn knee(curve: &[SimulatedRatio], share: f64) -> Option<SimulatedRatio> {
    let enough = curve.last()?.hit_ratio * share;
    let short = curve.iter().rposition(|step| step.hit_ratio < enough);
    curve.get(short.map_or(0, |at| at + 1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> Spec {
        Spec::parse(name).unwrap()
    }

    fn said(content: u64) -> AnswerTraits {
        AnswerTraits { status: 200, length: 10, content }
    }

    #[test]
    fn a_read_of_a_changed_or_deleted_resource_is_no_hit() {
        let gone = AnswerTraits { status: 404, ..said(9) };
        let reads =
            [(1, said(1)), (1, said(1)), (1, said(2)), (1, said(2)), (1, gone), (1, gone), (1, said(2))];
        assert_eq!(RequestRehearsal(reads.to_vec()).hit_ratio(&spec("lru"), 1_000, 0), 2.0 / 7.0);
    }

    #[test]
    fn hits_grow_where_answers_are_requested_again() {
        let reads = RequestRehearsal((0..40).map(|at| (at % 8, said(at % 8))).collect());
        assert_eq!(reads.growth(3, &spec("lru")), Growth { repetition: 3, first: 0.0, all: 32.0 / 40.0 });
    }

    #[test]
    fn an_answer_that_does_not_fit_in_the_cache_is_no_hit() {
        let reads = RequestRehearsal((0..40).map(|at| (at % 4, said(at % 4))).collect());
        assert_eq!(reads.hit_ratio(&spec("lru"), 4 * 15, 5), 36.0 / 40.0);
        assert_eq!(reads.hit_ratio(&spec("lru"), 3 * 15, 5), 0.0);
    }

    #[test]
    fn the_services_are_asked_for_what_clients_will_ask_for() {
        let reads = RequestRehearsal::new(400, 1).unwrap();
        let count = reads.0.len();
        assert!((280..360).contains(&count), "{count}");
        let room = Room { bytes: 1 << 20, objects: 100, hit_ratio: 0.0, resident: 0 };
        let overhead = reads.overhead(&room);
        assert!((5_000..10_486).contains(&overhead), "{overhead}");
        let curve = reads.curve(&spec("lru"), 300_000, 250, 8);
        assert_eq!((curve.len(), curve[0].capacity), (8, 3_000));
        assert!(curve.is_sorted_by(|small, large| small.hit_ratio <= large.hit_ratio), "{curve:?}");
        assert!(curve[7].hit_ratio > 0.3, "{curve:?}");
    }

    #[test]
    fn the_knee_is_where_the_curve_stays_high() {
        let curve: Vec<_> = (1..)
            .zip([0.1, 0.72, 0.6, 0.75, 0.79, 0.8])
            .map(|(capacity, hit_ratio)| SimulatedRatio { capacity, hit_ratio })
            .collect();
        let at = |share| knee(&curve, share).map(|step| step.capacity);
        assert_eq!((at(0.9), at(0.99), at(0.1)), (Some(4), Some(6), Some(1)));
        assert_eq!(knee(&[], 0.9), None);
    }
}
