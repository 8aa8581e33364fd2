//! Certificates are renewed in time: by their lifetime, or earlier if the authority suggests it.

use crate::pebble::Pebble;
use crate::world::{LONG, ORDER, World, ended, fetch, figures, leaf, wait_for, wait_for_inquiry};
use larder_testkit::{eventually, within};

#[test]
fn a_certificate_is_renewed_while_it_is_in_use() {
    let Some(pebble) = Pebble::start(20) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for(&larder, "site.test");
    let first = leaf(&world.kept());
    within(ORDER, "a renewal", || (ended(&larder, "issued") > 1).then_some(()));
    assert_ne!(leaf(&world.kept()), first);
    assert_eq!((ended(&larder, "failed"), figures(&larder, "site.test")["failures"].as_u64()), (0, Some(0)));
    assert_eq!(fetch(&pebble.root(), pebble.ports[1], "site.test").as_deref(), Ok("a page"));
}

#[test]
fn a_renewal_starts_at_two_thirds_and_reports_a_wrong_clock() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for_inquiry(&larder, &pebble, 0);
    let renewal = figures(&larder, "site.test")["renewal"].as_u64().expect("a time");
    drop(larder);
    let first = world.kept();
    // The authority suggests an invalid window.
    pebble.suggest(&leaf(&first), "bad", "bad");
    let larder = world.start_ahead(&pebble, LONG / 2);
    wait_for_inquiry(&larder, &pebble, 1);
    let by_lifetime = figures(&larder, "site.test")["renewal"].as_u64().expect("a time");
    assert!(by_lifetime.abs_diff(renewal) < LONG / 15, "{by_lifetime} {renewal}");
    drop(larder);
    assert_eq!((pebble.orders(), &world.kept()), (1, &first));
    let larder = world.start_ahead(&pebble, LONG * 2 / 3 + 60);
    within(ORDER, "a renewal", || (ended(&larder, "issued") == 1).then_some(()));
    // By the wrong clock, the new certificate is also due for renewal.
    eventually("the trouble", || {
        let trouble = figures(&larder, "site.test")["trouble"].as_str()?.to_owned();
        trouble.contains("the clock of this machine may be wrong").then_some(())
    });
    assert_ne!(world.kept(), first);
    assert!(figures(&larder, "site.test")["retry_seconds"].as_u64() >= Some(200));
}

#[test]
fn the_authority_may_ask_for_an_earlier_renewal() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for(&larder, "site.test");
    drop(larder);
    let first = world.kept();
    pebble.suggest(&leaf(&first), "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    let larder = world.start(&pebble);
    within(ORDER, "a renewal", || (ended(&larder, "issued") == 1).then_some(()));
    assert_ne!(world.kept(), first);
    assert_eq!(ended(&larder, "failed"), 0);
}
