//! `larder stats --validator` and `--couplings`: a running proxy's findings about its origins.

use std::time::Duration;

use clap::Args;
use larder_proxy::findings::{
    Coupling, Couplings, Lifetime, Percentiles, Proposal, Route, SkipCounts, Validation, Verdicts,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::admin::AdminListener;
use crate::cli::tables::{Column, fitted};
use crate::cli::terminal;
use crate::cli::units::{about_count, show_duration};
use crate::cli::words::printable;
use crate::cli::{Failure, say};

/// Which of the findings to show; none: the figures.
#[derive(Debug, Args)]
pub(super) struct Findings {
    /// Show hits that [validate] found stale, by route
    #[arg(long, conflicts_with = "question")]
    validator: bool,
    /// Show writes that seem to change the responses of other paths
    #[arg(long, conflicts_with_all = ["question", "validator"])]
    couplings: bool,
}

impl Findings {
    /// Answers the question, if there is one, and returns whether there was. The error is the reason why there is no
    /// answer, in one line.
    pub(super) fn answer(&self, listener: &AdminListener, as_json: bool) -> Result<bool, Failure> {
        match (self.validator, self.couplings) {
            (true, _) => show(listener, "validator", as_json, |found: &Validation| {
                validation(found, terminal::columns())
            })?,
            (_, true) => show(listener, "couplings", as_json, couplings)?,
            (false, false) => return Ok(false),
        }
        Ok(true)
    }
}

fn show<T: DeserializeOwned + Serialize>(
    listener: &AdminListener,
    path: &str,
    as_json: bool,
    lines: fn(&T) -> Vec<String>,
) -> Result<(), Failure> {
    let found: T = listener.client()?.get(path, &[])?;
    match as_json {
        true => say(&serde_json::to_string_pretty(&found).unwrap_or_default()),
        false => lines(&found).iter().for_each(|line| say(line)),
    }
    Ok(())
}

/// Each column with its rank: the highest is omitted first if there is no room.
const COLUMNS: [(&str, u8); 10] = [
    ("route", 0),
    ("checked", 0),
    ("ok", 4),
    ("stale", 0),
    ("changed", 3),
    ("unstable", 2),
    ("failed", 1),
    ("stale share", 0),
    ("stale for", 0),
    ("lifetime", 0),
];

fn validation(found: &Validation, width: Option<usize>) -> Vec<String> {
    if found.sample == 0.0 && found.verdicts.checked == 0 {
        return vec!["no hit is validated; set sample in [validate] to have some".to_owned()];
    }
    let columns = COLUMNS.map(|(name, rank)| Column { name, is_text: name == "route", rank });
    let mut rows: Vec<_> = found.routes.iter().map(row).collect();
    if found.routes.len() != 1 {
        rows.push(row(&Route { route: "all".to_owned(), verdicts: found.verdicts, ..Route::default() }));
    }
    let mut lines = fitted(&columns, &rows, 0, width);
    let SkipCounts { rate, busy, credentials, large } = found.skipped;
    let why = [
        (rate, "beyond the rate"),
        (busy, "while busy"),
        (credentials, "with credentials"),
        (large, "too large"),
    ];
    let why = why.iter().filter(|(count, _)| *count > 0);
    let why: Vec<_> = why.map(|(count, why)| format!("{} {why}", about_count(*count))).collect();
    if !why.is_empty() {
        lines.push(format!("not validated: {}", why.join(", ")));
    }
    lines
}

fn row(route: &Route) -> Vec<String> {
    let Verdicts { checked, ok, stale, changed_meanwhile, unstable, failed } = route.verdicts;
    let name =
        if route.site.is_empty() { route.route.clone() } else { format!("{}/{}", route.site, route.route) };
    let comparable = ok + stale + changed_meanwhile;
    let share = match comparable {
        0 => "-".to_owned(),
        _ => format!("{:.2}%", 100.0 * stale as f64 / comparable as f64),
    };
    let mut cells = vec![printable(&name)];
    cells.extend([checked, ok, stale, changed_meanwhile, unstable, failed].map(about_count));
    cells.extend([share, staleness(route.staleness), lifetime(route.lifetime)]);
    cells
}

fn staleness(staleness: Option<Percentiles>) -> String {
    let of = |Percentiles { p50, p99, .. }| format!("{}, p99 {}", seconds(p50), seconds(p99));
    staleness.map_or_else(|| "-".to_owned(), of)
}

fn lifetime(lifetime: Option<Lifetime>) -> String {
    match lifetime {
        None => "-".to_owned(),
        Some(Lifetime { seconds: 0, .. }) => "none".to_owned(),
        Some(Lifetime { seconds: most, at_least: false }) => seconds(most),
        Some(Lifetime { seconds: least, at_least: true }) => format!("{} or more", seconds(least)),
    }
}

fn seconds(seconds: u32) -> String {
    show_duration(Duration::from_secs(seconds.into()))
}

fn couplings(found: &Couplings) -> Vec<String> {
    let (looks, writes) = (about_count(found.looks), about_count(found.writes));
    if found.couplings.is_empty() {
        return vec![format!("no couplings in {looks} comparisons and {writes} writes")];
    }
    let line = |coupling: &Coupling| {
        let known = if coupling.configured { "; coupled already" } else { "" };
        printable(&format!("{}: {}{known}", coupling.site, coupling.text))
    };
    let mut lines: Vec<_> = found.couplings.iter().map(line).collect();
    for Proposal { site, line } in &found.config {
        lines.push(String::new());
        lines.push(printable(&format!("a gateway (role = \"tags\") before {site} couples them by:")));
        lines.push(printable(line));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_rows_with_what_can_be_said_of_them() {
        assert!(validation(&Validation::default(), None)[0].starts_with("no hit is validated"));
        let users =
            Verdicts { checked: 1_200, ok: 1_180, stale: 15, changed_meanwhile: 5, ..Verdicts::default() };
        let lifetime = Some(Lifetime { seconds: 120, at_least: false });
        let staleness = Some(Percentiles { p50: 5, p90: 30, p99: 90, max: 95 });
        let found = Validation {
            verdicts: users,
            skipped: SkipCounts { rate: 7_000, large: 1, ..SkipCounts::default() },
            routes: vec![Route {
                site: "a".to_owned(),
                route: "users".to_owned(),
                verdicts: users,
                staleness,
                lifetime,
            }],
            ..Validation::default()
        };
        let expected = [
            "route    checked     ok  stale  changed  unstable  failed  stale share    stale for  lifetime",
            "a/users    1,200  1,180     15        5         0       0        1.25%  5s, p99 90s        2m",
            "not validated: 7,000 beyond the rate, 1 too large",
        ];
        assert_eq!(validation(&found, None), expected);
        let narrow = validation(&found, Some(80));
        assert_eq!(
            narrow[0],
            "route    checked  stale  unstable  failed  stale share    stale for  lifetime"
        );
    }

    #[test]
    fn lifetimes_say_how_much_is_known() {
        let of = |seconds, at_least| lifetime(Some(Lifetime { seconds, at_least }));
        assert_eq!(
            (of(0, false), of(60, true), lifetime(None)),
            ("none".into(), "1m or more".into(), "-".into())
        );
    }

    #[test]
    fn couplings_come_with_the_line_to_paste() {
        assert_eq!(couplings(&Couplings::default()), ["no couplings in 0 comparisons and 0 writes"]);
        let coupling = Coupling {
            site: "a".to_owned(),
            written: "users".to_owned(),
            methods: vec!["POST".to_owned()],
            read: "feeds".to_owned(),
            confidence: 0.92,
            otherwise: 0.03,
            support: 340,
            within: 5,
            deviations: 9.0,
            configured: false,
            text: "after POST /users, ..".to_owned(),
        };
        let line = "couple = { users = [\"feeds\"] }".to_owned();
        let config = vec![Proposal { site: "a".to_owned(), line }];
        let known = Coupling { configured: true, ..coupling.clone() };
        let found = Couplings { couplings: vec![coupling, known], config, ..Couplings::default() };
        let expected = [
            "a: after POST /users, ..",
            "a: after POST /users, ..; coupled already",
            "",
            "a gateway (role = \"tags\") before a couples them by:",
            "couple = { users = [\"feeds\"] }",
        ];
        assert_eq!(couplings(&found), expected);
    }
}
