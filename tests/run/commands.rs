//! The command of a run: its exit code, its signals, and the lines that Larder adds.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use larder_testkit::{Gate, Origin, Process, eventually};
use rustix::process::Signal;

use crate::{Registry, User, origin};

#[test]
fn a_second_run_downloads_nothing_and_says_so() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = format!("{}/package", registry.url());
    for (hits, said, from_cache) in [(0, "0 hits", 0), (1, "1 hit", 8)] {
        let run = user.run(&["--host", "localhost"], &["curl", "-sS", &url]).succeeded();
        assert_eq!(run.said(), "/package");
        assert_eq!((run.number("requests"), run.number("hits")), (1, hits), "{}", run.told());
        let first = format!("larder: 1 request, {said} and 0 revalidated ({}%)", 100 * hits);
        assert!(run.told().starts_with(&first), "{}", run.told());
        assert!(run.number("bytes_from_cache") >= from_cache);
    }
    assert_eq!(registry.count(), 1);
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    for (command, code) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["true", "--report"], 0),
        (&["no-such-command"], 127),
        (&["/"], 126),
    ] {
        let run = user.run(&[], command);
        assert_eq!(run.code(), code, "{command:?} {}", run.told());
    }
}

#[test]
fn a_run_without_requests_says_so_and_fails_if_they_are_required() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let run = user.run(&["--require"], &["true"]);
    assert_eq!(run.code(), 1);
    assert!(run.told().contains("larder: no request came: "), "{}", run.told());
    assert!(run.told().contains("larder: --require: no request came through the proxy"), "{}", run.told());
}

#[test]
fn signals_reach_the_command_and_no_process_stays() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let script = "trap 'exit 3' INT TERM; echo $$; while :; do sleep 0.05; done";
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = user.command(&[], &["sh", "-c", script]);
        let started =
            Process::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut run = started.expect("it starts");
        let mut line = String::new();
        let said = run.stdout.take().expect("a pipe");
        BufReader::new(said).read_line(&mut line).expect("a line");
        run.signal(signal);
        let status = eventually("its end", || run.try_wait().expect("a child"));
        assert_eq!(status.code(), Some(3), "{signal:?}");
        let process = format!("/proc/{}", line.trim());
        assert!(!std::path::Path::new(&process).exists(), "{process}");
    }
}

#[test]
fn two_runs_at_once_both_work() {
    let gate = Gate::default();
    let held = gate.clone();
    let registry = Registry::before(Origin::answering(move |seen| {
        let answer =
            larder_testkit::Answer::with_body("200 OK\nCache-Control: max-age=1000", seen.target.as_bytes());
        if seen.target == "/slow" {
            larder_testkit::Answer::default().then_wait(&held).then_close()
        } else {
            answer
        }
    }));
    let user = User::of(&registry);
    let slow = format!("{}/slow", registry.url());
    let mut first = user.command(&["--host", "localhost"], &["curl", "-sS", &slow]);
    let mut first = Process::start(first.stdout(Stdio::null()).stderr(Stdio::null())).expect("it starts");
    registry.origin.wait_for(1);
    let quick = format!("{}/quick", registry.url());
    let second = user.run(&["--host", "localhost"], &["curl", "-sS", &quick]).succeeded();
    assert_eq!(second.said(), "/quick");
    gate.open();
    eventually("the end of the first", || first.try_wait().expect("a child"));
}

#[test]
fn offline_runs_answer_from_the_cache_only() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = |path: &str| format!("{}{path}", registry.url());
    user.run(&["--host", "localhost"], &["curl", "-sS", &url("/known")]).succeeded();
    let status = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}"];
    for (words, expected) in [
        (&[&url("/known")[..]][..], "200"),
        (&[&url("/unknown")], "504"),
        // Over HTTP/2, curl 7.88 takes an answer before the end of its content for an error of the stream.
        (&["--http1.1", "-d", "x", &url("/known")], "504"),
    ] {
        let run = user.run(&["--host", "localhost", "--offline"], &[&status[..], words].concat());
        assert_eq!(run.said(), expected, "{words:?} {}", run.told());
    }
    let tunnel = user.run(&["--offline"], &["curl", "-sS", &url("/known")]);
    assert_ne!(tunnel.code(), 0, "a host that is not cached gets no tunnel");
    assert_eq!(registry.count(), 1);
}

#[test]
fn an_index_without_date_and_tag_is_there_for_an_offline_run() {
    let registry =
        Registry::before(Origin::always("200 OK\nContent-Type: application/json\n\n{\"files\": []}"));
    let user = User::of(&registry);
    let url = registry.at("/simple/pad/");
    for (options, count) in [(&[][..], 1), (&["--offline"], 1), (&[], 2)] {
        let options = [&["--host", "localhost"], options].concat();
        let run = user.run(&options, &["curl", "-sS", &url]).succeeded();
        assert_eq!((run.said().as_str(), registry.count()), ("{\"files\": []}", count), "{options:?}");
    }
}

#[test]
fn max_age_asks_again_for_what_is_older() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    let url = format!("{}/a", registry.url());
    for (options, count) in
        [(&["--max-age", "1h"][..], 1), (&["--max-age", "1h"], 1), (&["--max-age", "0s"], 2)]
    {
        let options = [&["--host", "localhost"], options].concat();
        user.run(&options, &["curl", "-sS", &url]).succeeded();
        assert_eq!(registry.count(), count, "{options:?}");
    }
}

#[test]
fn registries_of_the_tools_settings_are_cached() {
    let registry = Registry::before(origin());
    let user = User::of(&registry);
    std::fs::write(user.home().join(".npmrc"), format!("registry={}/npm/\n", registry.url()))
        .expect("written");
    let run = user.run(&["--verbose"], &["curl", "-sS", &registry.url()]).succeeded();
    assert_eq!(run.number("requests"), 1);
    let line = format!("larder: GET {}/ 200 ", registry.url());
    assert!(run.told().contains(&line), "{}", run.told());
}
