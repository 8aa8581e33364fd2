//! Upgrades that fail: the running process goes on, and the command says why.

use std::fs;
use std::time::{Duration, Instant};

use larder_testkit::{Origin, children, eventually, is_over};
use rustix::process::{Signal, kill_process};

use super::{script, serves, start};

#[test]
fn a_config_with_errors_leaves_the_old_process_serving() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\na page");
    let (mut larder, config) = start(&origin, "");
    let before = larder.id();
    larder.write_config(&format!("{config}\nnonsense = 1\n"));
    let said = larder.upgrade(&[]).unwrap_err();
    assert!(said.contains("nonsense") && said.lines().count() == 1, "{said}");
    assert!(serves(&larder));
    larder.write_config(&config);
    larder.upgrade(&[]).unwrap();
    assert_ne!(larder.id(), before);
    assert!(serves(&larder));
}

#[test]
fn a_program_that_cannot_succeed_leaves_the_old_process_serving() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    for (lines, why) in [
        ("exit 0", "the new process ended before it served (exit status: 0)"),
        ("echo a library is missing >&2; exit 127", "a library is missing"),
        ("kill -9 $$", "the new process ended before it served (signal: 9 (SIGKILL))"),
    ] {
        let program = script(folder.path(), lines).display().to_string();
        let said = larder.upgrade(&["--binary", &program]).unwrap_err();
        assert_eq!(said, format!("larder: {why}\n"));
        assert!(serves(&larder));
    }
    let none = folder.path().join("none").display().to_string();
    let said = larder.upgrade(&["--binary", &none]).unwrap_err();
    assert_eq!(said, format!("larder: cannot start {none}: no such file or directory\n"));
    assert!(serves(&larder));
}

#[test]
fn a_program_that_hangs_is_ended_after_the_timeout() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "exec sleep 1000").display().to_string();
    let begun = Instant::now();
    let said = larder.upgrade(&["--binary", &program, "--timeout", "300ms"]).unwrap_err();
    assert_eq!(said, "larder: the new process did not serve within 300ms\n");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert!(serves(&larder) && children(larder.id()).is_empty());
}

#[test]
fn a_successor_that_is_killed_leaves_the_old_process_serving() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let (folder, larder_binary) = (tempfile::tempdir().unwrap(), larder_testkit::programs::larder());
    // Killed at other moments of the handover each time, and sometimes not before its end.
    for delay in 0..12 {
        let lines = format!(
            "(sleep 0.{:03}; kill -9 $$) &\nexec {} \"$@\"",
            7 * delay * delay,
            larder_binary.display()
        );
        let program = script(folder.path(), &lines).display().to_string();
        if larder.upgrade(&["--binary", &program]).is_ok() {
            return;
        }
        assert!(serves(&larder));
    }
    larder.upgrade(&[]).unwrap();
    assert!(serves(&larder));
}

#[test]
fn a_second_upgrade_is_refused_until_the_first_has_ended() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let lines = format!("touch {}; exec sleep 1000", started.display());
    let program = script(folder.path(), &lines).display().to_string();
    let admin = larder.admin.to_string();
    let mut first = std::process::Command::new(larder_testkit::programs::larder());
    first.args(["upgrade", "--admin", &admin, "--binary", &program]).stderr(std::process::Stdio::null());
    let mut first = larder_testkit::Process::start(&mut first).unwrap();
    eventually("the start of the program", || fs::exists(&started).unwrap().then_some(()));
    let said = larder.upgrade(&[]).unwrap_err();
    assert_eq!(said, "larder: another upgrade is in progress\n");
    for process in children(larder.id()) {
        kill_process(process, Signal::KILL).unwrap();
    }
    assert!(!first.wait().unwrap().success());
    larder.upgrade(&[]).unwrap();
    assert!(serves(&larder));
}

#[test]
fn a_process_told_to_end_during_an_upgrade_ends_with_its_successor() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "exec sleep 1000").display().to_string();
    let admin = larder.admin.to_string();
    let mut command = std::process::Command::new(larder_testkit::programs::larder());
    command.args(["upgrade", "--admin", &admin, "--binary", &program]).stderr(std::process::Stdio::null());
    let mut command = larder_testkit::Process::start(&mut command).unwrap();
    let successor = eventually("a successor", || children(larder.id()).pop());
    larder.signal(Signal::TERM);
    assert!(larder.ended().success());
    assert!(is_over(successor) && !command.wait().unwrap().success());
}
