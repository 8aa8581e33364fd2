//! Goals: figures with an upper limit, and the result of a bench that misses one.

use anyhow::{Result, bail};
use serde_json::json;
use std::path::Path;

use super::table::{self, Cell, Row};

/// A figure with its upper limit.
pub(super) struct Goal {
    what: String,
    most: f64,
    figure: f64,
}

impl Goal {
    pub(super) fn new(what: String, most: f64, figure: f64) -> Self {
        Self { what, most, figure }
    }

    fn is_missed(&self) -> bool {
        self.figure > self.most
    }

    /// Returns whether the goal is met; NaN means not measured.
    fn verdict(&self) -> &'static str {
        match self.figure {
            figure if figure.is_nan() => "not measured",
            _ if self.is_missed() => "missed",
            _ => "met",
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

/// Prints the goals of a bench that prints no more after them.
pub(super) fn print(goals: &[Goal]) {
    if !goals.is_empty() {
        println!("\ngoals");
        table::print(&goals.iter().map(Goal::row).collect::<Vec<_>>());
    }
}

/// Prints the table of a bench and its goals, and writes both to the file at `path`, if there is one.
pub(super) fn report(path: Option<&Path>, (name, rows): (&str, &[Row]), goals: &[Goal]) -> Result<()> {
    table::print(rows);
    print(goals);
    let told: Vec<_> = goals.iter().map(Goal::row).collect();
    table::write(path, &json!({name: table::json(rows), "goals": table::json(&told)}))
}

/// Decides the goals of a bench, after everything was printed. A goal that was not measured has no effect. Errors:
/// missed goals, which the error names.
pub(super) fn judge(goals: &[Goal]) -> Result<()> {
    let missed: Vec<_> = goals.iter().filter(|goal| goal.is_missed()).collect();
    let told = |goal: &&Goal| format!("{}: {:.2}, at most {:.2}", goal.what, goal.figure, goal.most);
    match &missed[..] {
        [] => Ok(()),
        missed => bail!(
            "{} of {} goals missed ({})",
            missed.len(),
            goals.len(),
            missed.iter().map(told).collect::<Vec<_>>().join("; ")
        ),
    }
}

/// The outcome of a bench: its goals, or the reason why it has none.
pub(super) type Outcome = (&'static str, Result<Vec<Goal>>);

/// Returns a row for each goal of several benches, and for each bench without goals.
pub(super) fn summary(outcomes: &[Outcome]) -> Vec<Row> {
    let row = |bench: &str, what: &str, [most, figure]: [Cell; 2], verdict: &str| {
        vec![
            ("bench", Cell::word(bench)),
            ("goal", Cell::word(what)),
            ("at most", most),
            ("measured", figure),
            ("verdict", Cell::word(verdict)),
        ]
    };
    let nothing = || [Cell::word("-"), Cell::word("-")];
    let mut rows = Vec::new();
    for (bench, outcome) in outcomes {
        match outcome {
            Err(_) => rows.push(row(bench, "-", nothing(), "failed")),
            Ok(goals) if goals.is_empty() => rows.push(row(bench, "-", nothing(), "no goal")),
            Ok(goals) => rows.extend(goals.iter().map(|goal| {
                let cells = [Cell::number(goal.most, 2), Cell::number(goal.figure, 2)];
                row(bench, &goal.what, cells, goal.verdict())
            })),
        }
    }
    rows
}

/// Decides the goals of several benches together. Errors: failed benches and benches with missed goals, which the error
/// names.
pub(super) fn judge_all(outcomes: &[Outcome]) -> Result<()> {
    let complaint = |(bench, outcome): &Outcome| match outcome {
        Err(error) => Some(format!("{bench} failed: {error:#}")),
        Ok(goals) => judge(goals).err().map(|error| format!("{bench}: {error}")),
    };
    let complaints: Vec<_> = outcomes.iter().filter_map(complaint).collect();
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::table::{json, lines};
    use super::{Goal, Outcome, judge, judge_all, summary};
    use anyhow::anyhow;

    fn goal(what: &str, most: f64, figure: f64) -> Goal {
        Goal::new(what.to_owned(), most, figure)
    }

    #[test]
    fn a_goal_is_met_at_its_limit_and_not_without_a_figure() {
        for (figure, verdict) in [(1.5, "met"), (1.51, "missed"), (f64::NAN, "not measured")] {
            assert_eq!(goal("", 1.5, figure).verdict(), verdict);
        }
    }

    #[test]
    fn a_goal_that_is_missed_fails_its_bench() {
        assert!(judge(&[]).is_ok());
        assert!(judge(&[goal("speed", 1.0, 1.0), goal("size", 1.0, f64::NAN)]).is_ok());
        let error = judge(&[goal("speed", 1.0, 1.25), goal("size", 64.0, 60.0)]).unwrap_err();
        assert_eq!(error.to_string(), "1 of 2 goals missed (speed: 1.25, at most 1.00)");
    }

    fn outcomes() -> Vec<Outcome> {
        vec![
            ("hits", Ok(vec![goal("CPU of a hit", 1.0, 0.5), goal("CPU of a miss", 1.0, 1.5)])),
            ("doors", Ok(Vec::new())),
            ("disk", Err(anyhow!("wrk is not installed"))),
        ]
    }

    #[test]
    fn one_table_has_every_goal_of_every_bench() {
        assert_eq!(
            lines(&summary(&outcomes())),
            [
                "bench  goal           at most  measured  verdict",
                "hits   CPU of a hit      1.00      0.50  met",
                "hits   CPU of a miss     1.00      1.50  missed",
                "doors  -                    -         -  no goal",
                "disk   -                    -         -  failed",
            ]
        );
        assert_eq!(json(&summary(&outcomes()))[1]["verdict"], "missed");
    }

    #[test]
    fn a_missed_goal_or_a_failed_bench_fails_them_all() {
        let error = judge_all(&outcomes()).unwrap_err().to_string();
        let expected = "hits: 1 of 2 goals missed (CPU of a miss: 1.50, at most 1.00)\n\
                        disk failed: wrk is not installed";
        assert_eq!(error, expected);
        assert!(judge_all(&outcomes()[1..2]).is_ok() && judge_all(&[]).is_ok());
    }
}
