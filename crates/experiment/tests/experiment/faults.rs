//! The messages, the report and the processes of an experiment when its children die, its user interrupts it, or its
//! report cannot be written.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use larder_testkit::{is_over, stderr, within};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{PATIENCE, command, lab, path, report};

/// Returns the path of a faulty program in this folder.
fn broken(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/experiment").join(name)
}

fn python(name: &str, directory: &TempDir) -> Command {
    let mut command = command(&["parallel", "--smoke", "--output", path(directory), "--python"]);
    command.arg(broken(name));
    command
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Asserts that a run failed with this last line, and wrote a report of its completed measurements.
fn failed(output: &Output, last: &str, directory: &TempDir) {
    let told = stderr(output);
    assert!(told.lines().last().is_some_and(|line| line.starts_with(last)), "{told}");
    assert_eq!(output.status.code(), Some(1));
    assert!(report(directory.path()).contains("is incomplete"));
}

/// Returns the children of a process, with their command lines.
fn children(process: u32) -> Vec<(Pid, String)> {
    let command = |id: Pid| {
        let words = fs::read_to_string(format!("/proc/{}/cmdline", id.as_raw_nonzero()));
        (id, words.unwrap_or_default().replace('\0', " "))
    };
    larder_testkit::children(process).into_iter().map(command).collect()
}

/// Waits until `run` has a child with these words in its command line, and returns all its children.
fn with_child(run: &Child, words: &str) -> Vec<Pid> {
    within(PATIENCE, words, || {
        let children = children(run.id());
        let is_there = children.iter().any(|(_, command)| command.contains(words));
        is_there.then(|| children.into_iter().map(|(id, _)| id).collect())
    })
}

/// Waits until none of the processes runs.
fn gone(processes: &[Pid]) {
    for process in processes {
        within(PATIENCE, "a child's end", || is_over(*process).then_some(()));
    }
}

#[test]
fn a_missing_python_is_reported_before_anything_is_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    for (python, why) in
        [("no-such-python", "there is no such program"), ("false", "it runs no Python 3 with asyncio")]
    {
        let output = lab(&["all", "--smoke", "-o", path(&directory), "--python", python]);
        let told = stderr(&output);
        assert!(told.starts_with(&format!("larder-lab: cannot run Python by '{python}': {why}")), "{told}");
        assert_eq!((told.lines().count(), output.status.code()), (1, Some(2)), "{told}");
        assert_eq!(fs::read_dir(&directory).expect("a folder").count(), 0, "nothing was begun");
    }
}

#[test]
fn the_end_of_python_is_reported_with_its_output() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = python("python-that-dies", &directory).output().expect("it runs");
    let said = "larder-lab: asyncio executor: it ended with signal: 9 (SIGKILL); it said: no memory left";
    failed(&output, said, &directory);
}

#[test]
fn the_end_of_services_is_reported_and_ends_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut run = start(command(&["services", "--quick", "--beside-load", "--output", path(&directory)]));
    let journal = directory.path().join("services.jsonl");
    within(PATIENCE, "some measurements", || {
        (fs::read_to_string(&journal).ok()?.lines().count() > 4).then_some(())
    });
    within(PATIENCE, "the end", || {
        // The death of a child that has just finished its work has no effect; that of a later child does.
        for (id, _) in children(run.id()).iter().filter(|(_, command)| command.contains("live services")) {
            let _ = kill_process(*id, Signal::KILL);
        }
        run.try_wait().expect("a child")
    });
    failed(
        &run.wait_with_output().expect("it has ended"),
        "larder-lab: larder-lab live services: ",
        &directory,
    );
}

#[test]
fn a_killed_run_leaves_neither_services_nor_python() {
    let directory = tempfile::tempdir().expect("a directory");
    let services = command(&["services", "--quick", "--beside-load", "--output", path(&directory)]);
    for (run, words) in [(services, "serve"), (python("python-that-hangs", &directory), "cat")] {
        let mut run = start(run);
        let children = with_child(&run, words);
        run.kill().expect("it runs");
        run.wait().expect("it ends");
        gone(&children);
    }
}

#[test]
fn an_interrupted_run_leaves_neither_services_nor_python() {
    let services = tempfile::tempdir().expect("a directory");
    let parallel = tempfile::tempdir().expect("a directory");
    let quick = command(&["services", "--quick", "--beside-load", "--output", path(&services)]);
    for (run, words, directory) in
        [(quick, "serve", &services), (python("python-that-hangs", &parallel), "cat", &parallel)]
    {
        let run = start(run);
        let children = with_child(&run, words);
        kill_process(Pid::from_child(&run), Signal::INT).expect("it runs");
        let output = run.wait_with_output().expect("it ends");
        failed(
            &output,
            "larder-lab: stopped; the report has the measurements so far, and --resume continues",
            directory,
        );
        gone(&children);
    }
}

#[test]
fn a_report_without_a_place_is_told_with_what_went_before() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("report.html")).expect("a directory");
    let output = python("python-that-dies", &directory).output().expect("it runs");
    let told = stderr(&output);
    let last = told.lines().last().expect("a line");
    assert!(last.starts_with("larder-lab: asyncio executor: it ended with signal: 9"), "{told}");
    assert!(last.contains("; there is no report: cannot write to '"), "{told}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn services_on_a_taken_port_say_so() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it has one").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_larder-lab"))
        .args(["live", "services", "--listen", &address])
        .output()
        .expect("it runs");
    let told = stderr(&output);
    assert!(told.starts_with("larder-lab: ") && told.contains("Address already in use"), "{told}");
    assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1));
}
