//! The numbers of lines that tasks state.

use std::collections::BTreeMap;

use super::{PAGE, tasks};

/// Returns the number of lines that a task states at the beginning of its text.
fn stated(section: &str) -> Option<usize> {
    let text = section.split_once("\n\n")?.1;
    let (number, rest) = text.split_once(' ')?;
    number.parse().ok().filter(|_| rest.starts_with("line"))
}

/// Returns the number of lines that a task adds to a site: all but `[[site]]`, its one origin and blank ones.
fn added(lines: &str) -> usize {
    let (mut table, mut added) = ("", 0);
    for line in lines.lines().filter(|line| !line.is_empty()) {
        table = if line.starts_with('[') { line } else { table };
        let is_of_any_site = table == "[[site]]" && (line == table || line.starts_with("origin = \""));
        added += usize::from(!is_of_any_site);
    }
    added
}

/// Returns the sections of the tasks, by number.
pub(super) fn sections() -> BTreeMap<usize, &'static str> {
    let sections = PAGE.split("\n### ").skip(1);
    sections.filter_map(|section| Some((section.split('.').next()?.parse().ok()?, section))).collect()
}

#[test]
fn tasks_state_the_number_of_their_lines() {
    let tasks = tasks();
    for (number, section) in sections() {
        let expected = Some(added(&tasks[&number]));
        // The first tasks are as short in all programs.
        let (stated, has_to) = (stated(section), number > 52);
        assert!(
            stated == expected || (stated.is_none() && !has_to),
            "{number}: {stated:?}, not {expected:?}"
        );
    }
}
