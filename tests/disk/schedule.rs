//! The purge schedule.

use crate::{config, page, written};
use larder_testkit::{Answer, Larder, Origin, eventually};

fn origin(head: &'static str) -> Origin {
    Origin::answering(move |seen| Answer::with_body(head, &page(&seen.target)))
}

/// Returns the number of objects in memory and on the disk, and the schedule's count of `done`.
fn counts(larder: &Larder, done: &str) -> (u64, u64, u64) {
    let stats = larder.stats();
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    (number(&stats["objects"]), number(&stats["disks"][0]["objects"]), number(&stats["schedule"][done]))
}

#[test]
fn expired_objects_are_removed_on_schedule() {
    let (directory, origin) =
        (tempfile::tempdir().unwrap(), origin("200 OK\nCache-Control: max-age=1\nETag: \"1\""));
    let schedule = "[schedule]\nevery = '50ms'\nexpired = '0s'";
    let larder = Larder::start(&config(directory.path(), &origin, schedule));
    larder.get("/a-100");
    larder.get("/b-100000");
    written(&larder, 2);
    eventually("an empty cache", || (counts(&larder, "expired") == (0, 0, 4)).then_some(()));
}

#[test]
fn unused_objects_are_removed() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), origin("200 OK\nCache-Control: max-age=60"));
    let schedule = "[schedule]\nevery = '50ms'\nunused = '1s'";
    let larder = Larder::start(&config(directory.path(), &origin, schedule));
    larder.get("/a-100");
    larder.get("/b-100000");
    eventually("an empty cache", || {
        // This object is requested in each round.
        larder.get("/kept-100");
        (counts(&larder, "unused").0 == 1).then_some(())
    });
    assert!(larder.get("/kept-100").is_hit());
}

#[test]
fn everything_is_forgotten_at_its_time() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), origin("200 OK\nCache-Control: max-age=60"));
    let schedule = "[schedule]\neverything = '* * * * * *'";
    let larder = Larder::start(&config(directory.path(), &origin, schedule));
    larder.get("/a-100");
    eventually("an empty cache", || {
        let (memory, disk, cleared) = counts(&larder, "cleared");
        ((memory, disk) == (0, 0) && cleared > 0).then_some(())
    });
}
