//! The results of the suite: the outcome of each test, and the differences between two runs.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The test's name in the suite.
    pub(super) id: String,
    /// `required`, `optimal`, or `check`, which is neither right nor wrong.
    pub(super) kind: String,
    pub(super) passed: bool,
}

/// Tests whose results differ from the expected ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) better: Vec<String>,
    pub(super) worse: Vec<String>,
}

const KINDS: [&str; 2] = ["required", "optimal"];

/// Returns the number of passed tests of each kind, as text.
pub(super) fn summary(found: &[Outcome]) -> String {
    let mut parts = Vec::new();
    for kind in KINDS {
        let of_kind = || found.iter().filter(|outcome| outcome.kind == kind);
        parts.push(format!("{kind}: {} of {}", of_kind().filter(|o| o.passed).count(), of_kind().count()));
    }
    parts.join(", ")
}

/// Returns one line for each test that can fail, by name.
pub(super) fn write(found: &[Outcome]) -> String {
    let mut lines: Vec<_> = found.iter().filter(|outcome| KINDS.contains(&outcome.kind.as_str())).collect();
    lines.sort_by(|a, b| (&a.kind, &a.id).cmp(&(&b.kind, &b.id)));
    let mut text = String::new();
    for outcome in lines {
        let result = if outcome.passed { "pass" } else { "fail" };
        let _ = writeln!(text, "{} {result} {}", outcome.kind, outcome.id);
    }
    text
}

/// Reads the output of [`write()`]. Fails on a line of another form.
pub(super) fn read(text: &str) -> Result<Vec<Outcome>> {
    let line = |(number, line): (usize, &str)| {
        let mut words = line.split(' ');
        let (kind, result, id) = (words.next()?, words.next()?, words.next()?);
        let passed = matches!(result, "pass").then_some(true).or(matches!(result, "fail").then_some(false))?;
        words.next().is_none().then(|| (number, Outcome { id: id.to_owned(), kind: kind.to_owned(), passed }))
    };
    let parsed = |(number, text)| {
        line((number, text))
            .map(|(_, outcome)| outcome)
            .with_context(|| format!("line {}: expected `KIND pass|fail NAME`, got `{text}`", number + 1))
    };
    text.lines().enumerate().map(parsed).collect()
}

/// Returns the tests that are better and worse than expected. A missing test is worse; a new one that passes is better.
pub(super) fn compare(expected: &[Outcome], found: &[Outcome]) -> Differences {
    let by_id = |outcomes: &[Outcome]| -> BTreeMap<String, bool> {
        outcomes.iter().map(|outcome| (outcome.id.clone(), outcome.passed)).collect()
    };
    let (wanted, got) = (by_id(expected), by_id(found));
    let mut differences = Differences::default();
    for (id, passed) in &wanted {
        match (passed, got.get(id)) {
            (true, Some(false)) => differences.worse.push(format!("{id} fails")),
            (true, None) => differences.worse.push(format!("{id} did not run")),
            (false, Some(true)) => differences.better.push(format!("{id} passes")),
            _ => {}
        }
    }
    let new = found.iter().filter(|o| o.kind != "check" && !wanted.contains_key(&o.id));
    for outcome in new {
        match (outcome.passed, outcome.kind.as_str()) {
            (false, "required") => differences.worse.push(format!("{} is new and fails", outcome.id)),
            (true, _) => differences.better.push(format!("{} is new and passes", outcome.id)),
            _ => {}
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::{Outcome, compare, read, summary, write};

    fn outcome(id: &str, kind: &str, passed: bool) -> Outcome {
        Outcome { id: id.into(), kind: kind.into(), passed }
    }

    #[test]
    fn conformance_results_are_written_and_read_back() {
        let found = [outcome("b", "optimal", false), outcome("a", "required", true)];
        let text = write(&[&found[..], &[outcome("c", "check", true)]].concat());
        assert_eq!(text, "optimal fail b\nrequired pass a\n");
        assert_eq!(read(&text).unwrap(), found);
        assert!(read("required maybe a").unwrap_err().to_string().starts_with("line 1: expected"));
        assert_eq!(summary(&found), "required: 1 of 1, optimal: 0 of 1");
    }

    #[test]
    fn a_lost_test_is_worse_and_a_won_one_is_better() {
        let expected =
            [outcome("a", "required", true), outcome("b", "optimal", false), outcome("c", "optimal", true)];
        let found =
            [outcome("a", "required", false), outcome("b", "optimal", true), outcome("d", "required", false)];
        let differences = compare(&expected, &found);
        assert_eq!(differences.worse, ["a fails", "c did not run", "d is new and fails"]);
        assert_eq!(differences.better, ["b passes"]);
        assert_eq!(compare(&expected, &expected), super::Differences::default());
    }
}
