//! Membership in the cluster.

use larder_testkit::nodes::{cluster, config, names_of, node, node_by, three, wait_for};
use larder_testkit::{Authority, Engine, Larder, Origin, eventually};
use rustix::process::Signal;

const PAGE: &str = "200 OK\nCache-Control: max-age=60\n\nbody";

/// Waits until a node reports this standing.
fn wait_to_be(node: &Larder, standing: &str) {
    eventually(standing, || (cluster(node)["standing"] == standing).then_some(()));
}

#[test]
fn nodes_join_and_leave_and_killed_nodes_are_removed() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let mut nodes = three(&engine, &origin, "");
    assert_eq!(cluster(&nodes[0])["nodes"][1]["share"].as_f64().map(|share| share > 0.3), Some(true));

    let mut leaves = nodes.pop().expect("three");
    leaves.signal(Signal::TERM);
    leaves.ended();
    wait_for(&nodes, &["a", "b"]);

    let mut dies = nodes.pop().expect("two");
    dies.signal(Signal::KILL);
    dies.ended();
    wait_for(&nodes, &["a"]);

    nodes.push(node(&engine, &origin, "b", ""));
    wait_for(&nodes, &["a", "b"]);
}

#[test]
fn a_node_keeps_its_place_and_its_trust_over_an_upgrade() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let mut nodes = three(&engine, &origin, "");
    let distrusted = |node: &Larder| cluster(node)["invalidations"]["distrusted"].clone();
    let before = cluster(&nodes[1])["nodes"].clone();
    eventually("a position", || cluster(&nodes[0])["invalidations"]["position"].is_string().then_some(()));
    nodes[0].upgrade(&[]).expect("an upgrade");
    nodes[0].wait_for_predecessor();
    assert_eq!(names_of(&nodes[1]), ["a", "b", "c"], "no node has noticed");
    assert_eq!(cluster(&nodes[1])["nodes"][0]["id"], before[0]["id"]);
    wait_to_be(&nodes[0], "member");
    assert_eq!(distrusted(&nodes[0]), 0, "no purge was missed");
    assert_eq!(nodes[0].get("/").status, 200);
}

#[test]
fn without_the_engine_each_serves_by_itself_and_comes_back() {
    let (mut engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, "");
    engine.kill();
    for node in &nodes {
        wait_to_be(node, "alone");
        assert_eq!((node.get("/alone").status, node.ask_admin("GET /readyz").status), (200, 200));
    }
    assert_eq!(origin.count_of("/alone"), nodes.len());
    engine.restart();
    wait_for(&nodes, &["a", "b", "c"]);
}

#[test]
fn an_engine_that_hangs_is_as_good_as_none() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, "");
    engine.signal(Signal::STOP);
    for node in &nodes {
        wait_to_be(node, "alone");
    }
    assert_eq!(nodes[0].get("/").status, 200);
    engine.signal(Signal::CONT);
    wait_for(&nodes, &["a", "b", "c"]);
}

#[test]
fn a_node_starts_without_an_engine() {
    let (mut engine, origin) = (Engine::start(), Origin::always(PAGE));
    engine.kill();
    let nodes = [node(&engine, &origin, "a", "")];
    wait_to_be(&nodes[0], "alone");
    assert_eq!(nodes[0].get("/").status, 200);
    engine.restart();
    wait_for(&nodes, &["a"]);
}

#[test]
fn nodes_find_each_other_by_a_cluster_of_masters() {
    let (masters, origin) = (Engine::cluster(), Origin::always(PAGE));
    let addresses: Vec<_> = masters.iter().map(|master| master.address().to_string()).collect();
    let url = format!("redis+cluster://{}", addresses.join(","));
    let nodes = ["a", "b"].map(|name| node_by(&url, &origin, name, ""));
    wait_for(&nodes, &["a", "b"]);
}

#[test]
fn nodes_find_each_other_by_a_sentinel() {
    let (master, origin) = (Engine::start(), Origin::always(PAGE));
    let sentinel = Engine::sentinel(&master);
    let url = format!("redis+sentinel://{}/larder", sentinel.address());
    let nodes = ["a", "b"].map(|name| node_by(&url, &origin, name, ""));
    wait_for(&nodes, &["a", "b"]);
    assert_eq!(master.tell(&["SMEMBERS", "{larder}:nodes"]).lines().count(), 2);
}

#[test]
fn nodes_find_each_other_over_tls_with_a_password() {
    let ((_engine, url, pair), origin) = (Engine::encrypted(), Origin::always(PAGE));
    let trusted = [("SSL_CERT_FILE", pair.cert.as_path())];
    let nodes = ["a", "b"].map(|name| Larder::start_in(&config(&url, &origin, name, ""), &trusted));
    wait_for(&nodes, &["a", "b"]);
    let shown = cluster(&nodes[0])["engine"]["place"].as_str().expect("a place").to_owned();
    assert!(!shown.contains("sesame"), "{shown}");

    let stranger = node_by(&url, &origin, "c", "");
    wait_to_be(&stranger, "alone");
    assert_eq!(names_of(&nodes[0]), ["a", "b"]);
}

#[test]
fn an_engine_that_asks_for_certificates_is_shown_one() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let (server, client) = (authority.pair("engine", &["localhost"]), authority.pair("client", &[]));
    let (_engine, url) = Engine::mutual(&authority.file(), &server.cert, &server.key);
    let ca = format!("engine_ca = '{}'", authority.file());
    let keys =
        format!("{ca}\nengine_cert = '{}'\nengine_key = '{}'", client.cert.display(), client.key.display());
    let nodes = ["a", "b"].map(|name| node_by(&url, &origin, name, &keys));
    wait_for(&nodes, &["a", "b"]);
    for keys in ["", &ca] {
        let stranger = node_by(&url, &origin, "c", keys);
        wait_to_be(&stranger, "alone");
        assert_eq!(stranger.get("/page").status, 200);
    }
    assert_eq!(names_of(&nodes[0]), ["a", "b"]);
}

#[test]
fn a_name_is_for_one_process() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let mut first = node(&engine, &origin, "a", "");
    wait_to_be(&first, "member");
    let second = node(&engine, &origin, "a", "");
    wait_to_be(&second, "name taken");
    second.wait_for_log("another process has the name a");
    assert_eq!((second.get("/").status, second.ask_admin("GET /readyz").status), (200, 503));
    assert_eq!(cluster(&first)["standing"], "member");
    first.signal(Signal::TERM);
    first.ended();
    wait_to_be(&second, "member");
}

#[test]
fn a_drained_node_owns_nothing_and_serves() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, "");
    let change = |path: &str| nodes[0].ask_admin(&format!("POST {path}\nLarder-Admin: 1"));
    let share = |node: &Larder| cluster(node)["nodes"][2]["share"].as_f64();
    assert_eq!(change("/cluster/drain?node=c").status, 200);
    for node in &nodes {
        eventually("c to be drained", || (share(node) == Some(0.0)).then_some(()));
    }
    assert_eq!((nodes[2].get("/").status, nodes[2].ask_admin("GET /readyz").status), (200, 503));
    assert_eq!(change("/cluster/resume?node=c").status, 200);
    eventually("c to be back", || (share(&nodes[1]) > Some(0.3)).then_some(()));
    for path in ["/cluster/drain?node=d", "/cluster/resume?node=d"] {
        let refused = change(path);
        let told = (400, "no node is called 'd'; there are: a, b, c\n");
        assert_eq!((refused.status, refused.text()), told, "{path}");
    }
    assert_eq!(names_of(&nodes[0]).len(), 3);
}

#[test]
fn a_node_tells_that_the_engine_has_no_memory_for_it() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    engine.tell(&["config", "set", "maxmemory", "1"]);
    let node = node(&engine, &origin, "a", "");
    wait_to_be(&node, "alone");
    let seen = cluster(&node);
    assert_eq!(
        (&seen["engine"]["up"], seen["trouble"].as_str()),
        (&true.into(), Some("it has no memory left: raise its maxmemory, or let it evict keys"))
    );
    node.wait_for_log("is now: alone (it has no memory left");
    engine.tell(&["config", "set", "maxmemory", "0"]);
    wait_to_be(&node, "member");
    assert_eq!(cluster(&node).get("trouble"), None);
}
