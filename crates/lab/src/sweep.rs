//! One trace through many policies at many capacities, on several threads.
//!
//! A sampled trace is replayed through caches of proportional size (spatial sampling: Waldspurger et al., SHARDS, FAST
//! 2015), and the result is an estimate for the whole trace, with its error.

use std::num::NonZeroUsize;

use larder_evict::{Capacity, Spec};

use crate::parallel::in_parallel;
use crate::replay::{Counts, Run, ratio};
use crate::subject::Subject;
use crate::trace::Trace;

/// The half-width of the 95% confidence interval in standard errors.
const CONFIDENCE: f64 = 1.96;

/// Called by several threads with the number of further requests that are done; returns whether to continue.
pub type Watch<'a> = dyn Fn(usize) -> bool + Sync + 'a;

/// The policies to run over a trace, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The policies.
    pub specs: Vec<Spec>,
    /// The share of the requests, 0 to below 1, that fill the caches before counting begins.
    pub warmup: f64,
    /// The seed of the policies' randomness.
    pub seed: u64,
    /// The number of concurrent cells.
    pub threads: NonZeroUsize,
}

/// One policy at one capacity. In a sample, counts are estimates for the whole trace.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The trace's name.
    pub trace: String,
    /// The policy.
    pub spec: Spec,
    /// The capacity.
    pub capacity: Capacity,
    /// Requests after the warm-up.
    pub requests: u64,
    /// Hits after the warm-up.
    pub hits: u64,
    /// Hits over requests.
    pub hit_ratio: f64,
    /// The half-width of the 95% confidence interval of a sample's hit ratio; `None` without sampling.
    pub error: Option<f64>,
    /// Bytes of hits over bytes requested, after the warm-up.
    pub byte_hit_ratio: f64,
    /// Objects evicted for lack of room, after the warm-up.
    pub evictions: u64,
    /// The speed of the replay, on one core.
    pub requests_per_second: f64,
    /// The allocation of the cache and its policy over the largest number of objects at once, in bytes.
    pub metadata_bytes_per_object: f64,
    /// The cost of a month of this traffic; `None` until somebody who knows prices sets it.
    pub cost_a_month: Option<f64>,
}

impl Plan {
    /// Runs every policy at each of `capacities`. `watch` is called from several threads with the number of further
    /// requests that are done, and returns whether to continue. Cells that it stopped are omitted; the others are in
    /// the order of capacity, then policy, as given.
    pub fn run(&self, subject: &Subject, capacities: &[Capacity], watch: &Watch<'_>) -> Vec<Cell> {
        let cells = self.cells(capacities);
        in_parallel(&cells, self.threads, |&(capacity, spec)| self.cell(subject, spec, capacity, watch))
    }

    /// Returns every policy at each of `capacities`, in the order of capacity, then policy, as given.
    pub(crate) fn cells(&self, capacities: &[Capacity]) -> Vec<(Capacity, &Spec)> {
        let at = |&capacity| self.specs.iter().map(move |spec| (capacity, spec));
        capacities.iter().flat_map(at).collect()
    }

    /// Returns the number of requests that fill the caches before counting begins.
    pub(crate) fn first_counted(&self, trace: &Trace) -> usize {
        (trace.len() as f64 * self.warmup) as usize
    }

    fn cell(
        &self,
        subject: &Subject,
        spec: &Spec,
        capacity: Capacity,
        watch: &dyn Fn(usize) -> bool,
    ) -> Option<Cell> {
        let trace = &subject.trace;
        let is_sampled = subject.sample < 1.0;
        let run = Run {
            trace,
            spec,
            capacity: Capacity { amount: subject.scaled(capacity.amount), ..capacity },
            warmup: self.first_counted(trace),
            by_object: is_sampled,
            seed: self.seed,
        };
        let counts = run.go(watch)?;
        let estimate = if is_sampled { subject.estimate(&counts) } else { Estimate::exact(&counts) };
        Some(Cell {
            trace: subject.name.clone(),
            spec: spec.clone(),
            capacity,
            requests: estimate.requests,
            hits: estimate.hits,
            hit_ratio: ratio(estimate.hits as f64, estimate.requests as f64),
            error: estimate.error,
            byte_hit_ratio: counts.byte_hit_ratio(),
            evictions: estimate.evictions,
            requests_per_second: ratio(trace.len() as f64, counts.elapsed.as_secs_f64()),
            metadata_bytes_per_object: counts.metadata_bytes_per_object,
            cost_a_month: None,
        })
    }
}

/// The estimated counts for the whole trace.
struct Estimate {
    requests: u64,
    hits: u64,
    evictions: u64,
    error: Option<f64>,
}

impl Estimate {
    fn exact(counts: &Counts) -> Self {
        Self { requests: counts.requests, hits: counts.hits, evictions: counts.evictions, error: None }
    }
}

impl Subject {
    /// Returns the estimate. Each object is in the sample with the same probability, so misses scale by its inverse
    /// (Horvitz-Thompson). The number of requests is known: whether a popular object is in the sample hardly affects a
    /// ratio, because it misses rarely. The error is that estimator's, for the misses of each object; it excludes the
    /// effect of the smaller cache.
    fn estimate(&self, counts: &Counts) -> Estimate {
        let counted = ratio(counts.requests as f64, self.trace.len() as f64);
        let requests = self.requests as f64 * counted;
        let misses = (counts.requests - counts.hits) as f64 / self.sample;
        let variance = (1.0 - self.sample) * counts.squared_misses;
        let error = ratio(CONFIDENCE * variance.sqrt() / self.sample, requests);
        let requests = requests.round() as u64;
        Estimate {
            requests,
            hits: requests.saturating_sub(misses.round() as u64),
            evictions: (counts.evictions as f64 / self.sample).round() as u64,
            error: Some(error.min(1.0)),
        }
    }
}

impl Cell {
    /// Returns the misses.
    pub fn misses(&self) -> u64 {
        self.requests - self.hits
    }
}
