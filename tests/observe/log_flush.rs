//! When lines reach the access log, and what a full disk or a closed pipe does to them.

use std::fs;
use std::path::Path;
use std::process::Command;

use larder_testkit::{Larder, Origin, eventually, file_with, mixed};

use crate::logs::{keys, lines};

/// Runs `prlimit`, so that no file of the proxy grows beyond `bytes`.
fn limit_files(larder: &Larder, bytes: &str) {
    let process = format!("--pid={}", larder.id());
    let status = Command::new("prlimit").args([&process, &format!("--fsize={bytes}:unlimited")]).status();
    assert!(status.expect("prlimit").success());
}

#[test]
fn flushed_by_line_the_log_has_a_hit_before_its_reply() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::by(mixed);
    let larder = Larder::with(&origin, &format!("access_log_flush = 'line'\n{}", keys("json", &log)));
    larder.get("/a");
    eventually("the line of the miss", || (lines(&log).len() == 1).then_some(()));
    for hits in 1..10 {
        assert!(larder.client().ask("GET /a").is_hit());
        assert_eq!(lines(&log).len(), 1 + hits);
    }
}

#[test]
fn lines_that_wait_for_others_are_written_before_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::by(mixed);
    let mut larder = Larder::with(&origin, &keys("text", &log));
    let mut client = larder.client();
    for number in 0..1_000 {
        client.ask(&format!("GET /a?{number}"));
    }
    drop(client);
    larder.stop();
    let number = |line: &String| line.split(['?', ' ']).find_map(|word| word.parse().ok());
    assert_eq!(lines(&log).iter().filter_map(number).collect::<Vec<u32>>(), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_full_disk_cuts_no_line_of_the_access_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::by(mixed);
    let larder = Larder::with(&origin, &keys("text", &log));
    let whole = |log: &Path| fs::read_to_string(log).is_ok_and(|text| text.ends_with('\n'));
    let mut client = larder.client();
    limit_files(&larder, "10000");
    let mut ask = |times| (0..times).for_each(|_| drop(client.ask("GET /a")));
    ask(500);
    let known = || lines(&log).len() as u64 + larder.stat("log_lines_lost");
    eventually("written and lost lines", || (known() == 500).then_some(()));
    assert!(whole(&log) && fs::metadata(&log).expect("a file").len() <= 10_000);
    limit_files(&larder, "unlimited");
    ask(100);
    eventually("more lines", || (known() == 600).then_some(()));
    assert!(whole(&log) && lines(&log).iter().all(|line| line.contains("Z 127.0.0.1 GET http://")));
}

#[test]
fn a_line_that_a_killed_process_cut_gets_an_end() {
    let (_folder, log) = file_with("access.log", "whole\ncu");
    let origin = Origin::by(mixed);
    let larder = Larder::with(&origin, &keys("text", &log));
    larder.get("/a");
    let all = eventually("a line", || Some(lines(&log)).filter(|lines| lines.len() == 3));
    assert_eq!(all[..2], ["whole", "cu"]);
}

#[test]
fn a_closed_pipe_takes_the_log_and_not_the_proxy() {
    let origin = Origin::by(mixed);
    // The test has read the first lines of standard output, and has closed the pipe then.
    let larder = Larder::with(&origin, "access_log = 'text'");
    for _ in 0..5 {
        assert_eq!(larder.get("/a").status, 200);
    }
    larder.wait_for("log_lines_lost", 5);
}
