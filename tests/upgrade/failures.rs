//! Upgrades that fail: the running process goes on, and the command says why.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use larder_testkit::{
    Answer, Gate, Larder, Origin, Process, children, eventually, is_over, not_tested, site, stderr,
};
use rustix::process::{Signal, geteuid, kill_process};

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
        ("echo larder: a reason >&2; exit 1", "a reason"),
        (
            "echo a library is missing >&2; exit 127",
            "the new process ended before it served (exit status: 127): a library is missing",
        ),
        ("kill -9 $$", "the new process ended before it served (signal: 9 (SIGKILL))"),
    ] {
        let program = script(folder.path(), lines).display().to_string();
        let said = larder.upgrade(&["--binary", &program]).unwrap_err();
        assert_eq!(said, format!("larder: {why}\n"));
        assert!(serves(&larder));
    }
    fs::create_dir(folder.path().join("folder")).unwrap();
    for (name, text, mode, why) in [
        ("none", None, 0, "no such file or directory"),
        ("folder", None, 0, "it is a directory"),
        ("text", Some("#!/bin/sh\n"), 0o644, "the user of this process may not execute it"),
        ("of-another-machine", Some("\x7fELF"), 0o755, "it is no program for this machine"),
        (
            "without-loader",
            Some("#!/none\n"),
            0o755,
            "the interpreter or the loader that it needs is missing",
        ),
    ] {
        let file = folder.path().join(name);
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        let file = file.display().to_string();
        let said = larder.upgrade(&["--binary", &file]).unwrap_err();
        assert_eq!(said, format!("larder: cannot start {file}: {why}\n"));
        assert!(serves(&larder));
    }
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
fn a_signal_to_all_processes_of_a_service_upgrades_it() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    larder.signal(Signal::USR2);
    // `systemctl kill` looks for further processes until it finds no new ones.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(50) {
        children(larder.id()).into_iter().for_each(|process| kill_process(process, Signal::USR2).unwrap());
    }
    larder.wait_for_successor();
    assert!(serves(&larder));
}

#[test]
fn a_second_upgrade_is_refused_until_the_first_has_ended() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let lines = format!("touch {}; exec sleep 1000", started.display());
    let mut first = command(&larder, &script(folder.path(), &lines));
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
fn a_successor_ends_with_an_old_process_that_is_killed() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    let (go, binary) = (folder.path().join("go"), larder_testkit::programs::larder());
    let waits = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    let program = script(folder.path(), &format!("{waits}; exec {} \"$@\"", binary.display()));
    let mut command = command(&larder, &program);
    let successor = eventually("a successor", || children(larder.id()).pop());
    larder.signal(Signal::KILL);
    larder.ended();
    fs::write(&go, "").unwrap();
    eventually("the end of the successor", || is_over(successor).then_some(()));
    assert!(!command.wait().unwrap().success());
}

/// Starts `larder upgrade` to `program`.
fn command(larder: &Larder, program: &Path) -> Process {
    let mut command = Command::new(larder_testkit::programs::larder());
    command.args(["upgrade", "--admin", &larder.admin.to_string(), "--binary"]).arg(program);
    Process::start(command.stderr(Stdio::null())).unwrap()
}

#[test]
fn another_user_may_not_upgrade() {
    if !geteuid().is_root() {
        return not_tested("a second user");
    }
    let origin = Origin::always("200 OK\n\na page");
    let (larder, _) = start(&origin, "");
    let mut command = Command::new(larder_testkit::programs::larder());
    command.args(["upgrade", "--admin", &larder.admin.to_string()]).uid(65_534);
    let said = stderr(&command.output().unwrap());
    assert_eq!(said, "larder: only root and the user of this process may upgrade it\n");
    assert!(serves(&larder) && children(larder.id()).is_empty());
}

#[test]
fn a_process_told_to_end_during_an_upgrade_ends_with_its_successor() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&larder, &script(folder.path(), "exec sleep 1000"));
    let successor = eventually("a successor", || children(larder.id()).pop());
    larder.stop();
    assert!(is_over(successor) && !command.wait().unwrap().success());
}

#[test]
fn an_old_process_ends_its_requests_after_a_successor_that_was_killed() {
    let (gate, folder) = (Gate::default(), tempfile::tempdir().unwrap());
    let held = gate.clone();
    let origin = Origin::answering(move |seen| match &*seen.target {
        "/held" => {
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").then_wait(&held).then("rest")
        }
        _ => Answer::with_body("200 OK\nCache-Control: max-age=60", b"a page"),
    });
    let disk = format!("[[disk]]\npath = '{}'\nsize = '64MiB'\n", folder.path().display());
    let (mut larder, config) = start(&origin, &disk);
    assert_eq!(larder.get("/page").status, 200);
    eventually("a record on the disk", || (larder.stats()["disks"][0]["objects"] == 1).then_some(()));
    let mut client = larder.client();
    client.send("GET /held");
    assert_eq!(client.head().status, 200);
    larder.upgrade(&[]).unwrap();
    larder.signal(Signal::KILL);
    gate.open();
    assert_eq!(client.exactly(8), b"halfrest");
    larder.wait_for_predecessor();
    let next = Larder::start(&config);
    let page = next.get("/page");
    assert!(page.is_hit() && page.text() == "a page", "from the disk");
}

#[test]
fn the_first_process_of_a_container_is_not_upgraded() {
    let apart = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"];
    let may = Command::new(apart[0]).args(&apart[1..]).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return not_tested("a process namespace (`unshare --pid`)");
    }
    let origin = Origin::always("200 OK\n\na page");
    let larder = Larder::start_behind(&apart, &site(&[&origin], ""));
    let first = children(larder.id()).pop().expect("one");
    kill_process(first, Signal::USR2).unwrap();
    larder.wait_for_log("this process has the id 1, and its container ends with it: replace the container");
    assert!(serves(&larder));
}
