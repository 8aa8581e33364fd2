//! The results for people: a table for each trace, a row for each cell, the best of each column marked.

use larder_evict::{By, Capacity};
use larder_lab::sweep::Cell;

use super::data::is_offline;
use crate::cli::tables::aligned;
use crate::cli::units::{about_count, about_size};

/// What the signs in the table mean.
const BEST: &str = "* best of its capacity";
const OFFLINE: &str = "(offline) uses future requests, and is not compared";
const SAMPLED: &str = "+- holds the hit ratio of the whole trace 95 times in 100, as far as sampling errs";

/// A column of figures: its name, its text, and, if one can be better than another, a figure that is lower where
/// it is.
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

/// Everything, trace by trace.
pub(super) fn page(cells: &[Cell]) -> String {
    let mut page = String::new();
    for trace in cells.chunk_by(|one, next| one.trace == next.trace) {
        page += &format!("{}: {} requests counted\n", trace[0].trace, about_count(trace[0].requests));
        for line in aligned(&rows(trace), 2, " ") {
            page += &(line + "\n");
        }
        page.push('\n');
    }
    if cells.iter().any(|cell| cell.error.is_some()) {
        page += &format!("{SAMPLED}\n");
    }
    for (sign, legend) in [("*", BEST), ("(offline)", OFFLINE)] {
        if page.contains(sign) {
            page += &format!("{legend}\n");
        }
    }
    page
}

/// The names of the columns, then a row for each cell, with an empty row between capacities.
fn rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let names = ["capacity", "policy"].into_iter().chain(COLUMNS.iter().map(|column| column.name));
    let mut rows = vec![names.map(|name| format!("{name} ")).collect::<Vec<_>>()];
    for group in cells.chunk_by(|one, next| one.capacity == next.capacity) {
        if rows.len() > 1 && cells.len() > group.len() && group.len() > 1 {
            rows.push(Vec::new());
        }
        let best: Vec<_> = COLUMNS.iter().map(|column| best(column, group)).collect();
        for cell in group {
            let mark = if is_offline(&cell.spec) { " (offline)" } else { "" };
            let mut row = vec![format!("{} ", capacity(cell.capacity)), format!("{}{mark} ", cell.spec)];
            for (column, best) in COLUMNS.iter().zip(&best) {
                let is_best = mark.is_empty() && *best == Some((column.text)(cell));
                row.push(format!("{}{}", (column.text)(cell), if is_best { '*' } else { ' ' }));
            }
            rows.push(row);
        }
    }
    rows
}

/// The best figure as it is shown, so that equals are marked alike; nothing where all are equal.
fn best(column: &Column, cells: &[Cell]) -> Option<String> {
    let rank = column.rank?;
    let able: Vec<_> = cells.iter().filter(|cell| !is_offline(&cell.spec)).collect();
    let best = able.iter().min_by(|one, next| rank(one).total_cmp(&rank(next)))?;
    let text = (column.text)(best);
    able.iter().any(|cell| (column.text)(cell) != text).then_some(text)
}

/// A capacity in its unit, cut to what people read.
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
