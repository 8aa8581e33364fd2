//! `larder doctor` on a machine with a fault.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Command;

use larder_testkit::{programs, stdout};
use serde_json::Value;

use crate::{larder, output};

/// Returns the findings of `larder doctor` in a shell that has run `before`, and its exit code.
fn findings(before: &str, words: &[&str]) -> (Vec<Value>, Option<i32>) {
    let mut shell = Command::new("sh");
    shell.arg0("sh").args([
        "-c",
        &format!("{before}; exec \"$0\" doctor --json --forward 127.0.0.1:0 --admin off \"$@\""),
    ]);
    shell.arg(programs::larder()).args(["--stats", "none"]).args(words);
    let output = output(&mut shell);
    (serde_json::from_slice(&output.stdout).expect("json"), output.status.code())
}

/// Returns the level and the text of the first finding about `subject` that is not good, or else of the first one.
fn about<'f>(findings: &'f [Value], subject: &str) -> (&'f str, String) {
    let mut of_subject = findings.iter().filter(|finding| finding["subject"] == subject);
    let bad = of_subject.clone().find(|finding| finding["level"] != "ok");
    let finding = bad.or_else(|| of_subject.next()).expect(subject);
    let text = |key: &str| finding[key].as_str().unwrap_or_default();
    (text("level"), format!("{}: {}", text("found"), text("advice")))
}

#[test]
fn a_limit_that_is_too_low_is_reported_with_what_to_change() {
    for (before, subject, expected, advice) in [
        ("ulimit -n 80", "open files", "problem", "LimitNOFILE="),
        ("ulimit -n 1024", "open files", "warning", "not 65536"),
        ("ulimit -f 2048", "file size", "problem", "LimitFSIZE=infinity"),
        ("ulimit -f unlimited", "file size", "ok", "not limited"),
    ] {
        let (findings, code) = findings(before, &["--threads", "2"]);
        let (level, text) = about(&findings, subject);
        assert_eq!(level, expected, "{before}: {text}");
        assert!(text.contains(advice), "{before}: {text}");
        if level == "problem" {
            assert_eq!(code, Some(1), "{before}");
        }
    }
}

#[test]
fn a_taken_port_is_reported_with_the_program_that_has_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (findings, code) = findings(":", &["--forward", &address]);
    let (level, text) = about(&findings, "port");
    let here = format!("process {}", std::process::id());
    assert!(level == "problem" && text.contains(&address) && text.contains(&here), "{text}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_disk_larger_than_its_file_system_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    let (findings, _) = findings(":", &["--disk", &path, "--disk-size", "100TiB"]);
    let (level, text) = about(&findings, "disk");
    assert!(level == "problem" && text.contains("disk.size 100TiB"), "{text}");
}

#[test]
fn errors_of_the_config_are_problems_and_likely_mistakes_are_warnings() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("larder.toml");
    let path = file.display().to_string();
    for (text, level, expected) in [
        ("threads = 0", "problem", "larder.toml:1: threads: 0 is not a number"),
        ("access_log_file = '/tmp/log'", "warning", "stays empty"),
        ("x_cache = true", "ok", "larder.toml can be used"),
    ] {
        std::fs::write(&file, text).expect("written");
        let (findings, _) = findings(":", &["--config", &path]);
        let (found, line) = about(&findings, "config");
        assert!(found == level && line.contains(expected), "{text}: {found} {line}");
    }
}

#[test]
fn each_finding_is_a_line_with_its_level() {
    let output =
        output(&mut larder(&["doctor", "--forward", "127.0.0.1:0", "--admin", "off", "--stats", "none"]));
    let text = stdout(&output);
    assert!(text.lines().count() >= 8, "{text}");
    for line in text.lines() {
        assert!(["ok ", "warning ", "problem "].iter().any(|level| line.starts_with(level)), "{line}");
    }
    assert_eq!(output.status.success(), !text.contains("\nproblem "), "{text}");
}
