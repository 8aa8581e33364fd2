//! Purges when the engine consists of several servers, and one of them fails.

use std::thread::sleep;

use larder_testkit::nodes::wait_for;
use larder_testkit::{ELECTION, Engine, Larder, Origin, within};
use rustix::process::Signal;
use serde_json::json;

use crate::invalidations::{LAG, LONG, Pages, SHORT, node_by, purge, version};

fn three(url: &str, origin: &Origin, keys: &str) -> Vec<Larder> {
    let nodes: Vec<_> = ["a", "b", "c"].map(|name| node_by(url, origin, name, [keys, ""], "")).into();
    wait_for(&nodes, &["a", "b", "c"]);
    nodes.iter().for_each(|node| assert_eq!(version(node, "/page"), 0));
    nodes
}

/// Asserts that a purge by each node soon applies on all nodes.
fn assert_purges(nodes: &[Larder], pages: &Pages) {
    for node in nodes {
        let new = pages.change();
        let whole = json!({"published": true, "acknowledged": 3, "of": 3});
        let is_whole = || (purge(node, "tag=t&wait")["nodes"] == whole).then_some(());
        within(ELECTION, "a purge on three nodes", is_whole);
        nodes.iter().for_each(|node| assert_eq!(version(node, "/page"), new));
    }
}

/// Asserts that a purge applies if the master dies before its replica and one of the nodes received it, and the replica
/// takes over.
fn assert_a_lost_purge_is_obeyed(
    nodes: &[Larder],
    pages: &Pages,
    (master, replica): (&mut Engine, &Engine),
    take_over: impl FnOnce(),
) {
    nodes[2].signal(Signal::STOP);
    replica.signal(Signal::STOP);
    master.tell(&["client", "kill", "type", "replica"]);
    let new = pages.change();
    assert_eq!(purge(&nodes[0], "tag=t")["nodes"]["published"], true);
    master.kill();
    replica.signal(Signal::CONT);
    take_over();
    within(ELECTION, "the replica to take over", || replica.is_master().then_some(()));
    nodes[2].signal(Signal::CONT);
    for node in nodes {
        within(ELECTION, "the purge", || (version(node, "/page") == new).then_some(()));
        node.wait_for_log("the engine was restarted, or another one took over");
    }
}

#[test]
fn a_purge_lost_by_a_promoted_replica_is_still_obeyed() {
    let (mut master, pages) = (Engine::start(), Pages::default());
    let replica = Engine::replica(&master);
    let (sentinel, origin) = (Engine::sentinel(&master), pages.origin());
    sentinel.knows_a_replica();
    let nodes = three(&sentinel.url_of_sentinel(), &origin, LONG);
    assert_purges(&nodes, &pages);
    // The Sentinel detects the failure by itself.
    assert_a_lost_purge_is_obeyed(&nodes, &pages, (&mut master, &replica), || ());
    assert_purges(&nodes, &pages);
}

#[test]
fn a_purge_lost_by_a_replica_of_clustered_masters_is_still_obeyed() {
    let (mut masters, pages) = (Engine::cluster(), Pages::default());
    let (url, origin) = (Engine::url_of_cluster(&masters), pages.origin());
    let mut owner = Engine::owner(&mut masters);
    let replica = Engine::replica_in_cluster(&owner, &masters);
    let nodes = three(&url, &origin, LONG);
    assert_purges(&nodes, &pages);
    assert_a_lost_purge_is_obeyed(&nodes, &pages, (&mut owner, &replica), || replica.take_over());
    assert_purges(&nodes, &pages);
}

#[test]
fn a_master_without_a_replica_is_waited_for() {
    let (mut masters, pages) = (Engine::cluster(), Pages::default());
    let (url, origin) = (Engine::url_of_cluster(&masters), pages.origin());
    let mut owner = Engine::owner(&mut masters);
    let nodes = three(&url, &origin, SHORT);
    owner.kill();
    let new = pages.change();
    // Waits for the invalidation lag, after which the nodes distrust their stored responses.
    sleep(LAG);
    nodes.iter().for_each(|node| assert_eq!(version(node, "/page"), new));
    assert_eq!(purge(&nodes[0], "tag=t")["nodes"]["published"], false);
    owner.restart();
    assert_purges(&nodes, &pages);
}
