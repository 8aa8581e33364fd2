//! Orders that fail: the failure is reported, and a later order succeeds.

use std::process::Command;

use larder_testkit::{Larder, within};

use crate::pebble::Pebble;
use crate::world::{LONG, ORDER, World, ended, fetch, figures, wait_for};

/// Waits until `failures` orders have failed, and returns the message about the last failure.
fn trouble(larder: &Larder, failures: u64) -> String {
    within(ORDER, "a failure", || {
        let figures = figures(larder, "site.test");
        (figures["failures"].as_u64() >= Some(failures))
            .then(|| figures["trouble"].as_str().expect("why").to_owned())
    })
}

#[test]
fn a_directory_that_is_down_is_reported_everywhere_and_asked_again() {
    let Some(mut pebble) = Pebble::prepare(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    let why = trouble(&larder, 1);
    assert!(why.contains("cannot connect to localhost"), "{why}");
    larder.wait_for_log("no new certificate for site.test: cannot connect to localhost");
    let answer = larder.ask_admin("GET /metrics");
    let metrics = answer.text();
    for line in ["larder_acme_orders_total{result=\"failed\"}", "larder_acme_failures{name=\"site.test\"}"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let mut stats = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = stats.args(["stats", "--admin", &larder.admin.to_string()]).output().expect("it runs");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = shown.lines().find(|line| line.starts_with("acme      site.test: awaited")).expect("a line");
    assert!(line.contains(" failure") && line.contains("cannot connect to localhost"), "{line}");
    pebble.restart();
    wait_for(&larder, "site.test");
    let figures = figures(&larder, "site.test");
    assert!(figures["trouble"].is_null() && figures["failures"] == 0, "{figures}");
    assert_eq!(fetch(&pebble.root(), pebble.ports[1], "site.test").as_deref(), Ok("a page"));
}

#[test]
fn a_refused_order_is_not_repeated_soon_even_after_a_restart() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    pebble.dns.know("site.test", false);
    let larder = world.start(&pebble);
    let why = trouble(&larder, 1);
    assert!(why.contains("site.test"), "{why}");
    assert!(figures(&larder, "site.test")["retry_seconds"].as_u64() >= Some(200));
    drop(larder);
    pebble.dns.know("site.test", true);
    let larder = world.start(&pebble);
    assert_eq!(trouble(&larder, 1), why);
    drop(larder);
    assert_eq!(pebble.orders(), 1);
    let files = pebble.said("Attempting to validate w/ HTTP");
    // Later, the process tries the other challenge.
    let larder = world.start_ahead(&pebble, 400);
    wait_for(&larder, "site.test");
    assert_eq!((pebble.orders(), ended(&larder, "failed")), (2, 0));
    assert_eq!(pebble.said("Attempting to validate w/ HTTP"), files);
}

#[test]
fn a_renewal_that_fails_leaves_the_old_certificate_in_use() {
    let Some(mut pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for(&larder, "site.test");
    drop(larder);
    let root = pebble.root();
    pebble.stop();
    let larder = world.start_ahead(&pebble, LONG * 2 / 3 + 60);
    trouble(&larder, 1);
    assert_eq!(figures(&larder, "site.test")["state"], "valid");
    assert_eq!(fetch(&root, pebble.ports[1], "site.test").as_deref(), Ok("a page"));
    let stats = larder.stats();
    assert!(stats["acme"]["names"][0]["failing_seconds"].is_u64(), "{stats}");
}

#[test]
fn nonces_that_are_rejected_are_replaced() {
    let Some(pebble) = Pebble::start_with(LONG, ("PEBBLE_WFE_NONCEREJECT", "30")) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for(&larder, "site.test");
    assert_eq!(ended(&larder, "issued"), 1);
}

#[test]
fn an_authority_that_has_forgotten_the_account_gets_a_new_one() {
    let Some(mut pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for(&larder, "site.test");
    drop(larder);
    let account = std::fs::read(world.file("_account.json")).expect("an account");
    pebble.restart();
    let larder = world.start_by(&world.config(&pebble, "'site.test', 'new.test'", ""));
    wait_for(&larder, "new.test");
    assert_ne!(std::fs::read(world.file("_account.json")).expect("an account"), account);
    larder.wait_for_log("no longer has this process's account; a new one is created");
}
