//! Limits of prefetches: they may not exceed their share, repeat a fetch of a response that may not be stored, bypass
//! rules, or reveal the requests of one client to another.

use std::net::Ipv4Addr;

use larder_testkit::{Client, Larder, Origin, eventually, site};

use crate::prefetch::{BOTH, figure, is_prefetch, page, purge_all, settle, walk};

const MISSING: &str = "404 Not Found\n\n";

/// Lets one client walk 11 times from the first to the second page of each pair, then removes all stored responses.
fn learn_pairs(larder: &Larder, pairs: usize) {
    for pair in 0..pairs {
        walk(larder, &[&format!("/from/{pair}x"), &format!("/to/{pair}x")], 11);
    }
    purge_all(larder);
}

fn wait_for(larder: &Larder, name: &str, value: u64) {
    eventually(name, || (figure(larder, "association", name) == value).then_some(()));
}

#[test]
fn prefetches_without_use_stay_within_their_share_of_the_traffic() {
    let origin = Origin::by(|seen| if is_prefetch(seen) { MISSING.to_owned() } else { page() });
    let larder = Larder::start(&site(&[&origin], "prefetch = 'association'\nprefetch_traffic = '1%'"));
    learn_pairs(&larder, 25);
    for pair in 0..25 {
        larder.get(&format!("/from/{pair}x"));
    }
    let requests = 25 * 22 + 25;
    larder.wait_for("requests", requests);
    let started = figure(&larder, "association", "started");
    assert!((1..=requests / 100).contains(&started), "{started} of {requests}");
    assert_eq!(figure(&larder, "association", "used"), 0);
}

#[test]
fn predictions_that_are_seldom_right_are_switched_off() {
    let origin = Origin::by(|seen| if is_prefetch(seen) { MISSING.to_owned() } else { page() });
    let larder = Larder::start(&site(&[&origin], "prefetch = 'association'\nprefetch_traffic = '100%'"));
    learn_pairs(&larder, 60);
    for pair in 0..60 {
        larder.get(&format!("/from/{pair}x"));
        if pair < 50 {
            wait_for(&larder, "unused", pair + 1);
        }
    }
    let figures = ["started", "unused", "off"].map(|name| figure(&larder, "association", name));
    assert_eq!(figures, [50, 50, 1]);
}

#[test]
fn an_unstorable_prefetch_is_not_repeated_and_clients_are_served_as_usual() {
    for field in ["Cache-Control: private, max-age=100", "Cache-Control: no-store", "Vary: *"] {
        let origin = Origin::by(move |seen| match is_prefetch(seen) {
            true => format!("200 OK\n{field}\n\nyours"),
            false => page(),
        });
        let larder = Larder::start(&site(&[&origin], BOTH));
        for _ in 0..3 {
            walk(&larder, &["/a", "/b"], 12);
            purge_all(&larder);
            larder.get("/a");
            wait_for(&larder, "refused", 1);
        }
        assert_eq!(
            ["started", "refused"].map(|name| figure(&larder, "association", name)),
            [1, 1],
            "{field}"
        );
        let (first, second) = (larder.get("/b"), larder.get("/b"));
        assert_eq!((first.body.len(), second.is_hit()), (4 << 10, true), "{field}");
    }
}

#[test]
fn rules_for_the_successor_hold() {
    let rules = [
        "prefetch = false",
        "cache = false",
        "deny = '127.0.0.0/8'",
        "respond = 404",
        "limit = { requests = '1000/s' }",
    ];
    for rule in rules {
        let origin = Origin::by(|_| page());
        let table = |rule: &str| format!("{BOTH}\n[[site.rule]]\nmatch = {{ path = '/b' }}\n{rule}");
        let larder = Larder::start(&site(&[&origin], BOTH));
        walk(&larder, &["/a", "/b"], 12);
        // `/a` remains stored, so that the likely successor of `/b` need not be fetched.
        let purge = "POST /purge?url=http://site.test/b&hard\nLarder-Admin: 1";
        assert_eq!(larder.ask_admin(purge).status, 200);
        larder.reload(&site(&[&origin], &table(rule)));
        larder.wait_for_log("config reloaded");
        larder.get("/a");
        larder.settle();
        assert_eq!((origin.count_of("/b"), figure(&larder, "association", "started")), (1, 0), "{rule}");
    }
}

#[test]
fn a_successor_at_another_host_is_not_predicted() {
    let origin = Origin::by(|_| page());
    let larder = Larder::start(&site(&[&origin], BOTH));
    let mut client = larder.client();
    for _ in 0..12 {
        client.ask("GET /a\nHost: one.test");
        client.ask("GET /b\nHost: two.test");
    }
    purge_all(&larder);
    client.ask("GET /a\nHost: one.test");
    larder.settle();
    assert_eq!((origin.count_of("/b"), figure(&larder, "association", "started")), (1, 0));
}

/// Lets one client walk from `/a` to `/b`, `times` times.
fn walk_from(larder: &Larder, address: Ipv4Addr, times: usize) {
    let mut client = Client::from(address, larder.address());
    for path in ["/a", "/b"].iter().cycle().take(2 * times) {
        client.ask(&format!("GET {path}"));
    }
    settle(larder);
}

/// A pair counts for all clients after three clients with different marks, each one of 32. The chance that 15 clients
/// have fewer than three different marks is C(32, 2) * (2 / 32)^15, less than 10^-15.
#[test]
fn habits_of_a_single_client_cause_no_prefetch_for_other_clients() {
    let origin = Origin::by(|_| page());
    let larder = Larder::start(&site(&[&origin], BOTH));
    let client = |last| Ipv4Addr::new(127, 0, 0, last);
    let ask = |last| {
        purge_all(&larder);
        Client::from(client(last), larder.address()).ask("GET /a");
        settle(&larder);
    };
    walk_from(&larder, client(2), 30);
    ask(3);
    assert_eq!((origin.count_of("/b"), figure(&larder, "association", "started")), (1, 0));
    ask(2);
    assert_eq!((origin.count_of("/b"), figure(&larder, "association", "started")), (2, 1), "but for itself");
    (10..25).for_each(|last| walk_from(&larder, client(last), 3));
    let before = figure(&larder, "association", "started");
    ask(4);
    assert_eq!(figure(&larder, "association", "started"), before + 1, "what many do is for all");
}

#[test]
fn a_client_that_prefetches_itself_teaches_nothing() {
    let origin = Origin::by(|_| page());
    let larder = Larder::start(&site(&[&origin], BOTH));
    let mut client = larder.client();
    for _ in 0..12 {
        client.ask("GET /a\nSec-Purpose: prefetch");
        client.ask("GET /b\nSec-Purpose: prefetch");
    }
    purge_all(&larder);
    client.ask("GET /a");
    larder.settle();
    assert_eq!(figure(&larder, "association", "started"), 0);
}
