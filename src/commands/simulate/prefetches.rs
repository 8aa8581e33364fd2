//! `larder simulate --prefetch`: the simulation of prefetching, and its output.

use larder_lab::curve::{MissLine, plot_misses};
use larder_lab::plot::Plot;
use larder_lab::prefetch::{Cell, Plan};
use larder_lab::sweep;
use larder_predict::budget::Share;
use larder_predict::{Predictor, Predictors};
use serde_json::json;

use super::args::Simulate;
use super::data::{self, Column};
use super::policies;
use super::table::{by_trace, capacity, percent};
use crate::cli::tables::{Figure, of_figures};
use crate::cli::terminal;
use crate::cli::units::{about_count, about_time, counted};

/// The meaning of the figures.
const LEGEND: &str = "\
hit ratio: with prefetching; without: the same cache without it
early: share of the requests that were hits because of a prefetch
precision: share of the prefetches that were used within a minute
extra: requests and bytes of prefetches of no use, over those of clients
saved: time that a request waits less, on average, if the trace has the cost of
fetches
";

/// The columns for programs: names and units are stable.
const COLUMNS: &[Column<Cell>] = &[
    ("trace", |cell| json!(cell.trace)),
    ("policy", |cell| json!(cell.spec.to_string())),
    ("capacity", |cell| json!(cell.capacity.amount)),
    ("by", |cell| json!(cell.capacity.by.name())),
    ("prefetch", |cell| json!(kinds(cell.kinds))),
    ("prefetch_traffic", |cell| json!(cell.share.part())),
    ("requests", |cell| json!(cell.counts.requests)),
    ("hits", |cell| json!(cell.counts.hits)),
    ("hit_ratio", |cell| json!(cell.counts.hit_ratio())),
    ("hit_ratio_without", |cell| json!(cell.counts.plain_hit_ratio())),
    ("prefetches", |cell| json!(cell.counts.prefetches)),
    ("early", |cell| json!(cell.counts.early)),
    ("early_ratio", |cell| json!(cell.counts.early_ratio())),
    ("precision", |cell| json!(cell.counts.precision())),
    ("extra_requests", |cell| json!(cell.counts.extra_requests())),
    ("prefetched_bytes", |cell| json!(bytes(cell.counts.prefetched_bytes))),
    ("extra_bytes", |cell| json!(bytes(cell.counts.extra_bytes()))),
    ("saved_micros_per_request", |cell| json!(cell.counts.saved_per_request())),
];

/// The columns for people.
const FIGURES: &[Figure<Cell>] = &[
    Figure::text("capacity", 0, |cell| capacity(cell.capacity)),
    Figure::text("policy", 0, |cell| cell.spec.to_string()),
    Figure::number("hit ratio", 0, |cell| percent(cell.counts.hit_ratio())),
    Figure::number("without", 2, |cell| percent(cell.counts.plain_hit_ratio())),
    Figure::number("early", 0, |cell| percent(cell.counts.early_ratio())),
    Figure::number("prefetches", 5, |cell| about_count(cell.counts.prefetches)),
    Figure::number("precision", 0, |cell| cell.counts.precision().map_or_else(|| "-".to_owned(), percent)),
    Figure::number("extra requests", 1, |cell| {
        share(cell.counts.extra_requests() as f64, cell.counts.requests as f64)
    }),
    Figure::number("extra bytes", 3, |cell| {
        share(cell.counts.extra_bytes() as f64, cell.counts.bytes as f64)
    }),
    Figure::number("saved", 4, saved),
];

const OFFLINE: &str =
    "policies that use future requests cannot be combined with prefetches, which change them";

/// Returns the plan that `args` describe, for the policies of `base`. The error is one line.
pub(super) fn plan(args: &Simulate, base: sweep::Plan) -> Result<Plan, String> {
    if args.reading.sample < 1.0 {
        return Err("a sample does not show the next requests; leave out --sample or --prefetch".into());
    }
    Ok(Plan {
        base: policies::without_offline(base, OFFLINE)?,
        kinds: Predictors::of(&args.prefetch.kinds),
        share: Share::percent(args.prefetch.traffic * 100.0),
    })
}

/// Formats the outcome as `args` say.
pub(super) fn page(args: &Simulate, cells: &[Cell]) -> String {
    data::page(args, COLUMNS, cells, table)
}

fn table(cells: &[Cell]) -> String {
    let heading = |Cell { kinds: predicted, share, counts, .. }: &Cell| {
        format!(
            "{} counted, prefetched by {}, at most {} of the traffic for prefetches of no use",
            counted(counts.requests, "request", "requests"),
            kinds(*predicted).join(" and "),
            percent(share.part()),
        )
    };
    let lines = |trace: &[Cell]| of_figures(FIGURES, trace, 1, terminal::columns());
    by_trace(cells, |cell| &cell.trace, heading, lines) + LEGEND
}

/// Plots the miss ratios of one trace's `cells` against the capacity: a line for each policy with prefetching, and one
/// without.
pub(super) fn plot(title: &str, cells: &[Cell]) -> Plot {
    let lines: [MissLine<'_, Cell>; 2] = [
        (" with prefetching", |cell| cell.counts.hit_ratio()),
        (" without", |cell| cell.counts.plain_hit_ratio()),
    ];
    plot_misses(title, cells, |cell| (&cell.spec, cell.capacity), &lines)
}

fn kinds(kinds: Predictors) -> Vec<&'static str> {
    let is_wanted = |kind: &Predictor| match kind {
        Predictor::Association => kinds.association,
        Predictor::Sequence => kinds.sequence,
    };
    Predictor::ALL.into_iter().filter(is_wanted).map(Predictor::name).collect()
}

fn bytes(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { percent(part / whole) } else { "-".to_owned() }
}

fn saved(cell: &Cell) -> String {
    cell.counts.saved_per_request().map_or_else(|| "-".to_owned(), about_time)
}
