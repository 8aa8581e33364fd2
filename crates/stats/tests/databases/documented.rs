//! The document describes the real schema: its columns are the existing ones, and its queries have answers.

use std::collections::BTreeSet;

use larder_stats::{Dimension, Transaction, outcome};
use larder_testkit::within;

use crate::engines::Engine;
use crate::model;
use crate::scenario::{LONG, asked, open, options, read};

const DOCUMENT: &str = include_str!("../../../../docs/statistics.md");

const TABLES: [&str; 7] =
    ["transactions", "hours", "contents", "predictions", "outcomes", "writers", "larder_schema"];

pub(crate) fn all(engine: &dyn Engine) {
    let url = engine.fresh();
    let recorder = open(&url, options());
    let mut requests = model::varied(3_000, model::now(), 5);
    let never_hit = Transaction {
        outcome: outcome::MISS.into(),
        origin_us: Some(9),
        ..model::hit(model::now(), "http://docs.example/new")
    };
    requests.push(never_hit);
    requests.iter().cloned().for_each(|request| recorder.record(request));
    recorder.record_contents(model::contents(50));
    recorder.record_predictions(model::predictions(3));
    within(LONG, "a snapshot", || (recorder.figures().snapshots == 1).then_some(()));
    recorder.close(LONG);
    every_column_is_described(&url);
    every_query_has_an_answer(&url);
    ratios_are_those_of_the_definition(&url, &requests);
}

fn every_column_is_described(url: &str) {
    for table in TABLES {
        let there = read(url).query(&format!("SELECT * FROM {table}")).unwrap().columns;
        assert_eq!(described(table), there.into_iter().collect(), "{table}");
    }
}

/// Returns the first cells of the table below the heading that names `table`.
fn described(table: &str) -> BTreeSet<String> {
    let heading = format!("\n### `{table}`");
    let (_, section) = DOCUMENT.split_once(&heading).unwrap_or_else(|| panic!("{table} is not described"));
    let section = section.split("\n#").next().unwrap_or_default();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

fn queries() -> Vec<&'static str> {
    DOCUMENT.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

fn every_query_has_an_answer(url: &str) {
    assert!(queries().len() >= 10);
    for query in queries() {
        assert!(!asked(url, query).is_empty(), "no answer to {query}");
    }
}

fn ratios_are_those_of_the_definition(url: &str, requests: &[Transaction]) {
    let sites = model::grouped(requests, |request| model::name(Dimension::Site, request));
    let rows = read(url).query(queries()[0]).unwrap().rows;
    assert_eq!(rows.len(), sites.len());
    for row in rows {
        let cells = row.into_iter().flatten().collect::<Vec<_>>();
        let counts = sites[&cells[0]];
        assert_eq!(cells[1], counts.requests.to_string());
        let ratios = [counts.hit_ratio(), counts.validated_hit_ratio(), counts.byte_hit_ratio()];
        for (cell, ratio) in cells[2..].iter().zip(ratios) {
            let said = cell.parse::<f64>().unwrap();
            assert!(ratio > 0.1 && (said - ratio).abs() < 1e-4, "{}: {said}, not {ratio}", cells[0]);
        }
    }
}
