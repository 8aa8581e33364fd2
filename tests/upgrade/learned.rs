//! What a process has learned about URLs, and its purges, hold in its successor: each is asked for what it would do
//! otherwise without it.

use std::net::Ipv4Addr;

use larder_testkit::{Answer, Client, Gate, Larder, Origin, Seen, eventually, site};

/// Gives changes up early, and no other request: a busy machine can take as long for that.
const IMPATIENT: &str = "[[site.rule]]\nmatch = { method = 'PUT' }\nfirst_byte = '500ms'\n";

/// Answers everything but changes, whose results nobody learns while `gate` is closed.
fn with_unknown_changes(seen: &Seen, gate: &Gate) -> Answer {
    if seen.method == "PUT" {
        gate.pass();
    }
    Answer::with_body("200 OK\nCache-Control: max-age=3600", b"a page")
}

/// Whether the second of two requests in a row is answered from the cache.
fn keeps(larder: &Larder, path: &str) -> bool {
    larder.get(path);
    larder.get(path).is_hit()
}

#[test]
fn a_doubt_from_before_an_upgrade_still_has_each_use_validated() {
    let (gate, origin) = Origin::gated(with_unknown_changes);
    let mut larder = Larder::with_site(&[&origin], IMPATIENT);
    assert!(keeps(&larder, "/changed") && keeps(&larder, "/other"));
    assert_eq!(larder.ask("PUT /changed\n\nnew").status, 504);
    for _ in 0..2 {
        larder.upgrade(&[]).unwrap();
        larder.wait_for_predecessor();
        assert!(!keeps(&larder, "/changed"), "the change may still be made");
        assert!(larder.get("/other").is_hit());
    }
    gate.open();
}

#[test]
fn a_doubt_of_the_old_process_reaches_its_successor() {
    let (gate, origin) = Origin::gated(with_unknown_changes);
    let mut larder = Larder::with_site(&[&origin], IMPATIENT);
    assert!(keeps(&larder, "/changed") && keeps(&larder, "/other"));
    let mut changer = larder.client();
    changer.send("PUT /changed\nContent-Length: 3\n\nnew");
    eventually("the change", || (origin.count_of("/changed") == 2).then_some(()));
    larder.upgrade(&[]).unwrap();
    assert_eq!(changer.receive("PUT").status, 504, "of the old process");
    larder.wait_for_predecessor();
    assert!(!keeps(&larder, "/changed"), "the change may still be made");
    assert!(larder.get("/other").is_hit());
    gate.open();
}

#[test]
fn a_mark_as_hit_for_miss_holds_over_upgrades() {
    let origin = Origin::always("200 OK\nCache-Control: private\n\na page");
    let (mut larder, _) = super::start(&origin, "");
    // A condition of the client is useful to the origin only if the answer will not be stored.
    let passes = |larder: &Larder, path: &str| {
        larder.get(&format!("{path}\nIf-None-Match: \"x\""));
        origin.last().field("if-none-match").is_some()
    };
    assert!(!passes(&larder, "/marked") && passes(&larder, "/marked"));
    for number in 0..2 {
        larder.upgrade(&[]).unwrap();
        larder.wait_for_predecessor();
        assert!(passes(&larder, "/marked"), "the first request after the upgrade");
        assert!(!passes(&larder, &format!("/new/{number}")));
    }
}

#[test]
fn the_history_of_validations_goes_on_after_upgrades() {
    // By `Age`, it needs a validation until its lifetime of 100 seconds has grown beyond 200. What serves for nothing any more
    // is not handed over.
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        Some(_) => "304 Not Modified\nETag: \"1\"\nAge: 200".to_owned(),
        None => {
            let last_change = super::seconds() - 1_000;
            let modified = larder_semantics::date::format(last_change.try_into().expect("before 2106"));
            let modified = String::from_utf8_lossy(&modified).into_owned();
            format!(
                "200 OK\nETag: \"1\"\nAge: 200\nCache-Control: stale-if-error=1000\n\
                 Last-Modified: {modified}\n\na page"
            )
        }
    });
    let mut larder = Larder::start(&site(&[&origin], "heuristic_adaptive = true"));
    for validations in 0..3 {
        assert!(!larder.get("/page").is_hit());
        assert_eq!(origin.count(), validations + 1);
        larder.upgrade(&[]).unwrap();
        larder.wait_for_predecessor();
    }
    larder.get("/page");
    assert!(larder.get("/page").is_hit(), "three validations in a row found no change");
    assert_eq!(origin.count(), 4);
}

#[test]
fn predictions_of_next_requests_are_made_after_an_upgrade() {
    let origin = Origin::by(|_| format!("200 OK\nCache-Control: max-age=100\n\n{}", "x".repeat(4 << 10)));
    let keys = "prefetch = ['association', 'sequence']\nprefetch_traffic = '100%'";
    let mut larder = Larder::start(&site(&[&origin], keys));
    // What single clients do is not handed over.
    for round in 0..60 {
        let mut client = Client::from(Ipv4Addr::new(127, 0, 0, 10 + round % 20), larder.address());
        for path in ["/first", "/second"] {
            assert_eq!(client.ask(&format!("GET {path}")).status, 200);
        }
    }
    larder.wait_for("background", 0);
    assert_eq!(origin.count(), 2);
    larder.upgrade(&[]).unwrap();
    // Prefetches may take as much traffic as clients have.
    (0..24).for_each(|_| assert_eq!(larder.get("/other").status, 200));
    purge(&larder, "all&hard");
    larder.get("/first");
    eventually("a prefetch", || (origin.count_of("/second") == 2).then_some(()));
}

#[test]
fn purges_before_an_upgrade_reach_what_is_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::by(|seen| {
        format!("200 OK\nCache-Control: max-age=100\nCache-Tag: {}\n\n{}", &seen.target[1..2], seen.number)
    });
    let disk =
        format!("[memory]\nentries = 4\n[[disk]]\npath = '{}'\nsize = '64MiB'\n", folder.path().display());
    let mut larder = Larder::start(&format!("{disk}{}", site(&[&origin], "")));
    let ready = |larder: &Larder| {
        eventually("the disk", || (larder.stats()["disks"][0]["state"] == "ready").then_some(()));
    };
    ready(&larder);
    let paths: Vec<_> = (0..40).map(|number| format!("/{}{number}", ["a", "b", "c"][number % 3])).collect();
    let first: Vec<_> = paths.iter().map(|path| larder.get(path).text().to_owned()).collect();
    eventually("all on the disk", || (larder.stats()["disks"][0]["objects"] == 40).then_some(()));
    purge(&larder, "tag=a&hard");
    purge(&larder, "prefix=http://site.test/b1&hard");
    for _ in 0..2 {
        larder.upgrade(&[]).unwrap();
        larder.wait_for_predecessor();
        ready(&larder);
    }
    for (path, first) in paths.iter().zip(&first) {
        let is_purged = path.starts_with("/a") || path.starts_with("/b1");
        assert_eq!(larder.get(path).text() != first, is_purged, "{path}");
    }
}

fn purge(larder: &Larder, query: &str) {
    let answer = larder.ask_admin(&format!("POST /purge?{query}\nLarder-Admin: 1"));
    assert_eq!(answer.status, 200, "{answer:?}");
}
