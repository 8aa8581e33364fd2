//! The conditions of a measurement of a cluster.

use serde::{Deserialize, Serialize};

/// The share of its memory in which a node keeps copies: the configuration's default.
pub(super) const HOT: f64 = 0.1;

/// The conditions of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    /// The working set: a name of [`super::plan::SETS`].
    pub(super) set: String,
    pub(super) nodes: u16,
    /// Whether nodes keep copies of popular objects that other nodes own.
    pub(super) copies: bool,
    /// Whether the nodes are independent, and each is filled with all objects that clients will request.
    pub(super) apart: bool,
    /// The number of the repetition, counted from 0; each has different requests.
    pub(super) repetition: u64,
}

impl Cell {
    pub(super) fn key(&self) -> String {
        let Self { set, nodes, repetition, .. } = self;
        let way = match (self.apart, self.copies) {
            (true, _) => "apart",
            (_, true) => "copies",
            _ => "none",
        };
        format!("cell/{set}/{repetition}/{nodes}/{way}")
    }

    /// Returns the share of each memory for copies, if the nodes are a cluster.
    pub(super) fn hot(&self) -> Option<f64> {
        (self.nodes > 1 && !self.apart).then_some(if self.copies { HOT } else { 0.0 })
    }
}
