//! ACME in a cluster: one node orders, any node answers the challenge, and all nodes serve the certificate.

use larder_testkit::{Engine, Larder, eventually, free_ports, site, within};

use crate::pebble::Pebble;
use crate::world::{LONG, ORDER, World, ended, fetch, leaf, wait_for};

const TOKEN: &str = "0123456789abcdef-secret";

/// Starts a node with listeners at these ports.
fn node(engine: &Engine, pebble: &Pebble, world: &World, name: &str, [file, tls]: [u16; 2]) -> Larder {
    let cluster = format!(
        "[cluster]\nengine = '{}'\nnode = '{name}'\nlisten = '127.0.0.1:0'\nheartbeat = '50ms'\ndrop_out = '2s'\ntoken = \
         '{TOKEN}'\n",
        engine.url()
    );
    let listen = format!("[reverse]\nlisten = '127.0.0.1:{file}'\nlisten_tls = '127.0.0.1:{tls}'\n");
    let keys = format!("hosts = 'site.test'\n{}", pebble.acme(""));
    world.start_by(&format!("{cluster}{listen}{}", site(&[&world.origin], &keys)))
}

fn members(node: &Larder) -> usize {
    let cluster = node.ask_admin("GET /cluster").json();
    cluster["nodes"].as_array().expect("a list").len()
}

#[test]
fn one_node_orders_whichever_is_asked_answers_and_all_serve() {
    let Some(mut pebble) = Pebble::prepare(LONG) else { return };
    let engine = Engine::start();
    let worlds = [(); 3].map(|()| World::new());
    // The authority reaches the first one alone.
    let ports = [pebble.ports, free_ports(), free_ports()];
    let start =
        |at: usize, pebble: &Pebble| node(&engine, pebble, &worlds[at], ["a", "b", "c"][at], ports[at]);
    // The nodes start concurrently, and the first node, which gets the authority's requests, joins last.
    pebble.restart();
    let root = pebble.root();
    let mut nodes: Vec<_> = [2, 1, 0].map(|at| start(at, &pebble)).into();
    nodes.reverse();
    for node in &nodes {
        eventually("three nodes", || (members(node) == 3).then_some(()));
    }
    for (node, [_, tls]) in nodes.iter().zip(ports) {
        wait_for(node, "site.test");
        assert_eq!(fetch(&root, tls, "site.test").as_deref(), Ok("a page"));
    }
    assert_eq!(nodes.iter().map(|node| ended(node, "issued")).sum::<u64>(), 1);
    let kept = leaf(&worlds[0].kept());
    assert!(worlds.iter().all(|world| leaf(&world.kept()) == kept), "one certificate");
    let accounts = worlds.iter().map(|world| std::fs::read(world.file("_account.json")).ok());
    assert!(accounts.flatten().collect::<std::collections::BTreeSet<_>>().len() == 1, "one account");
    let stored = engine.tell(&["--no-raw", "hgetall", "{larder}:acme"]);
    assert!(stored.contains("certificate ") && !stored.contains("PRIVATE KEY"), "{stored}");
    // A node that has lost all its state gets it from the other nodes.
    nodes.remove(2);
    let orders = pebble.orders();
    let forgetful = World::new();
    let new = node(&engine, &pebble, &forgetful, "c", ports[2]);
    wait_for(&new, "site.test");
    assert_eq!((leaf(&forgetful.kept()), pebble.orders()), (kept, orders));
}

#[test]
fn an_engine_that_has_lost_its_data_gets_the_certificates_again() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let mut engine = Engine::start();
    let world = World::new();
    let larder = node(&engine, &pebble, &world, "a", pebble.ports);
    wait_for(&larder, "site.test");
    engine.restart();
    within(ORDER, "the certificate on the engine", || {
        engine.tell(&["hkeys", "{larder}:acme"]).contains("certificate ").then_some(())
    });
    assert_eq!((pebble.orders(), ended(&larder, "issued")), (1, 1));
    // A node ignores a value that a client without the cluster's token wrote to the engine.
    engine.tell(&["hset", "{larder}:acme", "challenge site.test", "forged"]);
    engine.tell(&["incr", "{larder}:acme:changes"]);
    larder.wait_for_log(
        "'challenge site.test' on the engine was ignored: no node with this cluster's token wrote it",
    );
}

#[test]
fn without_the_engine_nothing_is_ordered() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let mut engine = Engine::start();
    engine.kill();
    let world = World::new();
    let larder = node(&engine, &pebble, &world, "a", pebble.ports);
    larder
        .wait_for_log("no certificate is ordered for site.test: the cluster's engine cannot grant the order");
    assert_eq!(pebble.orders(), 0);
    engine.restart();
    wait_for(&larder, "site.test");
    assert_eq!((pebble.orders(), ended(&larder, "failed")), (1, 0));
}
