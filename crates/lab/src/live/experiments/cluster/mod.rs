//! One, two and three nodes of a cluster: their gain and cost for working sets that fit one of them, three, or not even
//! three.
//!
//! Clients send requests to the nodes in turn, as through a load balancer without knowledge of keys. The simulation replays
//! the same requests, and extends to clusters that do not fit one machine.

mod cell;
mod claims;
mod nodes;
mod pictures;
mod plan;

use self::cell::{Measured, Simulated, simulate, take};
use self::plan::{Plan, SETS};
use super::Experiment;
use crate::live::findings::Findings;
use crate::live::{Bench, Halt, Host, Journal};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cluster",
    title: "Benefits and costs of more nodes",
    shows: "times, throughput, hit ratio, origin requests and CPU time of 1, 2 and 3 nodes, live and simulated; of up to 100, simulated",
    seconds: (35, 170),
    measure,
    conclude,
    missing: nodes::missing,
};

/// All that was measured, and what the simulation says of the same requests.
struct Seen {
    cells: Vec<Measured>,
    simulated: Vec<Simulated>,
    host: Option<Host>,
}

fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let (scale, plan) = (bench.scale, Plan::new(bench.scale.size));
    let sets = SETS.iter().flat_map(|(set, ..)| (0..plan.repetitions).map(move |at| (*set, at)));
    bench.measure(
        &sets.collect::<Vec<_>>(),
        |(set, at)| format!("simulated/{set}/{at}"),
        |_, &(set, at)| simulate(&plan, (set, at), scale.of(at)),
    )?;
    let cells: Vec<_> = (0..plan.repetitions).flat_map(|at| plan.cells(at)).collect();
    bench.measure(&cells, cell::Cell::key, |bench, cell| take(bench, &plan, cell))
}

fn conclude(journal: &Journal) -> Findings {
    let seen =
        Seen { cells: journal.all("cell/"), simulated: journal.all("simulated/"), host: journal.host() };
    Findings {
        setup: setup(&seen),
        findings: claims::claims(&seen),
        figures: pictures::pictures(&seen),
        tables: vec![pictures::table(&seen)],
    }
}

fn setup(seen: &Seen) -> Vec<String> {
    let sets: Vec<_> =
        SETS.iter().map(|(_, about, percent)| format!("one that {about} ({percent}%)")).collect();
    let sets = format!(
        "Pages of 4 KiB, 2 ms from the origin, are asked for by Zipf (exponent 0.9). There are three working sets: {}; in \
         brackets is for how many of 100 pages each node has room. Nodes keep copies of what others own in up to a tenth of their \
         memory, or none. Each page is asked for once, then some by popularity, before anything counts.",
        sets.join(", ")
    );
    let way = "Clients ask the nodes in turn, as behind a balancer that knows nothing of keys. One client after its own answers \
         tells what a request takes; as many as keep the processor busy tell how many requests a second there are, and what \
         they cost. One node is a larder by itself, without an engine; two and three find each other by a redis-server of \
         their own. Beside them stand three that are no cluster, each with everything."
        .to_owned();
    let machine = seen.host.as_ref().map(|Host { cores, .. }| {
        format!(
            "All nodes, the engine, the origin and the clients share {cores} cores. So more nodes cannot answer more requests a \
             second here: what they cost is the CPU time of a request, over all nodes. On machines of their own each would bring \
             its own processor."
        )
    });
    [sets, way].into_iter().chain(machine).collect()
}
