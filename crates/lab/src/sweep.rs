//! One trace through many policies at many capacities, on several threads.
//!
//! A sampled trace is replayed through caches of proportional size (spatial sampling: Waldspurger et al., SHARDS, FAST
//! 2015), and the result is an estimate for the whole trace, with its error.

use std::fmt::{self, Display};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use larder_evict::{By, Capacity, Spec};

use crate::replay::{Counts, Run, ratio};
use crate::trace::Trace;

/// The half-width of the 95% confidence interval in standard errors.
const CONFIDENCE: f64 = 1.96;

/// A capacity as users write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A share of the trace's distinct bytes or objects, above 0.
    Share(f64),
    /// Bytes: invalid if entries are counted.
    Bytes(u64),
    /// Bytes or entries, according to the counted unit.
    Units(u64),
}

/// The simulation to run over a trace.
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

/// A trace with the properties of its file.
#[derive(Debug)]
pub struct Subject {
    /// The name.
    pub name: String,
    /// Its requests, or a sample of them.
    pub trace: Trace,
    /// The intended share of the objects in the sample: 1 for all.
    pub sample: f64,
    /// The number of requests before sampling.
    pub requests: u64,
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
}

/// The reason why a plan does not suit a trace: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuitable(String);

impl Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsuitable {}

impl Subject {
    /// Returns a subject with a whole trace.
    pub fn whole(name: &str, trace: Trace) -> Self {
        let requests = trace.len() as u64;
        Self { name: name.into(), trace, sample: 1.0, requests }
    }

    /// Returns the weight of all objects, in the unit `by`; for a sample, an estimate for the whole trace.
    pub fn distinct(&self, by: By) -> u64 {
        let kept = match by {
            By::Bytes => self.trace.distinct_bytes(),
            By::Entries => u64::from(self.trace.shape().objects),
        };
        (kept as f64 / self.sample).round() as u64
    }

    /// Returns the default unit of capacities.
    pub fn usual_unit(&self) -> By {
        if self.trace.shape().sized { By::Bytes } else { By::Entries }
    }

    /// Returns `size` as a capacity for the whole trace, counted in `by`. It is at most the total of all objects, since
    /// everything fits in more than that.
    ///
    /// # Errors
    /// If it is 0, or in the wrong unit.
    pub fn capacity(&self, size: Size, by: By) -> Result<Capacity, Unsuitable> {
        let unsuitable = |why: String| Err(Unsuitable(format!("{}: {why}", self.name)));
        let all = self.distinct(by);
        let unit = unit(by);
        let amount = match size {
            Size::Share(share) => (share * all as f64) as u64,
            Size::Bytes(bytes) if by == By::Entries => {
                return unsuitable(format!(
                    "a capacity of {bytes} bytes, but entries are counted; write it without a unit, or use --by bytes"
                ));
            }
            Size::Bytes(amount) | Size::Units(amount) => amount.min(all),
        };
        match (amount, size) {
            (0, Size::Share(share)) => {
                unsuitable(format!("{}% of its {all} {unit} is a capacity of 0", share * 100.0))
            }
            (0, _) => unsuitable("a capacity of 0 keeps nothing".into()),
            _ if self.scaled(amount) == 0 => unsuitable(format!(
                "a capacity of {amount} {unit} is 0 in a sample of {}; take a larger sample",
                self.sample
            )),
            _ => Ok(Capacity { by, amount }),
        }
    }

    /// Returns the sample's part of `amount` of the whole trace.
    fn scaled(&self, amount: u64) -> u64 {
        if self.sample < 1.0 { (amount as f64 * self.sample).round() as u64 } else { amount }
    }
}

impl Plan {
    /// Runs every policy at each of `capacities`. `watch` is called from several threads with the number of further
    /// requests that are done, and returns whether to continue. Cells that it stopped are omitted; the others are in
    /// the order of capacity, then policy, as given.
    pub fn run(
        &self,
        subject: &Subject,
        capacities: &[Capacity],
        watch: &(dyn Fn(usize) -> bool + Sync),
    ) -> Vec<Cell> {
        let cells: Vec<_> = capacities
            .iter()
            .flat_map(|&capacity| self.specs.iter().map(move |spec| (capacity, spec)))
            .collect();
        in_parallel(&cells, self.threads, |&(capacity, spec)| self.cell(subject, spec, capacity, watch))
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
            warmup: (trace.len() as f64 * self.warmup) as usize,
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
        })
    }
}

/// Returns the results of `run` for each of `jobs`, in their order, computed on several threads. A thread stops at the
/// first job for which `run` returns `None`.
pub(crate) fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    threads: NonZeroUsize,
    run: impl Fn(&J) -> Option<R> + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs.len())));
    let work = || {
        while let Some((at, job)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, jobs.get(at)?)))
        {
            let Some(result) = run(job) else { return };
            done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.get().min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
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

/// A policy with more misses in a larger cache: Belady's anomaly (Belady, Nelson and Shedler, 1969).
#[derive(Clone, Debug, PartialEq)]
pub struct Anomaly {
    /// The trace's name.
    pub trace: String,
    /// The policy.
    pub spec: Spec,
    /// The smaller capacity and its misses.
    pub smaller: (Capacity, u64),
    /// The larger capacity and its misses, which are more.
    pub larger: (Capacity, u64),
}

impl Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (few, many) = (self.smaller, self.larger);
        write!(
            f,
            "{}: {} misses more with more room (Belady's anomaly): {} with {} {}, {} with {}",
            self.trace,
            self.spec,
            few.1,
            few.0.amount,
            unit(few.0.by),
            many.1,
            many.0.amount
        )
    }
}

/// Returns for each trace and policy the worst pair of capacities with more misses at the larger one, if there is any.
/// In a sample, a pair counts only if the error does not explain it.
pub fn anomalies(cells: &[Cell]) -> Vec<Anomaly> {
    let mut curves: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        let same = |curve: &&mut Vec<&Cell>| curve[0].trace == cell.trace && curve[0].spec == cell.spec;
        match curves.iter_mut().find(same) {
            Some(curve) => curve.push(cell),
            None => curves.push(vec![cell]),
        }
    }
    curves.into_iter().filter_map(anomaly).collect()
}

/// Returns the worst pair of one policy's cells.
fn anomaly(mut cells: Vec<&Cell>) -> Option<Anomaly> {
    cells.sort_by_key(|cell| cell.capacity.amount);
    let mut best = *cells.first()?;
    let mut worst: Option<(&Cell, &Cell)> = None;
    let excess = |few: &Cell, many: &Cell| many.misses().saturating_sub(few.misses());
    for &cell in &cells {
        let is_larger = cell.capacity.amount > best.capacity.amount;
        let doubt = (cell.error.unwrap_or(0.0) + best.error.unwrap_or(0.0)) * cell.requests as f64;
        let before = worst.map_or(0, |(few, many)| excess(few, many));
        if is_larger && excess(best, cell) > before.max(doubt as u64) {
            worst = Some((best, cell));
        }
        if cell.misses() < best.misses() {
            best = cell;
        }
    }
    worst.map(|(few, many)| Anomaly {
        trace: few.trace.clone(),
        spec: few.spec.clone(),
        smaller: (few.capacity, few.misses()),
        larger: (many.capacity, many.misses()),
    })
}

impl Cell {
    /// Returns the misses.
    pub fn misses(&self) -> u64 {
        self.requests - self.hits
    }
}

/// Returns the unit's name, as users write it.
pub fn unit(by: By) -> &'static str {
    match by {
        By::Bytes => "bytes",
        By::Entries => "entries",
    }
}
