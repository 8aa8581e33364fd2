//! The cost of nodes that join and leave: no failed request, and one fetch of each key with a new owner.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;

use larder_testkit::nodes::{cluster, node, three, wait_for};
use larder_testkit::{Client, Engine, Larder, Origin, eventually};
use rustix::process::Signal;

const PAGE: &str = "200 OK\nCache-Control: max-age=3600\n\nbody";
const KEYS: usize = 60;

fn paths() -> impl Iterator<Item = String> {
    (0..KEYS).map(|number| format!("/key/{number}"))
}

/// Requests all paths from each node; returns the number of fetches of each path.
fn ask_all(nodes: &[Larder], origin: &Origin) -> Vec<usize> {
    for path in paths() {
        for node in nodes {
            assert_eq!(node.ask(&format!("GET {path}\nHost: site.test")).status, 200, "{path}");
        }
    }
    paths().map(|path| origin.count_of(&path)).collect()
}

/// Returns the number of keys that were fetched once more; asserts that no key was fetched twice.
fn moved(before: &[usize], after: &[usize]) -> usize {
    let more = before.iter().zip(after).map(|(before, after)| after - before);
    more.inspect(|more| assert!(*more <= 1, "{before:?} {after:?}")).sum()
}

#[test]
fn only_keys_with_a_new_owner_are_fetched_again() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let mut nodes = three(&engine, &origin, "hot = 0.0");
    let first = ask_all(&nodes, &origin);
    assert_eq!(first, [1; KEYS]);

    nodes.push(node(&engine, &origin, "d", "hot = 0.0"));
    wait_for(&nodes, &["a", "b", "c", "d"]);
    let joined = ask_all(&nodes, &origin);
    // About one of four keys moves; the ring is the same in each run.
    let of_d = moved(&first, &joined);
    assert!((5..30).contains(&of_d), "{of_d}");

    let mut leaves = nodes.pop().expect("four");
    leaves.signal(Signal::TERM);
    leaves.ended();
    wait_for(&nodes, &["a", "b", "c"]);
    let left = ask_all(&nodes, &origin);
    assert_eq!(moved(&joined, &left), 0, "no other keys move");

    let mut dies = nodes.pop().expect("three");
    dies.signal(Signal::KILL);
    dies.ended();
    wait_for(&nodes, &["a", "b"]);
    let died = ask_all(&nodes, &origin);
    let of_c = moved(&left, &died);
    assert!((5..40).contains(&of_c), "{of_c}");
}

/// A node behind a balancer; the balancer holds the read lock while a request is in flight there.
type Slot = RwLock<Larder>;

/// Acts as a balancer, which takes the next node that reports ready. Returns the number of failed requests.
fn balance(slots: &[Slot], is_over: &AtomicBool, answered: &AtomicU64) -> u64 {
    let (mut failed, mut number) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        let Ok(node) = slots[number % slots.len()].try_read() else { continue };
        let ready = Client::try_ask(node.admin, "GET /readyz\nHost: localhost");
        if ready.is_none_or(|ready| ready.status != 200) {
            continue;
        }
        let path = format!("/key/{}", number / slots.len() % KEYS);
        let answer = Client::try_ask(node.address(), &format!("GET {path}\nHost: site.test"));
        match answer.is_some_and(|answer| answer.status == 200) {
            true => _ = answered.fetch_add(1, Ordering::Relaxed),
            false => failed += 1,
        }
    }
    failed
}

fn tell(node: &Larder, word: &str, name: &str) {
    let path = format!("POST /cluster/{word}?node={name}\nLarder-Admin: 1");
    assert_eq!(node.ask_admin(&path).status, 200);
}

/// Waits until all nodes see whether the node `name` drains.
fn wait_to_drain(slots: &[Slot], name: &str, drains: bool) {
    for slot in slots {
        let node = slot.read().expect("no panic");
        let sees = || {
            let shown = cluster(&node);
            let mut nodes = shown["nodes"].as_array().expect("a list").iter();
            nodes.any(|node| node["name"] == name && node["draining"] == drains).then_some(())
        };
        eventually("all nodes to see the change", sees);
    }
}

#[test]
fn a_rolling_restart_costs_no_request() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let names = ["a", "b", "c"];
    let slots: Vec<_> = three(&engine, &origin, "hot = 0.0").into_iter().map(Slot::new).collect();
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let some_answers = |what: &str| {
        let before = answered.load(Ordering::Relaxed);
        let more = || (answered.load(Ordering::Relaxed) > before + 6 * KEYS as u64).then_some(());
        eventually(what, more);
    };
    scope(|threads| {
        let load: Vec<_> = (0..2).map(|_| threads.spawn(|| balance(&slots, &is_over, &answered))).collect();
        some_answers("all to be asked for");
        for (number, name) in names.into_iter().enumerate() {
            tell(&slots[number].read().expect("no panic"), "drain", name);
            wait_to_drain(&slots, name, true);
            some_answers("others to have its keys");
            // The write lock waits for the requests in flight to this node.
            let mut node = slots[number].write().expect("no panic");
            node.signal(Signal::TERM);
            node.ended();
            *node = larder_testkit::nodes::node(&engine, &origin, name, "hot = 0.0");
            drop(node);
            tell(&slots[(number + 1) % 3].read().expect("no panic"), "resume", name);
            wait_to_drain(&slots, name, false);
            some_answers("it to have its keys again");
        }
        is_over.store(true, Ordering::Relaxed);
        let failed: u64 = load.into_iter().map(|load| load.join().expect("no panic")).sum();
        assert_eq!(failed, 0);
    });
    // Each page is fetched first, by its second owner while the owner drains, and by the owner, which lost its entries.
    for path in paths() {
        assert!(origin.count_of(&path) <= 3, "{path}: {}", origin.count_of(&path));
    }
}
