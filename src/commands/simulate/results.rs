//! The results of a run, for all its traces.

use std::collections::BTreeMap;

use larder_advise::Prices;
use larder_evict::Capacity;
use larder_lab::anomaly::Anomaly;
use larder_lab::curve::Curve;
use larder_lab::nodes;
use larder_lab::prefetch;
use larder_lab::sweep::Cell;

/// The measurements of the replays.
#[derive(Default)]
pub(super) struct Results {
    pub(super) cells: Vec<Cell>,
    pub(super) curves: Vec<Curve>,
    pub(super) anomalies: Vec<Anomaly>,
    pub(super) clusters: Vec<nodes::Cell>,
    pub(super) prefetches: Vec<prefetch::Cell>,
    /// The prices by which cells have costs, if they are known.
    pub(super) prices: Option<Prices>,
    /// For each trace, the capacity in which all objects fit.
    pub(super) whole: BTreeMap<String, Capacity>,
}

impl Results {
    /// Whether there are no results yet.
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.clusters.is_empty() && self.prefetches.is_empty()
    }
}
