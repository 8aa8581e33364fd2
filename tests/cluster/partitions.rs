//! Lost connections: between nodes, or between a node and the engine.

use std::thread::sleep;
use std::time::Duration;

use larder_testkit::nodes::{OVER_TLS, asked, cluster, config, names_of, peer_address, wait_for};
use larder_testkit::{Engine, Larder, Origin, eventually};
use rustix::process::Signal;
use serde_json::json;

use crate::invalidations::{LAG, Pages, SHORT, purge, version};
use crate::peers::{PAGE, gated, path_of, paths};
use crate::relay::{Mode, Relay};

/// Longer than a node waits for a node without a response.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Keys with which no node drops out before a test ends.
const STAYS: &str = "drop_out = '10m'";

/// The scheme of connections between nodes, and the keys that set it.
type Way = (&'static str, &'static str);

const IN_CLEAR: Way = ("http", "");
const ENCRYPTED: Way = ("https", OVER_TLS);

/// Starts three nodes that reach each other by relays.
pub(crate) fn relayed(engine: &Engine, origin: &Origin, (scheme, keys): Way) -> (Vec<Larder>, Vec<Relay>) {
    let start = |name: &str| {
        let relay = Relay::new();
        let keys = format!("advertise = '{scheme}://{}'\n{keys}", relay.address);
        let text = config(&engine.url(), origin, name, &keys).replace("drop_out = '2s'", STAYS);
        let node = Larder::start(&text);
        relay.leads_to(peer_address(&node));
        (node, relay)
    };
    let (nodes, relays): (Vec<_>, Vec<_>) = ["a", "b", "c"].map(start).into_iter().unzip();
    wait_for(&nodes, &["a", "b", "c"]);
    (nodes, relays)
}

fn wait_until_reachable(node: &Larder, other: usize, is: bool) {
    let shown = || cluster(node)["nodes"][other]["reachable"] == is;
    eventually(&format!("reachable: {is}"), || shown().then_some(()));
}

/// Requests pages that `node` has served before, and asserts that each request is answered.
fn assert_all_answered(node: &Larder) {
    let begin = |path: String| {
        let mut client = node.client();
        client.send(&format!("GET {path}"));
        client
    };
    for mut client in paths(24).into_iter().map(begin).collect::<Vec<_>>() {
        assert_eq!(client.receive("GET").text(), "body");
    }
}

#[test]
fn requests_succeed_without_an_unreachable_owner() {
    assert_requests_succeed_without_an_unreachable_owner(IN_CLEAR);
}

#[test]
fn requests_succeed_without_an_owner_that_is_unreachable_over_tls() {
    assert_requests_succeed_without_an_unreachable_owner(ENCRYPTED);
}

fn assert_requests_succeed_without_an_unreachable_owner(way: Way) {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let (nodes, relays) = relayed(&engine, &origin, way);
    for mode in [Mode::Refuses, Mode::Silent] {
        relays[2].set(mode);
        for node in &nodes {
            let gone = purge(node, "all&hard&wait")["nodes"]["acknowledged"].clone();
            assert_eq!(gone, 3, "the engine is there");
            assert_all_answered(node);
        }
        wait_until_reachable(&nodes[0], 2, false);
        assert_eq!(names_of(&nodes[0]), ["a", "b", "c"]);
        relays[2].set(Mode::Open);
        wait_until_reachable(&nodes[0], 2, true);
        let hits = asked(&nodes[0], "hits");
        purge(&nodes[0], "all&hard&wait");
        assert_all_answered(&nodes[2]);
        assert_all_answered(&nodes[0]);
        assert!(asked(&nodes[0], "hits") > hits, "{mode:?}");
    }
}

#[test]
fn nodes_that_get_through_to_the_engine_only_serve_by_themselves() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let (nodes, relays) = relayed(&engine, &origin, IN_CLEAR);
    for mode in [Mode::Refuses, Mode::Silent] {
        relays.iter().for_each(|relay| relay.set(mode));
        nodes.iter().for_each(assert_all_answered);
        let new = purge(&nodes[1], "all&hard&wait");
        assert_eq!(new["nodes"], json!({"published": true, "acknowledged": 3, "of": 3}));
        nodes.iter().for_each(assert_all_answered);
        relays.iter().for_each(|relay| relay.set(Mode::Open));
        for node in &nodes {
            (0..3).for_each(|other| wait_until_reachable(node, other, true));
        }
    }
}

#[test]
fn a_node_cut_off_from_the_engine_validates_and_rejoins() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let relay = Relay::to(engine.address());
    let by_relay = format!("redis://{}", relay.address);
    let nodes = [("a", engine.url()), ("b", engine.url()), ("c", by_relay)]
        .map(|(name, url)| Larder::start(&config(&url, &origin, name, SHORT)));
    for mode in [Mode::Refuses, Mode::Silent] {
        wait_for(&nodes, &["a", "b", "c"]);
        // A node that has just come back may not have received the earlier purges yet.
        let whole = || (purge(&nodes[0], "tag=t&wait")["nodes"]["acknowledged"] == 3).then_some(());
        eventually("all to hear of purges", whole);
        let old = pages.change();
        purge(&nodes[0], "tag=t&wait");
        nodes.iter().for_each(|node| assert_eq!(version(node, "/page"), old));
        relay.set(mode);
        let new = pages.change();
        let told = purge(&nodes[0], "tag=t&wait&timeout=1")["nodes"].clone();
        assert_eq!(told, json!({"published": true, "acknowledged": 2, "of": 3, "missing": ["c"]}));
        // Waits for the invalidation lag, after which `c` distrusts its stored responses.
        sleep(LAG);
        assert_eq!(version(&nodes[2], "/page"), new, "{mode:?}");
        assert_eq!(purge(&nodes[2], "tag=t")["nodes"]["published"], false);
        wait_for(&nodes[..2], &["a", "b"]);
        eventually("c to be alone", || (cluster(&nodes[2])["standing"] == "alone").then_some(()));
        assert_eq!(nodes[2].ask_admin("GET /readyz").status, 200);
        relay.set(Mode::Open);
    }
    wait_for(&nodes, &["a", "b", "c"]);
}

#[test]
fn an_owner_that_hangs_is_left_alone_until_it_answers() {
    assert_a_hanging_owner_is_left_alone(IN_CLEAR);
}

#[test]
fn an_owner_that_hangs_over_tls_is_left_alone_until_it_answers() {
    assert_a_hanging_owner_is_left_alone(ENCRYPTED);
}

fn assert_a_hanging_owner_is_left_alone(way: Way) {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let (nodes, _relays) = relayed(&engine, &origin, way);
    let path = path_of(&nodes[2], &nodes[0]);
    nodes[2].signal(Signal::STOP);
    // The kernel keeps the stopped node's connections and accepts new ones, but no request is answered.
    assert_eq!(nodes[0].get(&path).status, 200);
    assert_all_answered(&nodes[0]);
    wait_until_reachable(&nodes[0], 2, false);
    let failed = asked(&nodes[0], "failed");
    assert_all_answered(&nodes[0]);
    assert_eq!(asked(&nodes[0], "failed"), failed, "it is not even asked");
    nodes[2].signal(Signal::CONT);
    wait_until_reachable(&nodes[0], 2, true);
}

#[test]
fn an_owner_that_waits_for_its_origin_does_not_hang() {
    let (engine, (gate, origin)) = (Engine::start(), gated());
    let (nodes, _relays) = relayed(&engine, &origin, IN_CLEAR);
    let path = path_of(&nodes[2], &nodes[0]);
    gate.close();
    // A retry: on a busy machine, a slow node may look like a hanging one.
    let is_waited_for = || {
        purge(&nodes[0], "all&hard&wait");
        let (before, failed) = (origin.count_of(&path), asked(&nodes[0], "failed"));
        let mut client = nodes[0].client();
        client.send(&format!("GET {path}"));
        eventually("the origin to be asked", || (origin.count_of(&path) > before).then_some(()));
        // The time after which the owner would be considered unreachable.
        sleep(PATIENCE);
        (origin.count_of(&path) == before + 1 && asked(&nodes[0], "failed") == failed).then_some(client)
    };
    let mut client = eventually("an owner that is waited for", is_waited_for);
    gate.open();
    assert_eq!(client.receive("GET").text(), "body");
}
