//! Results as rows, printed as a text table or as JSON.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// A figure with its unit in the column's name.
#[derive(Clone)]
pub(super) enum Cell {
    Word(String),
    Number { value: f64, decimals: usize },
}

impl Cell {
    pub(super) fn word(text: &str) -> Self {
        Self::Word(text.to_owned())
    }

    pub(super) fn number(value: f64, decimals: usize) -> Self {
        Self::Number { value, decimals }
    }

    fn text(&self) -> String {
        match self {
            Self::Word(text) => text.clone(),
            Self::Number { value, decimals } => format!("{value:.decimals$}"),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Word(text) => json!(text),
            Self::Number { value, .. } => json!(value),
        }
    }
}

/// Cells with their column's name; every row of a table has the same columns.
pub(super) type Row = Vec<(&'static str, Cell)>;

/// Writes `report` to the requested file, if there is one.
pub(super) fn write(path: Option<&Path>, report: &Value) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, format!("{report:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn print(rows: &[Row]) {
    for line in lines(rows) {
        println!("{line}");
    }
}

/// Returns the lines of a table: words to the left, numbers to the right, two spaces between.
pub(super) fn lines(rows: &[Row]) -> Vec<String> {
    let Some(first) = rows.first() else { return Vec::new() };
    let mut grid: Vec<Vec<String>> = vec![first.iter().map(|(name, _)| (*name).to_owned()).collect()];
    grid.extend(rows.iter().map(|row| row.iter().map(|(_, cell)| cell.text()).collect()));
    let width = |column: usize| grid.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..first.len()).map(width).collect();
    let is_word: Vec<bool> = first.iter().map(|(_, cell)| matches!(cell, Cell::Word(_))).collect();
    let pad = |(column, text): (usize, &String)| {
        let width = widths[column];
        if is_word[column] { format!("{text:<width$}") } else { format!("{text:>width$}") }
    };
    grid.iter()
        .map(|line| line.iter().enumerate().map(pad).collect::<Vec<_>>().join("  ").trim_end().to_owned())
        .collect()
}

/// Returns an array with an object for each row, keyed by the columns' names.
pub(super) fn json(rows: &[Row]) -> Value {
    let object =
        |row: &Row| row.iter().map(|(name, cell)| ((*name).to_owned(), cell.json())).collect::<Map<_, _>>();
    rows.iter().map(object).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::{Cell, json, lines};

    fn rows() -> Vec<super::Row> {
        vec![
            vec![("server", Cell::word("nginx")), ("CPU us", Cell::number(19.04, 1))],
            vec![("server", Cell::word("trafficserver")), ("CPU us", Cell::number(117.0, 1))],
        ]
    }

    #[test]
    fn columns_align() {
        assert_eq!(
            lines(&rows()),
            ["server         CPU us", "nginx            19.0", "trafficserver   117.0"]
        );
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn json_keeps_the_full_number() {
        assert_eq!(json(&rows())[0], serde_json::json!({"server": "nginx", "CPU us": 19.04}));
    }
}
