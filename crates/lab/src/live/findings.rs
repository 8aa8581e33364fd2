//! The results of an experiment: claims with their verdicts, figures and tables.

use crate::plot::Plot;

use super::statistics::{Contrast, Interval, Verdict};

/// A claim, and what the measurements say of it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What is claimed.
    pub claim: String,
    /// The source of the claim.
    pub source: &'static str,
    /// Whether it stands.
    pub verdict: Verdict,
    /// How large what was found is, in one line: with its unit, confidence interval and repetitions.
    pub effect: String,
    /// What the data show, and why.
    pub text: String,
}

impl Finding {
    /// A claim that a difference, of so many times `scale` of `unit`, is above 0.
    pub(super) fn of_contrast(
        claim: &str,
        source: &'static str,
        contrast: &Contrast,
        (scale, unit): (f64, &str),
        text: String,
    ) -> Self {
        let effect = contrast.overall().map_or_else(String::new, |overall| told(&overall, scale, unit));
        Self { claim: claim.to_owned(), source, verdict: contrast.verdict(), effect, text }
    }
}

/// An interval in words: `+3.1 points (95% between +2.0 and +4.2, 5 repetitions, d = 2.4)`.
pub(super) fn told(interval: &Interval, scale: f64, unit: &str) -> String {
    let Interval { mean, margin, count, .. } = *interval;
    let (mean, margin) = (mean * scale, margin * scale);
    if count == 1 {
        return format!("{mean:+.2} {unit} (one repetition)");
    }
    let effect = interval.effect().map_or_else(String::new, |effect| format!(", d = {effect:.1}"));
    let (low, high) = (mean - margin, mean + margin);
    format!("{mean:+.2} {unit} (95% between {low:+.2} and {high:+.2}, {count} repetitions{effect})")
}

/// A picture, with its numbers.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Short, for file names.
    pub name: String,
    /// The picture.
    pub plot: Plot,
    /// What to see in it.
    pub caption: String,
    /// Its numbers.
    pub data: Grid,
}

/// Rows of cells under names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// What it shows.
    pub title: String,
    /// The columns' names, with units.
    pub columns: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// No rows yet.
    pub(super) fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As comma-separated values.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            // Rows of any length are written into memory, which does not fail.
            let _ = writer.write_record(row);
        }
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }
}

/// All that an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What the measurements were taken of and with, a paragraph each.
    pub setup: Vec<String>,
    /// Claims and verdicts.
    pub findings: Vec<Finding>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// Tables that no picture shows.
    pub tables: Vec<Grid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_told_in_their_unit() {
        let interval = Interval::of(&[0.01, 0.02, 0.03]).unwrap();
        let expected = "+2.00 points (95% between -0.48 and +4.48, 3 repetitions, d = 2.0)";
        assert_eq!(told(&interval, 100.0, "points"), expected);
        assert_eq!(told(&Interval::of(&[1.5]).unwrap(), 1.0, "ms"), "+1.50 ms (one repetition)");
    }

    #[test]
    fn a_grid_is_written_as_values_between_commas() {
        let mut grid = Grid::new("t", &["policy", "ratio, of hits"]);
        grid.row(["lru".to_owned(), "0.5".to_owned()]);
        assert_eq!(grid.csv(), "policy,\"ratio, of hits\"\nlru,0.5\n");
    }
}
