//! One, two and three nodes of a cluster: their gain and cost for working sets that fit in one node, in three nodes, or
//! not even in three.
//!
//! Clients send requests to the nodes in turn, as through a load balancer without knowledge of keys. The simulation replays
//! the same requests, and extends to clusters that do not fit one machine.

mod cell;
mod claims;
mod conditions;
mod nodes;
mod pictures;
mod plan;

use self::cell::{CellResult, SimulationResult, simulate, take};
pub(super) use self::nodes::missing;
use self::plan::{Plan, SETS};
use crate::findings::Findings;
use crate::{Bench, Halt, Host, Journal};

/// All measurements, and the simulated results of the same requests.
struct Measurements {
    cells: Vec<CellResult>,
    simulated: Vec<SimulationResult>,
    host: Option<Host>,
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let (scale, plan) = (bench.scale, Plan::new(bench.scale.size));
    let sets = SETS.iter().flat_map(|(set, ..)| (0..plan.repetitions).map(move |at| (*set, at)));
    bench.measure_together(
        &sets.collect::<Vec<_>>(),
        |(set, at)| format!("simulated/{set}/{at}"),
        |_, &(set, at)| simulate(&plan, (set, at), scale.of(at)),
    )?;
    let cells: Vec<_> = (0..plan.repetitions).flat_map(|at| plan.cells(at)).collect();
    bench.measure(&cells, conditions::Cell::key, |bench, cell| take(bench, &plan, cell))
}

pub(super) fn conclude(journal: &Journal) -> Findings {
    let seen = Measurements {
        cells: journal.all("cell/"),
        simulated: journal.all("simulated/"),
        host: journal.host(),
    };
    Findings {
        setup: setup(&seen),
        findings: claims::claims(&seen),
        figures: pictures::pictures(&seen),
        tables: vec![pictures::table(&seen)],
    }
}

fn setup(seen: &Measurements) -> Vec<String> {
    let sets: Vec<_> =
        SETS.iter().map(|(_, about, percent)| format!("one that {about} ({percent}%)")).collect();
    let sets = format!(
        "Clients request pages of 4 KiB from an origin at a distance of 2 ms, with Zipf popularity (exponent 0.9). There are \
         three working sets: {}; the brackets give the share of the pages that fits into a node. Nodes keep copies of other \
         nodes' pages in up to a tenth of their memory, or no copies. Before the measurement, each page is requested once, and \
         then some by popularity.",
        sets.join(", ")
    );
    let way = "Clients send requests to the nodes in turn, like a load balancer without knowledge of keys. A single client \
     measures the time of a request; a number of clients that keeps the processor busy measures throughput and CPU time. One \
     node is a larder without an engine; two and three nodes find each other through their own redis-server. For comparison, \
     three separate nodes, not a cluster, each store all pages."
        .to_owned();
    let machine = seen.host.as_ref().map(|Host { cores, .. }| {
        format!(
            "All nodes, the engine, the origin and the clients share {cores} cores, so more nodes cannot answer more requests a \
             second here. Their cost is the CPU time of a request, over all nodes. On separate machines, each node adds a \
             processor."
        )
    });
    [sets, way].into_iter().chain(machine).collect()
}
