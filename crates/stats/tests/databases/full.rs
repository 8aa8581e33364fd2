//! A disk without room. The test runs in a separate process, since the limit applies to a whole process.

use std::process::Command;

use larder_stats::Options;
use larder_testkit::within;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::engines::{Engine, Sqlite};
use crate::model;
use crate::scenario::{LONG, open, options, read};

#[test]
fn sqlite_on_a_full_disk_costs_no_request() {
    // A write beyond the limit fails, instead of ending the process.
    let mut apart = Command::new("sh");
    apart.args(["-c", "trap '' XFSZ && exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    let output = apart.args(["--exact", "full::rows_wait_for_room", "--ignored"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("test result: ok. 1 passed"), "{said}{errors}");
}

#[test]
#[ignore = "part of another, which gives it a process of its own"]
fn rows_wait_for_room() {
    let sqlite = Sqlite::new();
    let url = sqlite.fresh();
    let recorder = open(&url, Options { batch: 100, ..options() });
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(300_000), ..before }).unwrap();
    let requests = model::varied(10_000, model::now(), 4);
    requests.iter().cloned().for_each(|request| recorder.record(request));
    within(LONG, "a full disk", || (recorder.figures().failed > 2).then_some(()));
    let figures = recorder.figures();
    assert!(figures.written < 10_000 && figures.dropped == 0, "{figures:?}");
    assert_eq!(figures.recorded, figures.written + figures.queued);
    setrlimit(Resource::Fsize, before).unwrap();
    within(LONG, "room", || (recorder.figures().queued == 0).then_some(()));
    let figures = recorder.close(LONG);
    assert_eq!((figures.written, figures.rows, figures.dropped), (10_000, 10_000, 0));
    assert_eq!(read(&url).totals(0), Ok(model::totals(&requests)));
}
