//! What survives an upgrade beside the sockets: TLS sessions, disks, statistics; and requests in progress.

use std::fs;

use larder_testkit::{Answer, Larder, Origin, eventually, site};

use super::{serves, start};

#[test]
fn a_request_in_progress_is_answered_by_the_old_process() {
    let (gate, origin) = Origin::gated(|_, held| {
        Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na ").then_wait(held).then("page")
    });
    let (mut larder, _) = start(&origin, "");
    let mut client = larder.client();
    client.send("GET /page");
    assert_eq!(client.head().status, 200);
    let said = larder.upgrade(&[]).unwrap();
    assert!(said.ends_with("drains: 1\n"), "{said}");
    let said = larder.upgrade(&[]).unwrap_err();
    assert!(said.contains("the process before this one has not ended yet"), "{said}");
    gate.open();
    assert_eq!(client.exactly(6), b"a page");
    larder.wait_for_predecessor();
    larder.upgrade(&[]).unwrap();
    assert!(serves(&larder));
}

#[test]
fn fetches_of_the_old_process_are_not_made_again() {
    let (gate, origin) = Origin::gated(|seen, held| {
        let stored = if seen.target == "/private" { "private" } else { "max-age=60" };
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: {stored}\r\nContent-Length: 6\r\n\r\na ");
        Answer::raw(head).then_wait(held).then("page")
    });
    let (mut larder, _) = start(&origin, "");
    let ask = |larder: &Larder| {
        ["/page", "/private"].map(|path| {
            let mut client = larder.client();
            client.send(&format!("GET {path}"));
            client
        })
    };
    let early = ask(&larder);
    eventually("both to be fetched", || (origin.count() == 2).then_some(()));
    larder.upgrade(&[]).unwrap();
    let late = ask(&larder);
    eventually("a miss that waits", || (larder.stat("fills") > 0).then_some(()));
    gate.open();
    for mut client in early.into_iter().chain(late) {
        assert_eq!(client.receive("GET").text(), "a page");
    }
    assert_eq!(origin.count_of("/page"), 1);
    assert_eq!(origin.count_of("/private"), 2, "the one of another client is no use");
}

#[test]
fn a_disk_is_handed_over_and_has_one_user_at_each_moment() {
    let (origin, folder) =
        (Origin::always("200 OK\nCache-Control: max-age=60\n\na page"), tempfile::tempdir().unwrap());
    let disk = format!("[[disk]]\npath = '{}'\nsize = '64MiB'\n", folder.path().display());
    let (mut larder, _) = start(&origin, &disk);
    assert_eq!(larder.get("/page").status, 200);
    let on_disk = |larder: &Larder| {
        eventually("a disk in use", || (larder.stats()["disks"][0]["state"] == "ready").then_some(()));
        fs::read_to_string(folder.path().join("larder.lock")).unwrap().trim().parse::<u32>().unwrap()
    };
    for _ in 0..3 {
        assert_eq!(on_disk(&larder), larder.id(), "the lock names its holder");
        eventually("a stored object", || (larder.stats()["disks"][0]["objects"] == 1).then_some(()));
        larder.upgrade(&[]).unwrap();
        larder.wait_for_predecessor();
        on_disk(&larder);
        assert!(larder.get("/page").is_hit());
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn rows_of_both_processes_are_in_the_statistics_database() {
    let (origin, state) = (Origin::always("200 OK\n\na page"), tempfile::tempdir().unwrap());
    let config = format!("[stats]\n{}", site(&[&origin], ""));
    let mut larder = Larder::start_in(&config, &[("STATE_DIRECTORY", state.path())]);
    let mut early = larder.client();
    assert_eq!(early.ask("GET /early").status, 200);
    larder.upgrade(&[]).unwrap();
    assert_eq!(larder.client().ask("GET /late").status, 200);
    assert_eq!(early.ask("GET /last").status, 200, "on a connection of the old process");
    larder.wait_for_predecessor();
    eventually("all rows", || (larder.stats()["statistics"]["written"] == 1).then_some(()));
    let database = rusqlite::Connection::open(state.path().join("statistics.db")).unwrap();
    let rows: u32 = database.query_row("SELECT count(*) FROM transactions", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 3);
}

#[test]
fn the_signal_upgrades_without_a_command() {
    let origin = Origin::always("200 OK\n\na page");
    let (mut larder, _) = start(&origin, "");
    larder.upgrade_by_signal();
    larder.wait_for_predecessor();
    assert!(serves(&larder));
}
