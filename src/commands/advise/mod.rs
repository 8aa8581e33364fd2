//! `larder advise`: what another policy or size of the cache would bring.

mod sites;

use std::time::Duration;

use clap::Args;
use larder_advise::{Cell, Check, INTERVAL, LATE, LateRoute, Prices, Ratios, Report, Tier, WindowReport};
use serde_json::{Value, json};

use crate::cli::admin::{AdminClient, AdminListener};
use crate::cli::tables::{Column, fitted};
use crate::cli::terminal;
use crate::cli::units::{about_count, about_size, counted, parse_duration, show_duration};
use crate::cli::words::printable;
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder advise
      the sizes and policies of the memory tier, with the hit ratio that each would have had
  larder advise --since 1h
  larder advise --site
      what each site takes of the memory, and the hits that it gives for it
  larder advise --json
  larder advise --apply policy=sieve
      runs another policy, which keeps the stored responses, and says after ten minutes what it brought

Figures are estimates with their standard errors; the real hit ratio of the running configuration is beside them.";

/// The share of requests for responses that may not be stored from which it is mentioned.
const MENTIONED: f64 = 0.05;

/// The arguments of `advise`.
#[derive(Debug, Args)]
pub(crate) struct Advise {
    /// Look back this far [default: to the start, four hours at most]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
    /// Show what each site takes of the memory, and gives, since the process started
    #[arg(long, conflicts_with_all = ["since", "apply"])]
    site: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "apply")]
    json: bool,
    /// Run another policy of the memory tier until the config names another one: policy=NAME
    #[arg(long, value_name = "CHANGE", value_parser = policy_change)]
    apply: Option<String>,
    /// Say after this time what the policy brought; 0s: do not wait
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m", requires = "apply")]
    wait: Duration,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// Shows the table.
pub(crate) fn run(advise: &Advise) -> Result<(), Failure> {
    let since = advise.since.map(|since| ("since", since.as_secs().to_string()));
    let client = advise.listener.client()?;
    match &advise.apply {
        Some(policy) => apply(&client, policy, advise.wait),
        None if advise.site => {
            sites::show(&client.get::<Vec<_>>("advise/sites", &[])?, advise.json);
            Ok(())
        }
        None => {
            show(&client.get("advise", since.as_slice())?, advise.json);
            Ok(())
        }
    }
}

fn policy_change(text: &str) -> Result<String, String> {
    let policy = text.strip_prefix("policy=").filter(|policy| !policy.is_empty());
    policy.map(str::to_owned).ok_or_else(|| "write policy=NAME; sizes apply at a restart".to_owned())
}

/// Runs another policy, and says what it promises, and later what it brought.
fn apply(client: &AdminClient, policy: &str, wait: Duration) -> Result<(), Failure> {
    let before: Report = client.get("advise", &[])?;
    let change: Value = client.post("advise/apply", &[("policy", policy.to_owned())])?;
    let name = |key: &str| change[key].as_str().unwrap_or_default().to_owned();
    let (old, new) = (name("before"), name("policy"));
    let promise = |policy: &str| match cell(&before, policy) {
        Some(Cell { ratios, .. }) => with_error(ratios.hit_ratio, ratios.hit_ratio_error),
        None => "not predicted yet".to_owned(),
    };
    let shown = [&old, &new].map(|policy| printable(policy));
    say(&format!("memory runs under {} instead of {}, with its contents", shown[1], shown[0]));
    say(&format!(
        "hit ratio predicted so far: {} for {}, {} for {}",
        promise(&new),
        shown[1],
        promise(&old),
        shown[0]
    ));
    if wait.is_zero() {
        return Ok(());
    }
    std::thread::sleep(wait);
    // An interval that began before the change has counts under both policies.
    let since = wait.as_secs().saturating_sub(INTERVAL.into());
    let after: Report = client.get("advise", &[("since", since.to_string())])?;
    let ratio = |report: &Report, policy: &str| Some(cell(report, policy)?.ratios.hit_ratio);
    let promised = ratio(&before, &new).zip(ratio(&before, &old)).map(|(new, old)| new - old);
    say(&result((after.window, after.check.measured), &shown[0], ratio(&after, &old), promised));
    Ok(())
}

/// Returns the `hit` ratio that a policy brought in a time, beside that which the old one would have had, and the gain that
/// was promised.
fn result(
    (window, hit): (WindowReport, f64),
    old: &str,
    other: Option<f64>,
    promised: Option<f64>,
) -> String {
    let time = show_duration(Duration::from_secs(window.seconds.into()));
    let requests = counted(window.requests, "request", "requests");
    if window.requests == 0 {
        return format!("in the last {time}: {requests}");
    }
    let gain = |ratio: f64| format!("{:+.1} points", ratio * 100.0);
    let brought = match other {
        Some(other) => format!("{}, as {old} would have hit {}", gain(hit - other), percent(other)),
        None => format!("what {old} would have hit is unknown"),
    };
    let promised = promised.map_or_else(|| "unknown".to_owned(), gain);
    format!("in the last {time}: {} of {requests} hit: {brought}; promised: {promised}", percent(hit))
}

/// Returns the cell of a policy at the running size.
fn cell<'r>(report: &'r Report, policy: &str) -> Option<&'r Cell> {
    let running = report.cells.iter().find(|cell| cell.current)?;
    report
        .cells
        .iter()
        .find(|cell| cell.policy == policy && (cell.tier, cell.size) == (running.tier, running.size))
}

/// Prints a report.
pub(super) fn show(report: &Report, as_json: bool) {
    if as_json {
        say(&json!({ "cells": report.cells, "window": report.window, "check": report.check }).to_string());
    } else {
        say(page(report, terminal::columns()).trim_end());
    }
}

/// Returns the tables in lines of at most `width` characters: the sizes under the running policy, then all policies.
fn page(report: &Report, width: Option<usize>) -> String {
    let mut lines = heading(report);
    if report.window.requests > 0 {
        lines.push(String::new());
        for tier in [Tier::Memory, Tier::Disk] {
            lines.extend(sizes(report, tier, width));
        }
        lines.extend(break_even(report));
        lines.push(String::new());
        lines.extend(policies(report, width));
    }
    lines.push(String::new());
    lines.extend(report.lifetimes.iter().map(|LateRoute { route, share, stale }| {
        let stale = stale
            .map_or(String::new(), |stale| format!("; {} of its checked hits were stale", percent(stale)));
        format!(
            "lifetimes {LATE} s longer on {} would answer {} of the requests{stale}",
            printable(route),
            percent(*share)
        )
    }));
    lines.push(match (&report.doubt, &report.advice) {
        (Some(doubt), _) => format!("no advice: {doubt}"),
        (None, Some(advice)) => format!(
            "advice: {} would hit {:.1} +-{:.1} points more",
            printable(&advice.policy),
            advice.gain * 100.0,
            advice.error * 100.0
        ),
        (None, None) => "advice: keep the policy; no other one is clearly better at this size".to_owned(),
    });
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn heading(report: &Report) -> Vec<String> {
    let Report { window, check, sample, unstorable, lost, .. } = report;
    let period = show_duration(Duration::from_secs(window.seconds.into()));
    let requests = counted(window.requests, "cacheable request", "cacheable requests");
    let of = match *sample {
        1.0 => "all keys".to_owned(),
        share => format!("one key in {:.0}", 1.0 / share),
    };
    let mut lines = vec![format!("the last {period}: {requests}, {}; seen: {of}", about_size(window.bytes))];
    if *unstorable >= MENTIONED {
        lines.push(format!("{} of them were for responses that may not be stored", percent(*unstorable)));
    }
    if *lost > 0 {
        lines.push(format!("{} came too fast to be seen", counted(*lost, "request", "requests")));
    }
    if let Some(Cell { policy, size, .. }) = report.cells.iter().find(|cell| cell.current) {
        let Check { predicted, measured } = check;
        let (size, policy) = (show_size(report, Tier::Memory, *size), printable(policy));
        let (predicted, measured) = (percent(*predicted), percent(*measured));
        let of_config = report.policy_of_config.as_deref().map(printable);
        let of_config = of_config.map(|policy| format!(" (applied; {policy} in the config)"));
        lines.push(format!(
            "memory of {size} under {policy}{}: predicted {predicted}, measured {measured}",
            of_config.unwrap_or_default()
        ));
    }
    lines
}

/// Returns a row for each size under the running policy, and one for no limit.
fn sizes(report: &Report, tier: Tier, width: Option<usize>) -> Vec<String> {
    let is_last = tier == last_tier(report);
    let (missed, missed_bytes) = match is_last {
        true => ("requests to origins", "bytes to origins"),
        false => ("requests to disks", "bytes to disks"),
    };
    let columns = [
        Column::text(tier.name(), 0),
        Column::number("hit ratio", 0),
        Column::number("byte hit ratio", 0),
        Column::number(missed, 1),
        Column::number(missed_bytes, 2),
        Column::number("saved a request", 3),
    ];
    let columns: Vec<_> =
        columns.into_iter().chain(report.prices.map(|_| Column::number("cost a month", 0))).collect();
    let of_tier = || report.cells.iter().filter(|cell| cell.tier == tier);
    let Some(policy) = of_tier().find(|cell| cell.current).map(|cell| &cell.policy) else {
        return Vec::new();
    };
    let row = |name: String, ratios: &Ratios, size: Option<u64>| {
        let requests = (report.window.requests as f64 * (1.0 - ratios.hit_ratio)).round();
        let bytes = (report.window.bytes as f64 * (1.0 - ratios.byte_hit_ratio)).round();
        let mut cells = vec![
            name,
            with_error(ratios.hit_ratio, ratios.hit_ratio_error),
            with_error(ratios.byte_hit_ratio, ratios.byte_hit_ratio_error),
            about_count(requests as u64),
            about_size(bytes as u64),
            format!("{:.1} +-{:.1} ms", ratios.saved_ms, ratios.saved_ms_error),
        ];
        let cost = |prices: Prices| match size.filter(|_| is_last) {
            Some(size) => format!("{:.2}", prices.bill(&report.window, ratios, tier, size).sum()),
            None => "-".to_owned(),
        };
        cells.extend(report.prices.map(cost));
        cells
    };
    let of_policy = of_tier().filter(|cell| cell.policy == *policy);
    let name = |cell: &Cell| {
        format!("{}{}", show_size(report, tier, cell.size), if cell.current { " *" } else { "" })
    };
    let sold = |cell: &Cell| if has_entries(report, tier) { 0 } else { cell.size };
    let mut rows: Vec<_> = of_policy.map(|cell| row(name(cell), &cell.ratios, Some(sold(cell)))).collect();
    if tier == Tier::Memory {
        rows.push(row("no limit".to_owned(), &report.unlimited, None));
    }
    fitted(&columns, &rows, 0, width)
}

/// Returns the tier whose misses go to origins.
fn last_tier(report: &Report) -> Tier {
    report.cells.last().map_or(Tier::Memory, |cell| cell.tier)
}

/// Returns the price at which twice the running size of the last tier pays, if prices are known.
fn break_even(report: &Report) -> Option<String> {
    let (prices, tier) = (report.prices?, last_tier(report));
    let running = report.cells.iter().find(|cell| cell.current && cell.tier == tier)?;
    let is_double = |cell: &&Cell| {
        (cell.tier, &cell.policy, cell.size) == (running.tier, &running.policy, running.size * 2)
    };
    let double = report.cells.iter().find(is_double).filter(|_| !has_entries(report, tier))?;
    let price = prices.break_even(report, running, double)?;
    let (asked, _) = prices.of(tier);
    let verdict = if asked < price { "worth it" } else { "not worth it" };
    let (size, tier) = (about_size(double.size), tier.name());
    Some(format!("{size} pays below {price:.2} for a GiB of {tier} and month: {verdict} at {asked:.2}"))
}

/// Returns a row for each policy, with the hit ratio at each size.
fn policies(report: &Report, width: Option<usize>) -> Vec<String> {
    let names = ["x 1/4", "x 1/2", "x 1", "x 2", "x 4"];
    let mut columns = vec![Column::text("hit ratio", 0)];
    columns.extend(names.map(|name| Column::number(name, 0)));
    let rows: Vec<Vec<_>> = report
        .cells
        .chunk_by(|one, next| one.policy == next.policy && one.tier == next.tier)
        .map(|cells| {
            let ratio = |cell: &Cell| {
                let mark = if cell.current { "*" } else { "" };
                format!("{mark}{}", with_error(cell.ratios.hit_ratio, cell.ratios.hit_ratio_error))
            };
            let on = if cells[0].tier == Tier::Disk { " on disk" } else { "" };
            std::iter::once(format!("{}{on}", printable(&cells[0].policy)))
                .chain(cells.iter().map(ratio))
                .collect()
        })
        .filter(|row: &Vec<String>| row.len() == columns.len())
        .collect();
    fitted(&columns, &rows, 0, width)
}

fn show_size(report: &Report, tier: Tier, size: u64) -> String {
    if has_entries(report, tier) { counted(size, "entry", "entries") } else { about_size(size) }
}

/// Whether sizes of a tier are numbers of entries.
fn has_entries(report: &Report, tier: Tier) -> bool {
    report.by_entries && tier == Tier::Memory
}

fn percent(ratio: f64) -> String {
    format!("{:.1}%", ratio * 100.0)
}

fn with_error(ratio: f64, error: f64) -> String {
    format!("{} +-{:.1}", percent(ratio), error * 100.0)
}

#[cfg(test)]
mod tests {
    use larder_advise::Advice;

    use super::*;

    #[test]
    fn a_result_compares_what_was_brought_and_promised() {
        let window = WindowReport { requests: 100, bytes: 0, seconds: 600 };
        let said = result((window, 0.55), "lru", Some(0.5), Some(0.04));
        let expected = "in the last 10m: 55.0% of 100 requests hit: +5.0 points, as lru would have hit 50.0%; promised: +4.0 points";
        assert_eq!(said, expected);
    }

    fn report() -> Report {
        let cell = |(policy, times): (&str, u64)| Cell {
            tier: Tier::Memory,
            policy: policy.to_owned(),
            size: times << 20,
            ratios: Ratios { hit_ratio: times as f64 / 20.0, hit_ratio_error: 0.004, ..Ratios::default() },
            current: (policy, times) == ("lru", 4),
        };
        let pairs = ["lru", "sieve"].map(|policy| [1, 2, 4, 8, 16].map(|times| (policy, times)));
        Report {
            cells: pairs.into_iter().flatten().map(cell).collect(),
            policy_of_config: None,
            by_entries: false,
            window: WindowReport { requests: 2_000, bytes: 4 << 20, seconds: 90 },
            check: Check { predicted: 0.2, measured: 0.204 },
            unlimited: Ratios { hit_ratio: 0.9, byte_hit_ratio: 0.5, saved_ms: 12.34, ..Ratios::default() },
            sample: 0.125,
            unstorable: 0.125,
            lost: 0,
            bytes: 0,
            lifetimes: vec![LateRoute { route: "a.test/api".to_owned(), share: 0.034, stale: Some(0.02) }],
            prices: Some(Prices {
                per_million: 1_000.0,
                memory_gib_month: 100.0,
                memory_step: 1 << 20,
                ..Prices::default()
            }),
            advice: Some(Advice { policy: "sieve".to_owned(), gain: 0.031, error: 0.004 }),
            doubt: None,
        }
    }

    #[test]
    fn a_report_fits_on_one_screen() {
        let expected = "\
the last 90s: 2,000 cacheable requests, 4.00 MiB; seen: one key in 8
12.5% of them were for responses that may not be stored
memory of 4.00 MiB under lru: predicted 20.0%, measured 20.4%

memory        hit ratio  byte hit ratio  requests to origins  bytes to origins  saved a request  cost a month
1.00 MiB     5.0% +-0.4      0.0% +-0.0                1,900          4.00 MiB     0.0 +-0.0 ms      54720.10
2.00 MiB    10.0% +-0.4      0.0% +-0.0                1,800          4.00 MiB     0.0 +-0.0 ms      51840.20
4.00 MiB *  20.0% +-0.4      0.0% +-0.0                1,600          4.00 MiB     0.0 +-0.0 ms      46080.39
8.00 MiB    40.0% +-0.4      0.0% +-0.0                1,200          4.00 MiB     0.0 +-0.0 ms      34560.78
16.0 MiB    80.0% +-0.4      0.0% +-0.0                  400          4.00 MiB     0.0 +-0.0 ms      11521.56
no limit    90.0% +-0.0     50.0% +-0.0                  200          2.00 MiB    12.3 +-0.0 ms             -
8.00 MiB pays below 2949120.00 for a GiB of memory and month: worth it at 100.00

hit ratio       x 1/4        x 1/2           x 1          x 2          x 4
lru        5.0% +-0.4  10.0% +-0.4  *20.0% +-0.4  40.0% +-0.4  80.0% +-0.4
sieve      5.0% +-0.4  10.0% +-0.4   20.0% +-0.4  40.0% +-0.4  80.0% +-0.4

lifetimes 60 s longer on a.test/api would answer 3.4% of the requests; 2.0% of its checked hits were stale
advice: sieve would hit 3.1 +-0.4 points more
";
        assert_eq!(page(&report(), None), expected);
    }

    #[test]
    fn memory_in_front_of_disks_saves_no_request_to_an_origin() {
        let mut report = report();
        let on_disk: Vec<_> =
            report.cells.iter().map(|cell| Cell { tier: Tier::Disk, ..cell.clone() }).collect();
        report.cells.extend(on_disk);
        let (memory, disk) = (sizes(&report, Tier::Memory, None), sizes(&report, Tier::Disk, None));
        assert!(memory[0].contains("requests to disks") && memory[1].ends_with('-'), "{memory:?}");
        assert!(disk[0].contains("requests to origins") && disk[1].ends_with("54720.00"), "{disk:?}");
    }
}
