//! The results for people: a table for each trace, a row for each cell, the best of each column marked.

use larder_evict::{By, Capacity};
use larder_lab::sweep::Cell;

use super::data::is_offline;
use super::results::Results;
use crate::cli::tables::aligned;
use crate::cli::terminal;
use crate::cli::units::{about_count, about_size, counted};

/// The meaning of the signs in the table.
const BEST: &str = "* best of its capacity";
const OFFLINE: &str = "(offline) uses future requests, and is not compared";
const WHOLE: &str = "(all) everything fits; more capacity changes nothing";
const SAMPLED: &str =
    "+- contains the hit ratio of the whole trace 95 times in 100; it covers only the error of sampling";

/// A column of figures: its name, its text, and, if figures can be compared, a rank that is lower for a better figure.
struct Column {
    name: &'static str,
    text: fn(&Cell) -> String,
    rank: Option<fn(&Cell) -> f64>,
}

const COLUMNS: &[Column] = &[
    Column { name: "hit ratio", text: hit_ratio, rank: Some(|cell| -cell.hit_ratio) },
    Column {
        name: "byte hit ratio",
        text: |cell| percent(cell.byte_hit_ratio),
        rank: Some(|cell| -cell.byte_hit_ratio),
    },
    Column {
        name: COST,
        text: |cell| cell.cost_a_month.map_or_else(String::new, |cost| format!("{cost:.2}")),
        rank: Some(|cell| cell.cost_a_month.unwrap_or(f64::INFINITY)),
    },
    Column { name: "evictions", text: |cell| about_count(cell.evictions), rank: None },
    Column {
        name: "M requests/s",
        text: |cell| format!("{:.1}", cell.requests_per_second / 1e6),
        rank: Some(|cell| -cell.requests_per_second),
    },
    Column {
        name: "metadata B/object",
        text: |cell| format!("{:.1}", cell.metadata_bytes_per_object),
        rank: Some(|cell| cell.metadata_bytes_per_object),
    },
];

/// The column that only results with prices have.
const COST: &str = "cost a month";

/// Formats all results, trace by trace.
pub(super) fn page(results: &Results) -> String {
    let cells = &results.cells;
    let heading = |cell: &Cell| format!("{} counted", counted(cell.requests, "request", "requests"));
    let mut page = by_trace(
        cells,
        |cell| &cell.trace,
        heading,
        |trace| lines(trace, results.whole.get(&trace[0].trace).copied()),
    );
    if cells.iter().any(|cell| cell.error.is_some()) {
        page += &format!("{SAMPLED}\n");
    }
    for (sign, legend) in [("*", BEST), ("(offline)", OFFLINE), ("(all)", WHOLE)] {
        if page.contains(sign) {
            page += &format!("{legend}\n");
        }
    }
    page
}

/// Formats the cells of each trace: its name and `heading`, the lines of its table, and an empty line.
pub(super) fn by_trace<C>(
    cells: &[C],
    name: fn(&C) -> &str,
    heading: impl Fn(&C) -> String,
    lines: impl Fn(&[C]) -> Vec<String>,
) -> String {
    let table = |trace: &[C]| {
        let lines: String = lines(trace).into_iter().map(|line| line + "\n").collect();
        format!("{}: {}\n{lines}\n", name(&trace[0]), heading(&trace[0]))
    };
    cells.chunk_by(|one, next| name(one) == name(next)).map(table).collect()
}

/// Returns a table that fits the terminal: without its last columns if necessary.
fn lines(cells: &[Cell], whole: Option<Capacity>) -> Vec<String> {
    let width = terminal::columns().unwrap_or(usize::MAX);
    let has_costs = cells.iter().any(|cell| cell.cost_a_month.is_some());
    let columns: Vec<_> = COLUMNS.iter().filter(|column| has_costs || column.name != COST).collect();
    let with = |count: usize| aligned(&rows(cells, whole, &columns[..count]), 2, " ");
    let fits = |lines: &Vec<String>| lines.iter().all(|line| line.chars().count() <= width);
    (2..=columns.len()).rev().map(with).find(fits).unwrap_or_else(|| with(1))
}

/// Returns the names of `columns`, then a row for each cell, with an empty row between capacities. In `whole`, all
/// objects fit.
fn rows(cells: &[Cell], whole: Option<Capacity>, columns: &[&Column]) -> Vec<Vec<String>> {
    let names = ["capacity", "policy"].into_iter().chain(columns.iter().map(|column| column.name));
    let mut rows = vec![names.map(|name| format!("{name} ")).collect::<Vec<_>>()];
    for group in cells.chunk_by(|one, next| one.capacity == next.capacity) {
        if rows.len() > 1 && cells.len() > group.len() && group.len() > 1 {
            rows.push(Vec::new());
        }
        let best: Vec<_> = columns.iter().map(|column| best(column, group)).collect();
        let all = if Some(group[0].capacity) == whole { "(all) " } else { "" };
        for cell in group {
            let mark = if is_offline(&cell.spec) { " (offline)" } else { "" };
            let mut row = vec![format!("{} {all}", capacity(cell.capacity)), format!("{}{mark} ", cell.spec)];
            for (column, best) in columns.iter().zip(&best) {
                let is_best = mark.is_empty() && *best == Some((column.text)(cell));
                row.push(format!("{}{}", (column.text)(cell), if is_best { '*' } else { ' ' }));
            }
            rows.push(row);
        }
    }
    rows
}

/// Returns the best figure as text, so that equal figures are marked alike; `None` if all are equal.
fn best(column: &Column, cells: &[Cell]) -> Option<String> {
    let rank = column.rank?;
    let able: Vec<_> = cells.iter().filter(|cell| !is_offline(&cell.spec)).collect();
    let best = able.iter().min_by(|one, next| rank(one).total_cmp(&rank(next)))?;
    let text = (column.text)(best);
    able.iter().any(|cell| (column.text)(cell) != text).then_some(text)
}

/// Formats a capacity in its unit, rounded for people.
pub(super) fn capacity(capacity: Capacity) -> String {
    match capacity.by {
        By::Bytes => about_size(capacity.amount),
        By::Entries => about_count(capacity.amount),
    }
}

fn hit_ratio(cell: &Cell) -> String {
    match cell.error {
        Some(error) => format!("{} +- {:.2}", percent(cell.hit_ratio), error * 100.0),
        None => percent(cell.hit_ratio),
    }
}

pub(super) fn percent(ratio: f64) -> String {
    format!("{:.2}%", ratio * 100.0)
}
