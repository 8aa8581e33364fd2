//! What a figure should be, and whether it is.

use super::table::{Cell, Row};

/// A figure, and the most that it should be.
pub(super) struct Goal {
    what: String,
    most: f64,
    figure: f64,
}

impl Goal {
    pub(super) fn new(what: String, most: f64, figure: f64) -> Self {
        Self { what, most, figure }
    }

    /// Whether it is met; not a number is no figure.
    fn verdict(&self) -> &'static str {
        match self.figure {
            figure if figure.is_nan() => "not measured",
            figure if figure <= self.most => "met",
            _ => "missed",
        }
    }

    pub(super) fn row(&self) -> Row {
        vec![
            ("goal", Cell::word(&self.what)),
            ("at most", Cell::number(self.most, 2)),
            ("figure", Cell::number(self.figure, 2)),
            ("verdict", Cell::word(self.verdict())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::Goal;

    #[test]
    fn a_goal_is_met_at_its_limit_and_not_without_a_figure() {
        for (figure, verdict) in [(1.5, "met"), (1.51, "missed"), (f64::NAN, "not measured")] {
            assert_eq!(Goal::new(String::new(), 1.5, figure).verdict(), verdict);
        }
    }
}
