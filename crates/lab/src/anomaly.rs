//! Belady's anomaly in the cells of a sweep: more misses in a larger cache.

use std::fmt::{self, Display};

use larder_evict::{Capacity, Spec};

use crate::sweep::Cell;

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
            few.0.by.name(),
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
