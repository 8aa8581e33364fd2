//! Nodes whose machines' clocks differ.

use std::path::Path;

use larder_testkit::nodes::{config, wait_for};
use larder_testkit::{Engine, Larder, Origin, eventually};
use serde_json::json;

use crate::invalidations::{Pages, purge, version};
use crate::peers::path_of;

/// Seconds: so long that no copy is stale before a test ends, and shorter than the difference of the clocks.
const LIFETIME: u64 = 300;

/// Starts nodes whose clocks are ten minutes ahead, correct, and ten minutes behind.
fn apart(engine: &Engine, origin: &Origin) -> Vec<Larder> {
    let skewed = |(name, seconds): (&str, &str)| {
        let text = config(&engine.url(), origin, name, "");
        Larder::start_in(&text, &[("LARDER_CLOCK_SKEW", Path::new(seconds))])
    };
    let nodes: Vec<_> = [("a", "600"), ("b", "0"), ("c", "-600")].map(skewed).into();
    wait_for(&nodes, &["a", "b", "c"]);
    nodes
}

#[test]
fn nodes_whose_clocks_are_apart_are_members_and_receive_purges() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = apart(&engine, &origin);
    for node in &nodes {
        let new = pages.change();
        let whole = || {
            (purge(node, "tag=t&wait")["nodes"] == json!({"published": true, "acknowledged": 3, "of": 3}))
                .then_some(())
        };
        eventually("a purge on all nodes", whole);
        nodes.iter().for_each(|node| assert_eq!(version(node, "/page"), new));
    }
    wait_for(&nodes, &["a", "b", "c"]);
}

#[test]
fn a_copy_from_another_node_keeps_its_age_despite_clock_skew() {
    let engine = Engine::start();
    // This origin sends no `Date`, so that the node that fetches sets it.
    let answer: &'static str = "200 OK\nCache-Control: max-age=300\nAge: 7\n\nbody";
    let origin = Origin::always(answer);
    let nodes = apart(&engine, &origin);
    for (asks, owns) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let path = path_of(&nodes[owns], &nodes[asks]);
        // The second request makes the node copy the response.
        nodes[asks].get(&path);
        let copy = nodes[asks].get(&path);
        assert!(copy.cache().starts_with("hit"), "{asks} of {owns}: {copy:?}");
        let age = copy.field("age").and_then(|age| age.parse::<u64>().ok());
        assert!(age.is_some_and(|age| (7..LIFETIME).contains(&age)), "{asks} of {owns}: {copy:?}");
        assert_eq!(origin.count_of(&path), 1);
    }
}
