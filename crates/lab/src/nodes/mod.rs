//! One trace through a cluster: the hits of several nodes together, and the requests between them.
//!
//! Each request arrives at a node. If another node owns the object, the node looks among its copies of hot objects,
//! then sends a request to the owner; the ring of `larder-cluster`, which the proxy also uses, determines the owner. So
//! every node is two caches of the proxy's code. They depend on each other only by their requests, so they are replayed
//! one after the other.
//!
//! Outside this module: time. Concurrent requests of several nodes count as consecutive.

mod count;
mod placement;
mod tier;

use std::num::NonZeroU16;

use larder_evict::{Capacity, Spec};

use crate::parallel::in_parallel;
use crate::replay::in_units;
use crate::subject::Subject;
use crate::sweep::{self, Watch};
use crate::trace::Trace;

pub use count::Counts;
pub use placement::{LoadShares, Loss, Placement};
use tier::{Streams, Tier};

/// The simulation to run over a trace.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The policies, and how they run. Offline policies are excluded: they know the future of only one cache. The seed
    /// also determines the nodes at which requests arrive.
    pub base: sweep::Plan,
    /// The numbers of nodes, for one cluster each.
    pub nodes: Vec<NonZeroU16>,
    /// Shares of each node's capacity, 0 to below 1, that hold copies of hot objects from other owners. A single node
    /// has no copies, and is run once.
    pub hot: Vec<f64>,
    /// The distribution of requests and objects.
    pub sharing: LoadShares,
}

/// One cluster: a number of nodes of one capacity under one policy.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The trace's name.
    pub trace: String,
    /// The policy.
    pub spec: Spec,
    /// The capacity of each node.
    pub capacity: Capacity,
    /// The number of nodes.
    pub nodes: NonZeroU16,
    /// The share of each node's capacity for copies of hot objects.
    pub hot: f64,
    /// The counts.
    pub counts: Counts,
}

impl Plan {
    /// Runs every policy at each of `capacities` in each cluster. `watch` is called from several threads with the
    /// number of further requests that are done, and returns whether to continue. Cells that it stopped are omitted;
    /// the others are in the order of capacity, nodes, copies, then policy.
    pub fn run(&self, subject: &Subject, capacities: &[Capacity], watch: &Watch<'_>) -> Vec<Cell> {
        let trace = &subject.trace;
        let mut cells = Vec::new();
        for &nodes in &self.nodes {
            let placement =
                Placement::new(trace, nodes, &self.sharing, self.base.first_counted(trace), self.base.seed);
            let mut jobs = Vec::new();
            for (at, &capacity) in capacities.iter().enumerate() {
                for &hot in self.hot(nodes) {
                    jobs.extend(self.base.specs.iter().map(|spec| (at, capacity, hot, spec)));
                }
            }
            let done = in_parallel(&jobs, self.base.threads, |&(at, capacity, hot, spec)| {
                let counts = self.counts(trace, &placement, spec, capacity, hot, watch)?;
                let (trace, spec) = (subject.name.clone(), spec.clone());
                Some((at, Cell { trace, spec, capacity, nodes, hot, counts }))
            });
            let is_stopped = done.len() < jobs.len();
            cells.extend(done);
            if is_stopped {
                break;
            }
        }
        cells.sort_by_key(|(at, _)| *at);
        cells.into_iter().map(|(_, cell)| cell).collect()
    }

    /// Returns the number of cells at each capacity.
    pub fn cells(&self) -> usize {
        self.nodes.iter().map(|&nodes| self.hot(nodes).len() * self.base.specs.len()).sum()
    }

    /// Returns the shares that are worth a run.
    fn hot(&self, nodes: NonZeroU16) -> &[f64] {
        if nodes.get() == 1 { &[0.0] } else { &self.hot }
    }

    /// Replays the copies of all nodes, then the remaining requests through the owners.
    fn counts(
        &self,
        trace: &Trace,
        placement: &Placement,
        spec: &Spec,
        capacity: Capacity,
        hot: f64,
        watch: &dyn Fn(usize) -> bool,
    ) -> Option<Counts> {
        let capacity = in_units(trace, capacity);
        let for_copies = (capacity.amount as f64 * hot) as u64;
        let tier = |amount| Capacity { amount, ..capacity };
        let mut copied = vec![false; trace.len()];
        if for_copies > 0 {
            let streams = Streams::new(placement.nodes(), trace.len(), |at| {
                let (asked, owner) = placement.at(at);
                (asked != owner).then_some(asked)
            });
            let spec = behind_a_filter(spec);
            let tier = Tier { trace, spec: &spec, capacity: tier(for_copies), seed: self.base.seed };
            tier.replay(&streams, &mut copied, &|_| watch(0))?;
        }
        let mut owned = vec![false; trace.len()];
        let streams =
            Streams::new(placement.nodes(), trace.len(), |at| (!copied[at]).then(|| placement.at(at).1));
        let tier = Tier { trace, spec, capacity: tier(capacity.amount - for_copies), seed: self.base.seed };
        tier.replay(&streams, &mut owned, watch)?;
        watch(trace.len() - streams.len());
        Some(Counts::new(trace, placement, &copied, &owned, self.base.first_counted(trace)))
    }
}

/// Returns the policy for copies: the given one behind a popularity filter, unless it already has a filter.
fn behind_a_filter(spec: &Spec) -> Spec {
    match spec.filter() {
        Some(_) => spec.clone(),
        None => Spec::parse(&format!("tinylfu+{spec}")).unwrap_or_else(|_| spec.clone()),
    }
}
