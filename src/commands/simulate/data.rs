//! The results for programs: JSON and comma-separated values. Names and units are stable.

use larder_evict::Spec;
use larder_lab::anomaly::Anomaly;
use larder_lab::curve::Curve;
use larder_lab::sweep::Cell;
use serde_json::{Value, json};

use super::args::Simulate;
use super::results::Results;

/// A column's name, and its value for a cell.
pub(super) type Column<C> = (&'static str, fn(&C) -> Value);

/// The columns for a policy at one capacity.
pub(super) const COLUMNS: &[Column<Cell>] = &[
    ("trace", |cell| json!(cell.trace)),
    ("policy", |cell| json!(cell.spec.to_string())),
    ("capacity", |cell| json!(cell.capacity.amount)),
    ("by", |cell| json!(cell.capacity.by.name())),
    ("requests", |cell| json!(cell.requests)),
    ("hits", |cell| json!(cell.hits)),
    ("hit_ratio", |cell| json!(cell.hit_ratio)),
    ("byte_hit_ratio", |cell| json!(cell.byte_hit_ratio)),
    ("evictions", |cell| json!(cell.evictions)),
    ("requests_per_second", |cell| json!(cell.requests_per_second.round())),
    ("metadata_bytes_per_object", |cell| json!(cell.metadata_bytes_per_object)),
    ("offline", |cell| json!(is_offline(&cell.spec))),
    ("error_95", |cell| json!(cell.error)),
    ("cost_a_month", |cell| json!(cell.cost_a_month)),
];

/// Whether the policy needs to know the future: it serves for comparison only.
pub(super) fn is_offline(spec: &Spec) -> bool {
    spec.listing().is_offline
}

/// Returns one object: the cells, the anomalies and the curves.
pub(super) fn json(results: &Results) -> String {
    json!({
        "cells": objects(COLUMNS, &results.cells),
        "anomalies": results.anomalies.iter().map(anomaly).collect::<Vec<_>>(),
        "curves": results.curves.iter().map(curve).collect::<Vec<_>>(),
    })
    .to_string()
}

/// Formats `cells` as `args` say: as JSON, as comma-separated values, or for people by `table`.
pub(super) fn page<C>(
    args: &Simulate,
    columns: &[Column<C>],
    cells: &[C],
    table: fn(&[C]) -> String,
) -> String {
    match (args.json, args.csv) {
        (true, _) => json!({ "cells": objects(columns, cells) }).to_string(),
        (false, true) => csv(columns, cells),
        (false, false) => table(cells),
    }
}

/// Returns an object for each cell, with a key for each column.
fn objects<C>(columns: &[Column<C>], cells: &[C]) -> Value {
    let object =
        |cell| columns.iter().map(|(name, value)| ((*name).to_owned(), value(cell))).collect::<Value>();
    cells.iter().map(object).collect()
}

fn anomaly(anomaly: &Anomaly) -> Value {
    let Anomaly { trace, spec, smaller, larger } = anomaly;
    json!({
        "trace": trace,
        "policy": spec.to_string(),
        "by": smaller.0.by.name(),
        "capacities": [smaller.0.amount, larger.0.amount],
        "misses": [smaller.1, larger.1],
    })
}

fn curve(curve: &Curve) -> Value {
    let points = curve.points.iter();
    json!({
        "trace": curve.trace,
        "policy": "lru",
        "by": curve.by.name(),
        "points": points.map(|at| json!([at.capacity, at.hit_ratio, at.byte_hit_ratio])).collect::<Vec<_>>(),
    })
}

/// Returns a line of names, and a line for each cell. Unknown values are empty.
pub(super) fn csv<C>(columns: &[Column<C>], cells: &[C]) -> String {
    let names: Vec<_> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut text = names.join(",") + "\n";
    for cell in cells {
        let fields: Vec<_> = columns.iter().map(|(_, value)| field(&value(cell))).collect();
        text += &(fields.join(",") + "\n");
    }
    text
}

/// Formats a field, quoted if necessary (RFC 4180, section 2).
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains(['"', ',', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let table = [
            (json!("s3fifo:small=0.1,ghost=0.5"), "\"s3fifo:small=0.1,ghost=0.5\""),
            (json!("a \"b\""), "\"a \"\"b\"\"\""),
            (json!("lru"), "lru"),
            (json!(0.25), "0.25"),
            (json!(null), ""),
        ];
        for (value, expected) in table {
            assert_eq!(field(&value), expected);
        }
    }
}
