//! Rows of text in columns.

/// Lines of `rows` with the first `left` columns aligned to the left, the others to the right, and `gap` between.
pub(crate) fn aligned(rows: &[Vec<String>], left: usize, gap: &str) -> Vec<String> {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).map(width).collect();
    let pad = |(column, text): (usize, &String)| {
        let width = widths[column];
        if column < left { format!("{text:<width$}") } else { format!("{text:>width$}") }
    };
    rows.iter()
        .map(|row| row.iter().enumerate().map(pad).collect::<Vec<_>>().join(gap).trim_end().to_owned())
        .collect()
}
