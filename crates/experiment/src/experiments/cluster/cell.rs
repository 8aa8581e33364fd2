//! One working set on a number of nodes: the counts of clients, origin and nodes, and the simulation.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroUsize};
use std::sync::atomic::Ordering;

use larder_evict::{By, Capacity, Spec};
use larder_lab::nodes;
use larder_lab::subject::Subject;
use larder_lab::sweep;
use larder_lab::workload::Requests;
use larder_load::{Load, Pace, Via};
use serde::{Deserialize, Serialize};

use super::conditions::{Cell, HOT};
use super::nodes::{Nodes, POLICY};
use super::plan::Plan;
use crate::experiments::cell::AnswerTimes;
use crate::origin::{Model, Origin};
use crate::{Bench, Halt};

/// The results of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CellResult {
    #[serde(flatten)]
    pub(super) cell: Cell,
    /// The capacity of each node, in entries.
    pub(super) capacity: u64,
    /// The times with one client, if all requests are hits.
    pub(super) alone: Option<AnswerTimes>,
    /// The times with many clients.
    pub(super) busy: AnswerTimes,
    /// Requests a second with many clients.
    pub(super) per_second: f64,
    /// The number of requests of many clients.
    pub(super) requests: u64,
    /// The requests that the origin received during that time.
    pub(super) origin_requests: u64,
    /// Requests between nodes for each request of a client.
    pub(super) crossings: f64,
    /// Each node's processor time for a request of a client, in microseconds.
    pub(super) nodes_us: Vec<f64>,
    /// The same for the clients.
    pub(super) driver_us: f64,
    /// The same for the origin, for each of its own requests, including earlier ones.
    pub(super) origin_us: f64,
}

impl CellResult {
    /// Returns the share of the clients' requests that did not reach the origin.
    pub(super) fn hit_ratio(&self) -> f64 {
        1.0 - self.origin_requests as f64 / self.requests as f64
    }

    /// Returns the processor time of all nodes for a request of a client, in microseconds.
    pub(super) fn processor_us(&self) -> f64 {
        self.nodes_us.iter().sum()
    }
}

/// Returns the capacity of a node for pages of a set.
fn capacity(plan: &Plan, set: &str) -> Capacity {
    let amount = (u64::from(plan.pages) * plan.percent(set)).div_ceil(100).max(1);
    Capacity { by: By::Entries, amount }
}

/// Sends clients' requests to new nodes, after filling the nodes with the objects that they will keep. Fails if a
/// process does not start or answer, or the user ends the experiment.
pub(super) fn take(bench: &Bench, plan: &Plan, cell: &Cell) -> Result<CellResult, Halt> {
    let course = plan.course(bench.scale.of(cell.repetition));
    let origin = Origin::start(Model::of(&course.pages))?;
    let capacity = capacity(plan, &cell.set);
    let mut nodes = Nodes::start(bench, cell.nodes, capacity, cell.hot())?;
    let doors = nodes.doors()?;
    let send = |nodes: &mut Nodes, doors: &[SocketAddr], order: &[u32], clients| {
        let requests = Requests::gets(course.urls(origin.address()), order);
        let load = Load {
            pace: Pace::Closed { clients },
            stop: bench.stop.clone(),
            ..Load::new(doors[0], Via::Http, requests)
        };
        let seen = load.run_over(doors).map_err(|halt| nodes.explain(halt))?;
        nodes.check_engine().map(|()| seen)
    };
    let [warming, alone, busy] = plan.parts(&course.order);
    // Nodes of a cluster fill each other; independent nodes are filled one by one.
    for doors in doors.chunks(if cell.apart { 1 } else { doors.len() }) {
        send(&mut nodes, doors, warming, plan.clients)?;
    }
    let all_are_hits = plan.percent(&cell.set) >= 100;
    let seen = send(&mut nodes, &doors, alone, if all_are_hits { 1 } else { plan.clients })?;
    let alone = all_are_hits.then(|| AnswerTimes::of(&seen));
    let asked = || origin.requests().load(Ordering::Relaxed);
    let (before, asked_before, crossed) = (nodes.processors(), asked(), nodes.crossings()?);
    let seen = send(&mut nodes, &doors, busy, plan.clients)?;
    let (after, origin_requests) = (nodes.processors(), asked() - asked_before);
    let crossings = nodes.crossings()? - crossed;
    nodes.check()?;
    let requests = busy.len() as f64;
    let spent = after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before));
    Ok(CellResult {
        cell: cell.clone(),
        capacity: capacity.amount,
        alone,
        busy: AnswerTimes::of(&seen),
        per_second: requests / seen.elapsed.as_secs_f64(),
        requests: busy.len() as u64,
        origin_requests,
        crossings: crossings as f64 / requests,
        nodes_us: spent.map(|spent| spent.as_secs_f64() * 1e6 / requests).collect(),
        driver_us: seen.processor.as_secs_f64() * 1e6 / requests,
        origin_us: origin.processor().as_secs_f64() * 1e6 / asked().max(1) as f64,
    })
}

/// The simulated results of a number of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SimulatedNodes {
    pub(super) nodes: u16,
    pub(super) copies: bool,
    pub(super) hit_ratio: f64,
    /// Requests between nodes for each request of a client.
    pub(super) crossings: f64,
}

/// The simulated results of a repetition's requests and a set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SimulationResult {
    pub(super) set: String,
    pub(super) repetition: u64,
    pub(super) steps: Vec<SimulatedNodes>,
}

impl SimulationResult {
    /// Returns the results for the nodes of `cell`.
    pub(super) fn of(&self, cell: &Cell) -> Option<&SimulatedNodes> {
        let is_it = |step: &&SimulatedNodes| {
            step.nodes == cell.nodes && (step.nodes == 1 || step.copies == cell.copies)
        };
        let is_ours = !cell.apart && (&self.set, self.repetition) == (&cell.set, cell.repetition);
        self.steps.iter().filter(|_| is_ours).find(is_it)
    }
}

/// Replays a repetition's requests through clusters of all sizes, and counts those that many clients send live. Fails
/// if the policy does not exist.
pub(super) fn simulate(
    plan: &Plan,
    (set, repetition): (&str, u64),
    seed: u64,
) -> Result<SimulationResult, Halt> {
    let course = plan.course(seed);
    let requests = course.order.len();
    let [_, _, counted] = plan.parts(&course.order).map(<[u32]>::len);
    let replay = nodes::Plan {
        base: sweep::Plan {
            specs: vec![Spec::parse(POLICY).map_err(|error| Halt::Failed(error.to_string()))?],
            warmup: (requests - counted) as f64 / requests as f64,
            seed,
            threads: NonZeroUsize::MIN,
        },
        nodes: plan.simulated.iter().filter_map(|&nodes| NonZeroU16::new(nodes)).collect(),
        hot: vec![0.0, HOT],
        sharing: nodes::LoadShares::default(),
    };
    let subject =
        Subject { name: set.to_owned(), trace: course.trace(), sample: 1.0, requests: requests as u64 };
    let cells = replay.run(&subject, &[capacity(plan, set)], &|_| true);
    let steps = cells.iter().map(|cell| SimulatedNodes {
        nodes: cell.nodes.get(),
        copies: cell.hot > 0.0,
        hit_ratio: cell.counts.hit_ratio(),
        crossings: cell.counts.peer_requests_per_request(),
    });
    Ok(SimulationResult { set: set.to_owned(), repetition, steps: steps.collect() })
}
