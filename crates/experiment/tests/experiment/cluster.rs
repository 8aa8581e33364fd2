//! `larder-lab experiment cluster`: its measurements, and the processes and files that remain after it was interrupted or
//! failed.

use std::fs;
use std::process::{Child, Command, Stdio};

use larder_testkit::{is_over, stderr, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{PATIENCE, path, report};

const ENGINE: &str = "redis-server";

fn command(size: &str, directory: &TempDir) -> Command {
    super::command(&["cluster", size, "--output", path(directory)])
}

fn start(directory: &TempDir) -> Child {
    let mut command = command("--quick", directory);
    command.arg("--beside-load").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Returns the name and the process id of each current child of `experiment`.
fn children(experiment: &Child) -> Vec<(String, Pid)> {
    let named = |process: Pid| {
        let path = format!("/proc/{}/comm", process.as_raw_nonzero());
        Some((fs::read_to_string(path).ok()?.trim().to_owned(), process))
    };
    larder_testkit::children(experiment.id()).into_iter().filter_map(named).collect()
}

#[test]
fn nodes_are_measured_beside_the_simulation() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = command("--smoke", &directory).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let journal = fs::read_to_string(directory.path().join("cluster.jsonl")).expect("a journal");
    let lines = journal.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("json"));
    let values: Vec<Value> = lines.map(|line| line["value"].clone()).collect();
    let live: Vec<_> = values.iter().filter(|value| value["nodes"].is_u64()).collect();
    for value in &live {
        let is_alone = value["nodes"] == 1 || value["apart"] == true;
        assert_eq!(value["crossings"].as_f64() > Some(0.0), !is_alone, "{value}");
        // A single node has fetched each page once before the measurement, if it has room for all pages.
        assert!(!is_alone || value["set"] != "one" || value["origin_requests"] == 0, "{value}");
    }
    // The other values are the machine's, its load and those of three simulations.
    assert_eq!((live.len(), values.len() - live.len()), (13, 5));
    let page = report(directory.path());
    for part in ["cluster-times", "cluster-cost", "cluster-origin", "cluster-crossings"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("is incomplete"));

    let measured = fs::read(directory.path().join("cluster.jsonl")).expect("a journal");
    let resumed = command("--smoke", &directory).arg("--resume").output().expect("it runs");
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    assert_eq!(fs::read(directory.path().join("cluster.jsonl")).expect("a journal"), measured);
}

#[test]
fn without_an_engine_to_start_it_is_refused_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = command("--smoke", &directory).env("PATH", "/nowhere").output().expect("it runs");
    let expected = "larder-lab: cluster: no redis-server or valkey-server on the path; install one";
    assert!(stderr(&output).starts_with(expected), "{}", stderr(&output));
    assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(2), 1));
}

#[test]
fn a_killed_run_leaves_neither_nodes_nor_engine() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut experiment = start(&directory);
    let left = within(PATIENCE, "an engine and nodes", || {
        let children = children(&experiment);
        let is_there = children.len() > 2 && children.iter().any(|(name, _)| name == ENGINE);
        is_there.then_some(children)
    });
    experiment.kill().expect("it runs");
    experiment.wait().expect("it ends");
    for (name, process) in left {
        within(PATIENCE, &format!("the end of {name}"), || is_over(process).then_some(()));
    }
}

#[test]
fn the_end_of_an_engine_is_reported_and_ends_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut experiment = start(&directory);
    within(PATIENCE, "the end", || {
        // Kills the engine of a cluster as soon as there are nodes, when it serves requests. If that cluster was
        // measured already, its loss has no effect, and the engine of the next cluster is killed.
        let children = children(&experiment);
        for (_, engine) in children.iter().filter(|(name, _)| name == ENGINE && children.len() > 2) {
            let _ = kill_process(*engine, Signal::KILL);
        }
        experiment.try_wait().expect("a child")
    });
    let output = experiment.wait_with_output().expect("it has ended");
    let told = stderr(&output);
    let last = told.lines().last().expect("a line");
    assert!(last.starts_with("larder-lab: ") && last.contains("engine ended"), "{told}");
    assert_eq!(output.status.code(), Some(1));
    assert!(report(directory.path()).contains("is incomplete"));
}
