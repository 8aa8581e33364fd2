//! Rows of text in columns, and texts that are too long for them.

use super::terminal::{Tone, coloured};

/// Returns the lines of `rows` with the first `left` columns aligned to the left, the others to the right, and `gap`
/// between.
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

/// A column of a table that fits the terminal.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Whether the column has text, which is aligned to the left; numbers are aligned to the right.
    pub(crate) is_text: bool,
    /// If there is no room, the columns with the highest ranks are omitted first, and those of rank 0 never.
    pub(crate) rank: u8,
}

impl Column {
    /// Returns a column of numbers.
    pub(crate) const fn number(name: &'static str, rank: u8) -> Self {
        Self { name, is_text: false, rank }
    }

    /// Returns a column of texts.
    pub(crate) const fn text(name: &'static str, rank: u8) -> Self {
        Self { name, is_text: true, rank }
    }
}

/// A column of what is known about each `T`.
pub(crate) struct Figure<T> {
    column: Column,
    text: fn(&T) -> String,
}

impl<T> Figure<T> {
    /// Returns a column of numbers.
    pub(crate) const fn number(name: &'static str, rank: u8, text: fn(&T) -> String) -> Self {
        Self { column: Column::number(name, rank), text }
    }

    /// Returns a column of texts.
    pub(crate) const fn text(name: &'static str, rank: u8, text: fn(&T) -> String) -> Self {
        Self { column: Column::text(name, rank), text }
    }
}

/// Returns a table with a row for each of `items`, as [`fitted`] does.
pub(crate) fn of_figures<'f, T: 'f>(
    figures: impl IntoIterator<Item = &'f Figure<T>>,
    items: &[T],
    flexible: usize,
    width: Option<usize>,
) -> Vec<String> {
    let figures: Vec<_> = figures.into_iter().collect();
    let columns: Vec<_> = figures.iter().map(|figure| figure.column).collect();
    let row = |item: &T| figures.iter().map(|figure| (figure.text)(item)).collect::<Vec<_>>();
    fitted(&columns, &items.iter().map(row).collect::<Vec<_>>(), flexible, width)
}

/// Colours the first line of a table.
pub(crate) fn with_heading(mut lines: Vec<String>) -> Vec<String> {
    if let Some(heading) = lines.first_mut() {
        *heading = coloured(Tone::Heading, heading);
    }
    lines
}

/// Characters of the flexible column that are kept by omitting other columns.
const FLEXIBLE: usize = 30;

/// Returns `rows` below the names of `columns`, in lines of at most `width` characters: some columns are omitted, then
/// the texts of the column at `flexible` are shortened.
pub(crate) fn fitted(
    columns: &[Column],
    rows: &[Vec<String>],
    flexible: usize,
    width: Option<usize>,
) -> Vec<String> {
    let names = columns.iter().map(|column| column.name.to_owned()).collect::<Vec<_>>();
    let rows: Vec<_> = std::iter::once(&names).chain(rows).collect();
    let widest = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns.len()).map(widest).collect();
    let mut kept: Vec<_> = (0..columns.len()).collect();
    let room = |kept: &[usize]| {
        let others = kept.iter().filter(|at| **at != flexible).map(|at| widths[*at] + GAP.len());
        width.map_or(widths[flexible], |width| width.saturating_sub(others.sum())).min(widths[flexible])
    };
    while room(&kept) < FLEXIBLE.min(widths[flexible]) {
        let ranks = kept.iter().enumerate().map(|(index, at)| (columns[*at].rank, index));
        let Some((_, out)) = ranks.filter(|(rank, _)| *rank > 0).max() else { break };
        kept.remove(out);
    }
    let room = room(&kept);
    let cell = |row: &[String], at: usize| match (at == flexible, columns[at].is_text, widths[at]) {
        (true, true, _) => format!("{:<room$}", shortened(&row[at], room)),
        (true, false, _) => format!("{:>room$}", shortened(&row[at], room)),
        (false, true, width) => format!("{:<width$}", row[at]),
        (false, false, width) => format!("{:>width$}", row[at]),
    };
    let line = |row: &&Vec<String>| {
        kept.iter().map(|at| cell(row, *at)).collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The gap between two columns.
const GAP: &str = "  ";

/// What stands for the omitted part of a text.
const DOTS: &str = "...";

/// Shortens `text` to at most `width` characters. A URL loses its scheme first, then the middle of its query, then the
/// middle of its path: what distinguishes it from other URLs is the name of its file. The dashboard has the same rule.
/// Other texts lose their middle.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let length = |text: &str| text.chars().count();
    if length(text) <= width {
        return text.to_owned();
    }
    let Some(("http" | "https", url)) = text.split_once("://") else { return without_middle(text, width) };
    let (path, query) = url.find('?').map_or((url, ""), |at| url.split_at(at));
    let file = path.trim_end_matches('/').rfind('/').map_or("", |at| &path[at..]);
    match (width.checked_sub(length(path)), width.saturating_sub(length(file) + DOTS.len())) {
        (Some(room), _) if length(query) <= room => url.to_owned(),
        (Some(room), _) if room > DOTS.len() + 1 => format!("{path}{}", without_middle(query, room)),
        (Some(_), _) => path.to_owned(),
        (None, 0) => without_middle(path, width),
        (None, begin) => path.chars().take(begin).chain(DOTS.chars()).chain(file.chars()).collect(),
    }
}

fn without_middle(text: &str, width: usize) -> String {
    let kept = width.saturating_sub(DOTS.len());
    let begin = kept.div_ceil(2);
    let end = text.chars().skip(text.chars().count().saturating_sub(kept - begin));
    text.chars().take(begin).chain(DOTS.chars()).chain(end).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::{Column, fitted, shortened};

    #[test]
    fn long_texts_lose_their_middle() {
        let table =
            [("http://a/b", 10, "http://a/b"), ("ftp://a/bcdefg", 10, "ftp:...efg"), ("abcdef", 2, "..")];
        for (text, width, expected) in table {
            assert_eq!(shortened(text, width), expected, "{text}");
        }
    }

    #[test]
    fn urls_lose_scheme_and_query_first_and_keep_the_files_name() {
        let table = [
            ("http://a/bc", 10, "a/bc"),
            ("https://a/\u{e4}\u{e4}\u{e4}\u{e4}", 7, "a/\u{e4}\u{e4}\u{e4}\u{e4}"),
            ("http://a/index.html", 12, "a/index.html"),
            ("http://shop.test/photos/2024/summer/img-0017.jpg", 30, "shop.test/phot.../img-0017.jpg"),
            (
                "http://shop.test/photos/2024/summer/img-0017.jpg?w=300",
                44,
                "shop.test/photos/2024/summer/img-0017.jpg",
            ),
            ("http://shop.test/search?q=shoes&colour=red&page=7", 30, "shop.test/search?q=sho...age=7"),
            ("http://shop.test/photos/2024/album/?w=300", 22, "shop.test/ph.../album/"),
            ("http://a/the-name-of-a-file-that-is-too-long.html", 20, "a/the-nam...ong.html"),
        ];
        for (url, width, expected) in table {
            assert_eq!(shortened(url, width), expected, "{url}");
            assert!(expected.chars().count() <= width, "{url}");
        }
    }

    #[test]
    fn a_narrow_table_omits_columns_by_rank_and_then_shortens_values() {
        let columns = [Column::number("count", 0), Column::text("why", 1), Column::text("url", 0)];
        let url = format!("http://a/{}.html", "b".repeat(60));
        let rows = [vec!["1".to_owned(), "w".repeat(22), url.clone()]];
        let whole = fitted(&columns, &rows, 2, None);
        assert_eq!(whole[0], format!("count  why{:19}  url", ""));
        assert_eq!(whole[1], format!("    1  {}  {url}", "w".repeat(22)));
        let narrow = fitted(&columns, &rows, 2, Some(50));
        assert_eq!(narrow[0], "count  url");
        assert!(narrow[1].starts_with("    1  a/bb") && narrow[1].ends_with("bb.html"), "{narrow:?}");
        assert_eq!(narrow[1].chars().count(), 50);
        assert_eq!(fitted(&columns, &rows, 2, Some(80))[0], whole[0]);
    }
}
