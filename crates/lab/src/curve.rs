//! Miss-ratio curves: the miss ratio as a function of the cache size.
//!
//! For any policy, a curve consists of the cells of a sweep over many sizes, of a sample or of a whole trace. For LRU
//! there is another way: all sizes in one pass, from stack distances.

use larder_evict::{By, Capacity, Spec};

use crate::plot::{Axis, Plot, Unit};
use crate::replay::ratio;
use crate::stack;
use crate::subject::Subject;
use crate::sweep::Cell;

/// The minimum factor between the capacities of consecutive points.
const STEP: f64 = 1.01;

/// The number of sizes in a sweep for a curve, and the factor between them.
const SIZES: i32 = 21;
const FACTOR: f64 = std::f64::consts::SQRT_2;

/// Returns the shares of a trace's objects that a sweep uses for a curve: from about a thousandth to all, ascending.
pub fn shares() -> impl Iterator<Item = f64> {
    (0..SIZES).rev().map(|halvings| FACTOR.powi(-halvings))
}

/// LRU at every size. It is exact in entries, and in bytes if all sizes are equal. Otherwise it is an approximation in
/// bytes, because an object that does not fit beside the others makes more room than it uses.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The trace's name.
    pub trace: String,
    /// The unit of capacities.
    pub by: By,
    /// Whether it is exact.
    pub is_exact: bool,
    /// Capacities at which the ratios change, ascending. Points closer than a hundredth to the one before are omitted.
    pub points: Vec<Point>,
}

/// The results of LRU at one capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The capacity in the curve's unit.
    pub capacity: u64,
    /// Hits over requests.
    pub hit_ratio: f64,
    /// Bytes of hits over bytes requested.
    pub byte_hit_ratio: f64,
}

impl Curve {
    /// Simulates LRU over `subject`, in the unit `by`, and counts after a share `warmup` of the requests. For a sample,
    /// the result is an estimate for the whole trace, as in a sweep.
    pub fn lru(subject: &Subject, by: By, warmup: f64) -> Self {
        let (trace, sample) = (&subject.trace, subject.sample);
        let skipped = (trace.len() as f64 * warmup) as usize;
        let distances = stack::distances(trace, by == By::Bytes);
        let counted = trace.len() - skipped;
        let bytes: f64 = (skipped..trace.len()).map(|at| trace.size(at) as f64).sum();
        let whole = subject.requests as f64 * ratio(counted as f64, trace.len() as f64);
        let mut found: Vec<_> = (skipped..trace.len())
            .filter(|&at| distances[at] != stack::FIRST)
            .map(|at| (distances[at], trace.size(at)))
            .collect();
        found.sort_unstable();
        let mut points: Vec<Point> = Vec::new();
        let (mut hits, mut hit_bytes) = (0_usize, 0.0);
        for same in found.chunk_by(|one, next| one.0 == next.0) {
            hits += same.len();
            hit_bytes += same.iter().map(|(_, size)| *size as f64).sum::<f64>();
            let misses = (counted - hits) as f64 / sample;
            let point = Point {
                capacity: (same[0].0 as f64 / sample).round() as u64,
                hit_ratio: (1.0 - ratio(misses, whole)).max(0.0),
                byte_hit_ratio: ratio(hit_bytes, bytes),
            };
            let is_last = hits == found.len();
            let is_near = |last: &Point| (point.capacity as f64) < last.capacity as f64 * STEP;
            if is_last || !points.last().is_some_and(is_near) {
                points.push(point);
            }
        }
        let is_equal = || (1..trace.len()).all(|at| trace.size(at) == trace.size(0));
        let is_exact = sample == 1.0 && (by == By::Entries || is_equal());
        Self { trace: subject.name.clone(), by, is_exact, points }
    }
}

/// A line for each policy in a plot: what follows the policy in its name, and the hit ratio of a cell.
pub type MissLine<'n, C> = (&'n str, fn(&C) -> f64);

/// Returns a plot of the miss ratios of one trace's `cells` against their capacity: for each policy, a line for each of
/// `lines`.
pub fn plot_misses<C>(
    title: &str,
    cells: &[C],
    subject: fn(&C) -> (&Spec, Capacity),
    lines: &[MissLine<'_, C>],
) -> Plot {
    let unit = match cells.first().map(|cell| subject(cell).1.by) {
        Some(By::Entries) => Unit::Count,
        _ => Unit::Bytes,
    };
    let mut plot = Plot::new(title, Axis::log("capacity", unit), Axis::linear("miss ratio", Unit::Share));
    let mut specs: Vec<&Spec> = Vec::new();
    for (spec, _) in cells.iter().map(subject) {
        if !specs.contains(&spec) {
            specs.push(spec);
        }
    }
    for spec in specs {
        for (name, hit_ratio) in lines {
            let of_it = cells.iter().filter(|cell| subject(cell).0 == spec);
            let point = |cell: &C| (subject(cell).1.amount as f64, 1.0 - hit_ratio(cell));
            let mut points: Vec<_> = of_it.map(point).collect();
            points.sort_by(|one, next| one.0.total_cmp(&next.0));
            plot = plot.line(&format!("{spec}{name}"), points);
        }
    }
    plot
}

/// Returns a plot of the miss ratios of one trace's `cells` against their capacity, a line for each policy, together
/// with `every` curve of LRU.
pub fn plot<'a>(title: &str, cells: &[Cell], every: impl Iterator<Item = &'a Curve>) -> Plot {
    let plot = plot_misses(title, cells, |cell| (&cell.spec, cell.capacity), &[("", |cell| cell.hit_ratio)]);
    every.fold(plot, |plot, curve| {
        let points = curve.points.iter().map(|point| (point.capacity as f64, 1.0 - point.hit_ratio));
        let name = if curve.is_exact { "lru, every size" } else { "lru, about" };
        plot.line(name, points.collect())
    })
}
