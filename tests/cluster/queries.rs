//! `No-Vary-Search` in a cluster: on each node, a purge of one URL also applies to the responses of equivalent URLs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_testkit::nodes::wait_for;
use larder_testkit::{Engine, Larder, Origin, eventually};

use crate::invalidations::{LONG, node, purge, version};

#[test]
fn a_purge_of_one_url_reaches_equivalent_ones_on_all_nodes() {
    let (engine, now) = (Engine::start(), Arc::new(AtomicU64::new(0)));
    let shown = Arc::clone(&now);
    let origin = Origin::by(move |seen| match seen.method.as_str() {
        "GET" => format!(
            "200 OK\nCache-Control: max-age=3600\nNo-Vary-Search: params=(\"utm\")\n\n{}",
            shown.load(Ordering::SeqCst)
        ),
        _ => "204 No Content".to_owned(),
    });
    let version = |node: &Larder, path: &str| {
        let version = version(node, path);
        // The response is stored, and its field known, a moment after the client has received it.
        node.settle();
        version
    };
    let nodes: Vec<_> = ["a", "b", "c"].map(|name| node(&engine, &origin, name, [LONG, ""], "")).into();
    wait_for(&nodes, &["a", "b", "c"]);
    for (node, utm) in nodes.iter().flat_map(|node| (0..12).map(move |utm| (node, utm))) {
        assert_eq!(version(node, &format!("/page?id=1&utm={utm}")), 0);
    }
    // The owner of a URL fetches it, unless it has fetched an equivalent one before.
    let fetched = origin.count();
    assert!(fetched < 12, "{fetched} fetches for 12 equivalent URLs");
    for (number, how) in ["", "&hard"].into_iter().enumerate() {
        let new = now.fetch_add(1, Ordering::SeqCst) + 1;
        let told = purge(&nodes[number], &format!("url=http://site.test/page?id=1%26utm=unseen{how}&wait"));
        assert_eq!(told["nodes"]["acknowledged"], 3, "{told}");
        for (node, utm) in nodes.iter().flat_map(|node| (0..12).map(move |utm| (node, utm))) {
            assert_eq!(version(node, &format!("/page?id=1&utm={utm}")), new, "{how}, utm={utm}");
        }
    }
    let new = now.fetch_add(1, Ordering::SeqCst) + 1;
    nodes[2].ask("DELETE /page?id=1");
    for (node, utm) in nodes.iter().flat_map(|node| (0..12).map(move |utm| (node, utm))) {
        let is_new = || (version(node, &format!("/page?utm={utm}&id=1")) == new).then_some(());
        eventually("a change that is heard of", is_new);
    }
}
