//! Pictures of clusters, and a table of all means.

use larder_lab::plot::{Axis, Plot, Unit};

use super::Measurements;
use super::cell::{CellResult, SimulatedNodes};
use super::claims::{mean, pairs};
use super::plan::{ONE, SETS};
use crate::Interval;
use crate::findings::{Column, Figure, Grid, MeanPlot};

/// The measured numbers of nodes.
const NODES: [u16; 3] = [1, 2, 3];
const COPIES: [(bool, &str); 2] = [(true, "copies"), (false, "no copies")];

pub(super) fn pictures(seen: &Measurements) -> Vec<Figure> {
    if seen.cells.is_empty() {
        return Vec::new();
    }
    vec![times(seen), cost(seen), origin(seen), crossings(seen)]
}

/// Returns the cluster's key. A single node has no copies, so it starts both lines.
fn cluster(nodes: u16, copies: bool) -> (u16, bool) {
    (nodes, copies && nodes > 1)
}

/// The plotted value of a measurement, if available.
type Value = fn(&CellResult) -> Option<f64>;

/// Returns a plot over the number of nodes, for the set that fits in one node.
fn over_nodes(
    seen: &Measurements,
    (name, title, axis): (&str, &str, &str),
    values: &[(&str, Value)],
    decimals: usize,
    caption: &str,
) -> Figure {
    let axes = (Axis::linear("nodes", Unit::Count), Axis::linear(axis, Unit::Number));
    let labels = ["what", "copies", "nodes"];
    let mut picture = MeanPlot::new(title, axes, &labels, ("repetitions", decimals));
    for (family, (copies, about)) in COPIES.into_iter().enumerate() {
        for (member, (what, value)) in values.iter().enumerate() {
            let at = |nodes: u16| {
                let labels = vec![(*what).to_owned(), about.to_owned(), nodes.to_string()];
                Some((labels, f64::from(nodes), mean(seen, ONE, cluster(nodes, copies), value)?))
            };
            let line = format!("{what}, {about}");
            picture = picture.line(Some((family, member)), &line, NODES.into_iter().filter_map(at));
        }
    }
    picture.figure(name, caption.to_owned())
}

fn times(seen: &Measurements) -> Figure {
    let values: [(&str, Value); 2] =
        [("p50", |one| Some(one.alone?.p50 * 1e3)), ("p99", |one| Some(one.alone?.p99 * 1e3))];
    let frame = ("cluster-times", "Time of an answer, if all pages fit one node", "time in us");
    let caption = "One client, all requests are hits. With copies, the median is that of one node. The slowest hundredth goes to \
     the owner and back, with and without copies.";
    over_nodes(seen, frame, &values, 1, caption)
}

fn cost(seen: &Measurements) -> Figure {
    let values: [(&str, Value); 1] = [("all nodes", |one| Some(one.processor_us()))];
    let title = "Cost of a request, if all pages fit one node";
    let caption = "CPU time of all nodes together for a client's request; many clients, all requests are hits. A request that \
     goes to another node is read and answered by two nodes.";
    over_nodes(seen, ("cluster-cost", title, "CPU time per request in us"), &values, 2, caption)
}

/// A value of a live run, and the same of a simulated one.
type Both = (fn(&CellResult) -> f64, fn(&SimulatedNodes) -> f64);

/// Returns a plot of simulated lines for many nodes, with live runs.
fn beside_simulated(
    seen: &Measurements,
    (name, title, axis): (&str, &str, &str),
    (live, simulated): Both,
    has: fn(bool, u16) -> bool,
    caption: &str,
) -> Figure {
    let mut data = Grid::new(title, &["set", "copies", "how", "nodes", "repetition", "value"]);
    let mut plot = Plot::new(title, Axis::log("nodes", Unit::Count), Axis::linear(axis, Unit::Share));
    let mut row = |set: &str, copies: bool, how: &str, (nodes, at): (u16, u64), value: f64| {
        let copies = if copies { "copies" } else { "no copies" };
        let words = [set, copies, how].map(str::to_owned);
        data.row(words.into_iter().chain([nodes.to_string(), at.to_string(), format!("{value:.4}")]));
    };
    for (family, (set, about, percent)) in SETS.into_iter().enumerate() {
        let of = seen.simulated.iter().filter(|all| all.set == set && all.repetition == 0);
        let steps: Vec<_> = of.flat_map(|all| &all.steps).filter(|one| has(one.copies, one.nodes)).collect();
        steps.iter().for_each(|one| row(about, one.copies, "simulated", (one.nodes, 0), simulated(one)));
        let points = steps.iter().map(|one| (f64::from(one.nodes), simulated(one)));
        plot = plot.member((family, 0), &format!("room for {percent}%"), points.collect());
    }
    let mut marks = Vec::new();
    for (measured, _) in pairs(seen) {
        let (cell, value) = (&measured.cell, live(measured));
        if has(cell.copies, cell.nodes) {
            let about = SETS.iter().find(|(set, ..)| *set == cell.set).map_or("", |(_, about, _)| about);
            row(about, cell.copies, "live", (cell.nodes, cell.repetition), value);
            marks.push((f64::from(cell.nodes), value));
        }
    }
    plot = plot.marks("live", marks);
    Figure { name: name.to_owned(), plot, caption: caption.to_owned(), data }
}

fn origin(seen: &Measurements) -> Figure {
    beside_simulated(
        seen,
        ("cluster-origin", "Requests to the origin, by the number of nodes", "requests of clients"),
        (|live| 1.0 - live.hit_ratio(), |simulated| 1.0 - simulated.hit_ratio),
        |copies, nodes| copies || nodes == 1,
        "With copies. Lines are simulated with the requests of the first repetition; marks are live runs of all repetitions. \
         Each line is a working set, named by the share that fits into a node. More nodes help until the set fits into all of \
         them together.",
    )
}

fn crossings(seen: &Measurements) -> Figure {
    beside_simulated(
        seen,
        ("cluster-crossings", "Requests between nodes, by the number of nodes", "of the requests of clients"),
        (|live| live.crossings, |simulated| simulated.crossings),
        |copies, nodes| copies || nodes == 1,
        "With copies. Without copies, it is two of three requests with three nodes, and nine of ten with ten. Lines are \
         simulated, marks are live.",
    )
}

/// The rows of the table: the number of nodes, a description, whether they keep copies, and whether they are
/// independent.
const WAYS: [(u16, &str, bool, bool); 6] = [
    (1, "single", false, false),
    (2, "no copies", false, false),
    (2, "copies", true, false),
    (3, "no copies", false, false),
    (3, "copies", true, false),
    (3, "separate", false, true),
];

/// Returns a table of all means.
pub(super) fn table<'a>(seen: &'a Measurements) -> Grid {
    /// The set, the number of nodes, their description, and their measurements.
    type Row<'a> = (&'static str, u16, &'static str, Vec<&'a CellResult>);
    let mean = |(.., of): &Row<'_>, value: &dyn Fn(&CellResult) -> Option<f64>, decimals: usize| {
        Interval::mean_cell(of.iter().filter_map(|measured| value(measured)), decimals)
    };
    let simulated = |row: &Row<'_>, value: fn(&SimulatedNodes) -> f64| {
        mean(row, &|one| seen.simulated.iter().find_map(|all| all.of(&one.cell)).map(value), 4)
    };
    let columns: [Column<'_, Row<'a>>; 17] = [
        ("set", &|(about, ..)| (*about).to_owned()),
        ("nodes", &|(_, nodes, ..)| nodes.to_string()),
        ("how", &|(_, _, way, _)| (*way).to_owned()),
        ("p50 in us, one client", &|row| mean(row, &|one| Some(one.alone?.p50 * 1e3), 0)),
        ("p99 in us, one client", &|row| mean(row, &|one| Some(one.alone?.p99 * 1e3), 0)),
        ("p50 in ms, many", &|row| mean(row, &|one| Some(one.busy.p50), 2)),
        ("p99 in ms, many", &|row| mean(row, &|one| Some(one.busy.p99), 2)),
        ("requests a second, many", &|row| mean(row, &|one| Some(one.per_second), 0)),
        ("hit ratio", &|row| mean(row, &|one| Some(one.hit_ratio()), 4)),
        ("simulated", &|row| simulated(row, |step| step.hit_ratio)),
        ("origin requests in 100", &|row| mean(row, &|one| Some(100.0 - one.hit_ratio() * 100.0), 1)),
        ("requests between nodes for each", &|row| mean(row, &|one| Some(one.crossings), 3)),
        ("simulated", &|row| simulated(row, |step| step.crossings)),
        ("CPU us per request, all nodes", &|row| mean(row, &|one| Some(one.processor_us()), 1)),
        ("busiest node's share", &|row| mean(row, &busiest, 2)),
        ("clients' CPU us", &|row| mean(row, &|one| Some(one.driver_us), 1)),
        ("origin's CPU us per own request", &|row| mean(row, &|one| Some(one.origin_us), 1)),
    ];
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (set, about, _) in SETS {
        for (nodes, way, copies, apart) in WAYS {
            let of = seen.cells.iter().filter(|CellResult { cell, .. }| {
                (cell.set.as_str(), cell.nodes, cell.copies, cell.apart) == (set, nodes, copies, apart)
            });
            rows.push((about, nodes, way, of.collect()));
        }
    }
    rows.retain(|(.., of)| !of.is_empty());
    Grid::of("Clusters: means over the repetitions", &columns, rows)
}

/// Returns the busiest node's share of the CPU time of all nodes.
fn busiest(measured: &CellResult) -> Option<f64> {
    let most = measured.nodes_us.iter().copied().reduce(f64::max)?;
    Some(most / measured.processor_us())
}
