//! `larder simulate --nodes`: the simulation of clusters, and its output.

use std::num::NonZeroU16;

use larder_lab::nodes::{Cell, LoadShares, Plan};
use larder_lab::plot::{Axis, Plot, Unit};
use larder_lab::sweep;
use serde_json::json;

use super::args::Simulate;
use super::data::{self, Column};
use super::policies;
use super::table::{by_trace, capacity, percent};
use crate::cli::tables::{Figure, of_figures};
use crate::cli::terminal;
use crate::cli::units::{about_count, about_size, counted};

/// The meaning of the figures.
const LEGEND: &str = "\
hit ratio: found on any node; local: on the node that received the request
peer: requests and bytes between nodes, for each request of a client
busiest: requests and bytes that the busiest node answers, over the mean of all
";
const LEGEND_OF_LOSS: &str = "\
around the loss: the hit ratio in the tenth of the requests before nodes are
lost, and in the tenth after
";

/// The columns for programs: names and units are stable.
const COLUMNS: &[Column<Cell>] = &[
    ("trace", |cell| json!(cell.trace)),
    ("policy", |cell| json!(cell.spec.to_string())),
    ("capacity", |cell| json!(cell.capacity.amount)),
    ("by", |cell| json!(cell.capacity.by.name())),
    ("nodes", |cell| json!(cell.nodes)),
    ("hot", |cell| json!(cell.hot)),
    ("requests", |cell| json!(cell.counts.requests)),
    ("hits", |cell| json!(cell.counts.hits)),
    ("hit_ratio", |cell| json!(cell.counts.hit_ratio())),
    ("byte_hit_ratio", |cell| json!(cell.counts.byte_hit_ratio())),
    ("origin_requests", |cell| json!(cell.counts.origin_requests())),
    ("local_hits", |cell| json!(cell.counts.local_hits)),
    ("local_hit_ratio", |cell| json!(cell.counts.local_hit_ratio())),
    ("peer_requests", |cell| json!(cell.counts.peer_requests)),
    ("peer_requests_per_request", |cell| json!(cell.counts.peer_requests_per_request())),
    ("peer_bytes_per_request", |cell| json!(cell.counts.peer_bytes_per_request())),
    ("request_imbalance", |cell| json!(cell.counts.request_imbalance)),
    ("byte_imbalance", |cell| json!(cell.counts.byte_imbalance)),
    ("hit_ratio_before_loss", |cell| json!(cell.counts.around_loss.map(|(before, _)| before))),
    ("hit_ratio_after_loss", |cell| json!(cell.counts.around_loss.map(|(_, after)| after))),
];

/// The columns for people.
const FIGURES: &[Figure<Cell>] = &[
    Figure::text("capacity each", 0, |cell| capacity(cell.capacity)),
    Figure::text("policy", 0, |cell| cell.spec.to_string()),
    Figure::number("nodes", 0, |cell| cell.nodes.to_string()),
    Figure::number("hot", 0, hot),
    Figure::number("hit ratio", 0, |cell| percent(cell.counts.hit_ratio())),
    Figure::number("byte hit ratio", 4, |cell| percent(cell.counts.byte_hit_ratio())),
    Figure::number("local", 1, |cell| percent(cell.counts.local_hit_ratio())),
    Figure::number("origin requests", 5, |cell| about_count(cell.counts.origin_requests())),
    Figure::number("peer requests", 2, |cell| format!("{:.3}", cell.counts.peer_requests_per_request())),
    Figure::number("peer bytes", 3, |cell| about_size(cell.counts.peer_bytes_per_request().round() as u64)),
    Figure::number("busiest", 6, |cell| format!("{:.2}", cell.counts.request_imbalance)),
    Figure::number("by bytes", 7, |cell| format!("{:.2}", cell.counts.byte_imbalance)),
    Figure::number("around the loss", 0, around_the_loss),
];

const OFFLINE: &str = "policies that use future requests cannot run in a cluster";

/// Returns the plan that `args` describe, for the policies of `base`. The error is one line.
pub(super) fn plan(args: &Simulate, base: sweep::Plan) -> Result<Plan, String> {
    let cluster = &args.cluster;
    if args.reading.sample < 1.0 {
        return Err("a sample does not show how nodes share the load; leave out --sample or --nodes".into());
    }
    if let Some(nodes) = cluster.nodes.iter().find(|nodes| cluster.lose > 0 && **nodes <= cluster.lose) {
        let nodes = counted(u64::from(*nodes), "node", "nodes");
        return Err(format!(
            "--lose {}: {nodes} cannot lose so many; at least one has to stay",
            cluster.lose
        ));
    }
    Ok(Plan {
        base: policies::without_offline(base, OFFLINE)?,
        nodes: cluster.nodes.iter().filter_map(|nodes| NonZeroU16::new(*nodes)).collect(),
        hot: cluster.hot.clone(),
        sharing: LoadShares { affinity: cluster.affinity, slots: cluster.slots, lost: cluster.lose },
    })
}

/// Formats the outcome as `args` say.
pub(super) fn page(args: &Simulate, cells: &[Cell]) -> String {
    data::page(args, COLUMNS, cells, table)
}

fn table(cells: &[Cell]) -> String {
    let heading = |cell: &Cell| format!("{} counted", counted(cell.counts.requests, "request", "requests"));
    let mut page = by_trace(cells, |cell| &cell.trace, heading, rows);
    page += LEGEND;
    if cells.iter().any(|cell| cell.counts.around_loss.is_some()) {
        page += LEGEND_OF_LOSS;
    }
    page
}

/// Returns the table; without its last column if no nodes are lost.
fn rows(cells: &[Cell]) -> Vec<String> {
    let is_lossy = cells.iter().any(|cell| cell.counts.around_loss.is_some());
    let figures = &FIGURES[..FIGURES.len() - usize::from(!is_lossy)];
    of_figures(figures, cells, 1, terminal::columns())
}

fn around_the_loss(cell: &Cell) -> String {
    let text = |(before, after)| format!("{} {}", percent(before), percent(after));
    cell.counts.around_loss.map_or_else(String::new, text)
}

/// Plots the miss ratios of one trace's `cells` against the number of nodes, a line for each policy, capacity and share
/// of hot objects.
pub(super) fn plot(title: &str, cells: &[Cell]) -> Plot {
    let plot = Plot::new(title, Axis::log("nodes", Unit::Count), Axis::linear("miss ratio", Unit::Share));
    // A single node copies no objects, and is the first point of every line.
    let (alone, several): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| cell.nodes.get() == 1);
    let mut lines: Vec<&Cell> = Vec::new();
    for cell in several {
        if !lines.iter().any(|line| is_alike(line, cell) && line.hot == cell.hot) {
            lines.push(cell);
        }
    }
    for cell in alone {
        if !lines.iter().any(|line| is_alike(line, cell)) {
            lines.push(cell);
        }
    }
    lines.into_iter().fold(plot, |plot, line| {
        let belongs = |cell: &&Cell| is_alike(line, cell) && (cell.hot == line.hot || cell.nodes.get() == 1);
        let of_it = cells.iter().filter(belongs);
        let mut points: Vec<_> =
            of_it.map(|cell| (f64::from(cell.nodes.get()), 1.0 - cell.counts.hit_ratio())).collect();
        points.sort_by(|one, next| one.0.total_cmp(&next.0));
        plot.line(&format!("{}, {} each, {} hot", line.spec, capacity(line.capacity), hot(line)), points)
    })
}

fn is_alike(one: &Cell, other: &Cell) -> bool {
    (&one.spec, one.capacity) == (&other.spec, other.capacity)
}

fn hot(cell: &Cell) -> String {
    format!("{}%", (cell.hot * 1000.0).round() / 10.0)
}
