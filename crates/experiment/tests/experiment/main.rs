//! `larder-lab experiment`: runs, reports, and the processes and files that remain after an interruption or a failure.

mod cluster;
mod faults;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use larder_testkit::{children, is_over, stderr, within};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

/// The time limit for steps that take seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(180);

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder-lab"));
    command.arg("experiment").args(words).env_remove("LARDER_LOG").env_remove("RUST_LOG");
    command
}

fn lab(words: &[&str]) -> Output {
    command(words).output().expect("it runs")
}

/// A run of the experiment on Thrift that takes a while.
fn start(directory: &TempDir) -> Child {
    let words = ["thrift", "--quick", "--beside-load", "--output", path(directory)];
    command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn path(directory: &TempDir) -> &str {
    directory.path().to_str().expect("text")
}

/// Waits until some measurements are in the journal.
fn measured(directory: &TempDir) {
    let journal = directory.path().join("thrift.jsonl");
    within(PATIENCE, "some measurements", || {
        (fs::read_to_string(&journal).ok()?.lines().count() > 12).then_some(())
    });
}

/// Returns the proxy that `experiment` has started, if one is running.
fn proxy_of(experiment: &Child) -> Option<Pid> {
    children(experiment.id()).first().copied()
}

fn report(directory: &Path) -> String {
    fs::read_to_string(directory.join("report.html")).expect("a report")
}

/// Returns the titles of a page's pictures.
fn titles(page: &str) -> Vec<String> {
    let begun = page.split("role=\"img\" aria-label=\"").skip(1);
    begun.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

#[test]
fn the_list_tells_what_there_is_and_how_long_it_takes() {
    let output = lab(&["list"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["thrift", "browsing", "parallel", "services", "quick: ", "full: "] {
        assert!(text.contains(name), "{name} in {text}");
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn wrong_words_are_refused_in_one_line() {
    let table = [
        (&["thrfit", "-o", "x"][..], "larder-lab: unknown experiment 'thrfit'; did you mean 'thrift'?"),
        (&["all", "--prices", "/none", "-o", "x"], "larder-lab: cannot read prices '/none': no such file"),
        (&["all", "--larder", "/none", "-o", "x"], "larder-lab: cannot start '/none': no such file"),
        (&["all"], "larder-lab: name a folder for the report: --output DIR"),
    ];
    for (words, expected) in table {
        let output = lab(words);
        assert!(stderr(&output).starts_with(expected), "{}", stderr(&output));
        assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(2), 1));
    }
    let output = lab(&["all", "--seed", "x"]);
    let seed = "'--seed <NUMBER>': expected a whole number\n";
    assert!(stderr(&output).ends_with(seed) && output.status.code() == Some(2), "{}", stderr(&output));
    let output = lab(&["all", "--output", "/proc/nowhere"]);
    assert!(
        stderr(&output).starts_with("larder-lab: cannot write to '/proc/nowhere': "),
        "{}",
        stderr(&output)
    );
    assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(1), 1));
}

#[test]
fn no_run_begins_beside_load_that_would_be_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("it starts");
    let output = lab(&["thrift", "--quick", "-o", path(&directory)]);
    busy.kill().and_then(|()| busy.wait()).expect("it runs");
    let told = stderr(&output);
    assert!(told.starts_with("larder-lab: other programs use "), "{told}");
    assert!(told.trim_end().ends_with("end them, or pass --beside-load"), "{told}");
    assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1));
}

/// Makes a smoke run of an experiment, and checks its report, and that nothing is measured twice.
fn smoke(name: &str, directory: &TempDir, seen: &mut HashSet<String>) {
    let words = [name, "--smoke", "-o", path(directory)];
    let output = lab(&words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("{name}: about ")), "{}", stderr(&output));
    let page = report(directory.path());
    assert!(page.contains("<svg") && page.contains("smoke run") && page.contains(name));
    assert!(page.contains("Rule: ") && !page.contains("inf ") && !page.contains("NaN"), "{name}");
    for title in titles(&page) {
        assert!(seen.insert(title.clone()), "{title} is there twice");
    }
    assert!(!page.contains("is incomplete"));

    let again = lab(&words);
    assert!(stderr(&again).contains("--resume"), "{}", stderr(&again));
    assert_eq!(again.status.code(), Some(1));
    let journal = directory.path().join(format!("{name}.jsonl"));
    let measured = fs::read(&journal).expect("a journal");
    let resumed = lab(&[name, "--smoke", "--resume", "-o", path(directory)]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    assert_eq!(fs::read(&journal).expect("a journal"), measured);
}

#[test]
fn a_run_makes_a_report_and_is_not_repeated() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut seen = HashSet::new();
    for name in ["thrift", "browsing", "parallel"] {
        smoke(name, &directory, &mut seen);
    }
    let table =
        fs::read_to_string(directory.path().join("thrift-shuffled-per-size-hits.csv")).expect("a table");
    assert!(table.starts_with("policy,cache size in %,mean,"), "{table}");
}

/// With the second seed, a difference of 32 bytes in the size of the first stored page changes half of the hits.
#[test]
fn live_and_simulated_hits_are_the_same() {
    for seed in ["1", "2174"] {
        let directory = tempfile::tempdir().expect("a directory");
        let output = lab(&["thrift", "--smoke", "--seed", seed, "-o", path(&directory)]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let journal = fs::read_to_string(directory.path().join("thrift.jsonl")).expect("a journal");
        let mut compared = 0;
        for line in journal.lines().skip(1) {
            let line: serde_json::Value = serde_json::from_str(line).expect("json");
            let value = &line["value"];
            if let (Some(live), Some(simulated)) = (value["hit_ratio"].as_f64(), value["simulated"].as_f64())
                && value["policy"] != "rand"
            {
                assert!(live > 0.0 && (live - simulated).abs() < 1e-9, "seed {seed}: {line}");
                compared += 1;
            }
        }
        assert_eq!(compared, 4);
    }
}

#[test]
fn services_hit_live_as_simulated_and_are_priced_by_a_given_table() {
    let directory = tempfile::tempdir().expect("a directory");
    smoke("services", &directory, &mut HashSet::new());
    let journal = fs::read_to_string(directory.path().join("services.jsonl")).expect("a journal");
    let lines =
        journal.lines().skip(1).map(|line| serde_json::from_str::<serde_json::Value>(line).expect("json"));
    let mut compared = 0;
    for line in lines {
        let value = &line["value"];
        if let (Some(live), Some(simulated)) = (value["hit_ratio"].as_f64(), value["simulated"].as_f64()) {
            assert!(live > 0.0 && (live - simulated).abs() < 0.02, "{line}");
            compared += 1;
        }
        assert!(value["stale"].as_u64().is_none_or(|stale| stale == 0), "{line}");
    }
    assert_eq!(compared, 10);

    let printed = lab(&["prices"]);
    assert_eq!(printed.status.code(), Some(0), "{}", stderr(&printed));
    let printed = String::from_utf8_lossy(&printed.stdout);
    let named = printed.replace("Azure B-series machine, the report's", "A machine of mine");
    let file = directory.path().join("prices.toml");
    let priced = |table: &str| {
        fs::write(&file, table).expect("it can be written");
        let words = ["services", "--smoke", "--resume", "-o", path(&directory), "--prices"];
        lab(&[&words[..], &[file.to_str().expect("text")]].concat())
    };
    for (table, is_mine) in [(&*named, true), ("currency = 'USD'\nbeside = '1MiB'\nmachine = []\n", false)] {
        let output = priced(table);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(report(directory.path()).contains("A machine of mine"), is_mine);
    }
    let refused = priced("currency = 7\n");
    assert_eq!((refused.status.code(), stderr(&refused).lines().count()), (Some(2), 1));
    assert!(stderr(&refused).starts_with("larder-lab: prices '"), "{}", stderr(&refused));
}

#[test]
fn an_interrupted_run_leaves_a_report_and_no_child() {
    let directory = tempfile::tempdir().expect("a directory");
    let experiment = start(&directory);
    measured(&directory);
    let proxy = within(PATIENCE, "a proxy", || proxy_of(&experiment));
    kill_process(Pid::from_child(&experiment), Signal::INT).expect("it runs");
    let output = experiment.wait_with_output().expect("it ends");
    assert!(
        stderr(&output).contains("stopped; the report has the measurements so far"),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(test_kill_process(proxy).is_err(), "a proxy is left");
    assert!(report(directory.path()).contains("is incomplete (stopped)"));
}

#[test]
fn a_killed_run_leaves_no_child() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut experiment = start(&directory);
    measured(&directory);
    let proxy = within(PATIENCE, "a proxy", || proxy_of(&experiment));
    experiment.kill().expect("it runs");
    experiment.wait().expect("it ends");
    within(PATIENCE, "the proxy's end", || is_over(proxy).then_some(()));
}

#[test]
fn the_end_of_a_child_is_reported_and_ends_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut experiment = start(&directory);
    measured(&directory);
    within(PATIENCE, "the end", || {
        // The death of a proxy that has just finished its work has no effect; that of a later one does.
        if let Some(proxy) = proxy_of(&experiment) {
            let _ = kill_process(proxy, Signal::KILL);
        }
        experiment.try_wait().expect("a child")
    });
    let output = experiment.wait_with_output().expect("it has ended");
    let told = stderr(&output);
    let last = told.lines().last().expect("a line");
    assert!(last.starts_with("larder-lab: larder serve: "), "{told}");
    assert_eq!(output.status.code(), Some(1));
    assert!(report(directory.path()).contains("is incomplete"));
}
