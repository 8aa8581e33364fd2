//! A purge by one node applies on all nodes, even if nodes are stopped, cut off or restarted meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, UNIX_EPOCH};

use larder_testkit::nodes::{cluster, peer_address, wait_for};
use larder_testkit::{Answer, Client, Engine, Gate, Larder, Origin, eventually, site};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::relay::{Mode, Relay};

/// A lag short enough for a test to wait for it, and long enough for a busy machine to poll in time.
pub(crate) const LAG: Duration = Duration::from_millis(1_500);
pub(crate) const SHORT: &str = "max_invalidation_lag = '1500ms'";
/// A lag that does not end during a test.
pub(crate) const LONG: &str = "max_invalidation_lag = '10m'";

/// Pages that share one version.
#[derive(Clone, Default)]
pub(crate) struct Pages(Arc<AtomicU64>);

impl Pages {
    pub(crate) fn origin(&self) -> Origin {
        let version = Arc::clone(&self.0);
        Origin::by(move |seen| {
            let tag = format!("\"{}\"", version.load(Ordering::SeqCst));
            let known = seen.field("if-none-match") == Some(&tag);
            match seen.method.as_str() {
                "GET" if known => format!("304 Not Modified\nETag: {tag}\nCache-Control: max-age=3600"),
                "GET" => format!(
                    "200 OK\nETag: {tag}\nCache-Control: max-age=3600\nCache-Tag: t\nCache-Groups: \"g\"\n\n{tag}"
                ),
                "DELETE" => "204 No Content\nCache-Group-Invalidation: \"g\"".to_owned(),
                _ => "204 No Content".to_owned(),
            }
        })
    }

    pub(crate) fn change(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// Returns the version of a page from `node`.
pub(crate) fn version(node: &Larder, path: &str) -> u64 {
    version_in(node.get(path).text())
}

pub(crate) fn version_in(text: &str) -> u64 {
    text.trim_matches('"').parse().unwrap_or_else(|_| panic!("no version: {text}"))
}

/// Starts a node with these keys of `[cluster]`, these keys of its site, and other tables.
pub(crate) fn node(engine: &Engine, origin: &Origin, name: &str, keys: [&str; 2], tables: &str) -> Larder {
    node_by(&engine.url(), origin, name, keys, tables)
}

/// Starts a node like [`node`], in the cluster of the engine at `url`.
pub(crate) fn node_by(url: &str, origin: &Origin, name: &str, keys: [&str; 2], tables: &str) -> Larder {
    let [cluster, site_keys] = keys;
    Larder::start(&format!(
        "{tables}\n[cluster]\nengine = '{url}'\nnode = '{name}'\nlisten = '127.0.0.1:0'\nheartbeat = '50ms'\n\
         drop_out = '30s'\n{cluster}\n{}",
        site(&[origin], site_keys)
    ))
}

/// Starts three nodes that have `/page` stored, and see each other.
fn filled(engine: &Engine, origin: &Origin, keys: &str) -> Vec<Larder> {
    let nodes: Vec<_> = ["a", "b", "c"].map(|name| node(engine, origin, name, [keys, ""], "")).into();
    wait_for(&nodes, &["a", "b", "c"]);
    nodes.iter().for_each(|node| assert_eq!(version(node, "/page"), 0));
    nodes
}

/// Returns the response of `node` to a purge.
pub(crate) fn purge(node: &Larder, query: &str) -> Value {
    node.ask_admin(&format!("POST /purge?{query}\nLarder-Admin: 1")).json()
}

/// Returns a count of invalidations from `/cluster` of `node`.
fn count(node: &Larder, name: &str) -> u64 {
    cluster(node)["invalidations"][name].as_u64().expect("a number")
}

/// Executes a command on the engine.
pub(crate) fn command(engine: &Engine, line: &str) {
    let address = engine.url();
    let address = address.strip_prefix("redis://").expect("one engine");
    let mut stream = TcpStream::connect(address).expect("it runs");
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("it reads");
    let mut answer = [0; 64];
    let read = stream.read(&mut answer).expect("it answers");
    assert!(!answer[..read].starts_with(b"-"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn the_response_to_a_change_is_found_again_on_its_own_node() {
    let origin = Origin::by(|seen| {
        format!("200 OK\nContent-Location: /x\nCache-Control: max-age=60\nCache-Tag: t\n\n{}", seen.method)
    });
    let by_tenant = "store_post = true\n[[site.rule]]\nkey_fields = 'X-Tenant'\n";
    for keys in ["store_post = true", by_tenant] {
        let engine = Engine::start();
        let node = node(&engine, &origin, "a", [LONG, keys], "");
        wait_for(std::slice::from_ref(&node), &["a"]);
        for (purged, text) in [("tag=other", "POST"), ("tag=t", "GET")] {
            assert_eq!(node.ask("POST /x\n\nform").text(), "POST");
            // Later in the stream than the change.
            purge(&node, &format!("{purged}&hard&wait"));
            assert_eq!(node.get("/x").text(), text, "{keys} {purged}");
        }
    }
}

#[test]
fn a_change_or_purge_reaches_the_tenants_at_all_nodes() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let keys = [SHORT, "purge_from = ['127.0.0.1']\n[[site.rule]]\nkey_fields = 'X-Tenant'"];
    let nodes: Vec<_> = ["a", "b"].map(|name| node(&engine, &origin, name, keys, "")).into();
    wait_for(&nodes, &["a", "b"]);
    let shown =
        |node: &Larder, tenant: &str| version_in(node.ask(&format!("GET /page\nX-Tenant: {tenant}")).text());
    for change in ["POST /page\nX-Tenant: 9", "PURGE /page\nLarder-Purge: hard"] {
        let tenants = ["1", "2", "3"];
        nodes.iter().for_each(|node| tenants.iter().for_each(|tenant| _ = shown(node, tenant)));
        let now = pages.change();
        nodes[0].ask(change);
        for node in &nodes {
            for tenant in tenants {
                eventually("the new page", || (shown(node, tenant) == now).then_some(()));
            }
        }
    }
}

#[test]
fn an_acknowledged_purge_is_in_force_on_all_nodes() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = filled(&engine, &origin, LONG);
    let url = format!("http://{}/page", nodes[0].address());
    for (number, query) in [
        format!("url={url}"),
        format!("url={url}&hard"),
        format!("prefix=http://{}/pa", nodes[0].address()),
        format!("host={}", nodes[0].address()),
        format!("group=g&host={}", nodes[0].address()),
        "tag=t".to_owned(),
        "tag=x&tag=t&hard".to_owned(),
        "all&hard".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let new = pages.change();
        let host = format!("GET /page\nHost: {}", nodes[0].address());
        for node in &nodes {
            let old = version_in(node.ask(&host).text());
            assert!(number == 0 || old == new - 1, "{query}: {old}");
        }
        let nodes_told = purge(&nodes[number % 3], &format!("{query}&wait"))["nodes"].clone();
        assert_eq!(nodes_told, json!({"published": true, "acknowledged": 3, "of": 3}), "{query}");
        for node in &nodes {
            assert_eq!(version_in(node.ask(&host).text()), new, "{query}");
        }
    }
}

#[test]
fn an_unsafe_request_invalidates_on_every_node() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = filled(&engine, &origin, LONG);
    let host = nodes[0].address();
    for request in ["POST /page", "DELETE /other"] {
        nodes.iter().for_each(|node| drop(node.ask(&format!("GET /page\nHost: {host}"))));
        let new = pages.change();
        nodes[0].ask(&format!("{request}\nHost: {host}"));
        for node in &nodes {
            let is_new =
                || (version_in(node.ask(&format!("GET /page\nHost: {host}")).text()) == new).then_some(());
            eventually(request, is_new);
        }
    }
}

#[test]
fn a_node_that_slept_answers_with_nothing_that_was_purged_meanwhile() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = filled(&engine, &origin, SHORT);
    let mut client = nodes[2].client();
    assert_eq!(client.ask("GET /page").status, 200);
    nodes[2].signal(Signal::STOP);
    let new = pages.change();
    let told = purge(&nodes[0], "tag=t&wait&timeout=5")["nodes"].clone();
    assert_eq!(told, json!({"published": true, "acknowledged": 2, "of": 3, "missing": ["c"]}));
    // Sleeps for the lag, so that the stopped node distrusts its stored responses when it continues.
    sleep(LAG);
    client.send("GET /page");
    nodes[2].signal(Signal::CONT);
    assert_eq!(version_in(client.receive("GET").text()), new);
}

#[test]
fn without_the_engine_what_is_stored_is_validated_after_the_lag() {
    let (mut engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = filled(&engine, &origin, SHORT);
    let faithful = node(
        &engine,
        &origin,
        "d",
        [&format!("{SHORT}\nwithout_engine = 'serve'\nprefix = 'other'"), ""],
        "",
    );
    assert_eq!(version(&faithful, "/mine"), 0);
    engine.kill();
    let new = pages.change();
    sleep(LAG);
    for node in &nodes {
        assert_eq!(version(node, "/page"), new);
        node.wait_for_log("purges of other nodes do not arrive");
    }
    assert_eq!(version(&faithful, "/mine"), 0);
    let told = purge(&nodes[0], "tag=t&wait")["nodes"].clone();
    assert_eq!(told["published"], false, "{told}");
    assert!(matches!(told["trouble"].as_str(), Some("connection refused" | "broken pipe")), "{told}");
}

#[test]
fn a_purge_that_cannot_be_published_is_published_later() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = filled(&engine, &origin, LONG);
    engine.signal(Signal::STOP);
    let new = pages.change();
    assert_eq!(purge(&nodes[0], "tag=t")["nodes"]["published"], false);
    assert_eq!(count(&nodes[0], "waiting"), 1);
    engine.signal(Signal::CONT);
    for node in &nodes {
        eventually("the purge", || (version(node, "/page") == new).then_some(()));
    }
    eventually("nothing to wait", || (count(&nodes[0], "waiting") == 0).then_some(()));
}

#[test]
fn an_engine_that_has_lost_its_data_makes_nodes_validate_everything() {
    let (mut engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = filled(&engine, &origin, LONG);
    let before: Vec<_> = nodes.iter().map(|node| count(node, "distrusted")).collect();
    let new = pages.change();
    engine.restart();
    for (node, before) in nodes.iter().zip(before) {
        eventually("distrust", || (count(node, "distrusted") > before).then_some(()));
        assert_eq!(version(node, "/page"), new);
        node.wait_for_log("the engine was restarted");
    }
    purge(&nodes[0], "tag=t");
    let new = pages.change();
    // The engine has also lost the members, until their next heartbeats.
    eventually("all to obey", || {
        let told = purge(&nodes[1], "tag=t&wait")["nodes"].clone();
        (told == json!({"published": true, "acknowledged": 3, "of": 3})).then_some(())
    });
    nodes.iter().for_each(|node| assert_eq!(version(node, "/page"), new));
}

#[test]
fn a_stream_that_was_trimmed_past_a_node_makes_it_validate_everything() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = filled(&engine, &origin, LONG);
    nodes[2].signal(Signal::STOP);
    purge(&nodes[0], "tag=t");
    purge(&nodes[0], "tag=other");
    command(&engine, "XTRIM {larder}:invalidations MAXLEN 1");
    let new = pages.change();
    nodes[2].signal(Signal::CONT);
    nodes[2].wait_for_log("it was trimmed, or lost");
    eventually("validation", || (version(&nodes[2], "/page") == new).then_some(()));
}

#[test]
fn an_entry_of_a_later_version_makes_nodes_validate_everything() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let nodes = filled(&engine, &origin, LONG);
    let new = pages.change();
    command(&engine, "XADD {larder}:invalidations * v 2 by z/1 do sing");
    for node in &nodes {
        eventually("validation", || (version(node, "/page") == new).then_some(()));
        node.wait_for_log("an entry is of another version");
    }
}

#[test]
fn a_node_refuses_peer_requests_with_a_position_beyond_its_own() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let node = node(&engine, &origin, "a", [LONG, ""], "");
    wait_for(std::slice::from_ref(&node), &["a"]);
    let ask = |place: &str| {
        let line = format!("GET http://site.test/page\nLarder-Peer: reverse 192.0.2.1:1 - {place}");
        Client::to(peer_address(&node)).ask(&line).status
    };
    assert_eq!((ask("-"), origin.count()), (200, 1));
    for place in ["engine/1-0", "nonsense"] {
        assert_eq!((ask(place), origin.count()), (503, 1), "{place}");
    }
}

/// Waits for the next second of the clock, because the age of entries on a disk has the precision of a second; the
/// margin allows for coarse clocks.
fn next_second() {
    let now = || UNIX_EPOCH.elapsed().expect("later");
    let next = Duration::from_secs(now().as_secs() + 1) + Duration::from_millis(50);
    eventually("the next second", || (now() > next).then_some(()));
}

/// Starts a node in the cluster of the engine at `url`, with its disk in `directory`.
fn with_disk(url: &str, origin: &Origin, directory: &Path) -> Larder {
    let disk = format!("[[disk]]\npath = '{}'\nsize = '64MiB'", directory.display());
    node_by(url, origin, "d", [LONG, ""], &disk)
}

#[test]
fn a_node_that_returns_receives_the_purges_of_the_meantime() {
    let (mut engine, pages) = (Engine::start(), Pages::default());
    let (origin, directory) = (pages.origin(), tempfile::tempdir().expect("a directory"));
    let other = node(&engine, &origin, "a", [LONG, ""], "");
    let mut node = with_disk(&engine.url(), &origin, directory.path());
    let host = "Host: site.test";
    // The first start distrusts entries on the disk of the same second.
    next_second();
    for path in ["/kept", "/purged"] {
        assert_eq!(node.ask(&format!("GET {path}\n{host}")).text(), "\"0\"");
    }
    node.signal(Signal::TERM);
    node.ended();
    let new = pages.change();
    purge(&other, "url=http://site.test/purged");
    let mut node = with_disk(&engine.url(), &origin, directory.path());
    assert_eq!(node.ask(&format!("GET /purged\n{host}")).text(), format!("\"{new}\""));
    assert_eq!(node.ask(&format!("GET /kept\n{host}")).text(), "\"0\"");

    node.signal(Signal::TERM);
    node.ended();
    engine.restart();
    let node = with_disk(&engine.url(), &origin, directory.path());
    assert_eq!(node.ask(&format!("GET /kept\n{host}")).text(), format!("\"{new}\""));
}

#[test]
fn gateways_of_one_backend_receive_the_changes_through_each_other() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let origin = pages.origin();
    let gateways = ["a", "b"].map(|name| {
        node(&engine, &origin, name, [LONG, "name = 'api'\nrole = 'tags'\ntag_doubt = '0s'"], "")
    });
    for (through, target) in [(0, "/page/1"), (1, "/page/1"), (0, "/page/../x")] {
        for gateway in &gateways {
            gateway.get("/page/1");
            let tag = gateway.get("/page/1").text().to_owned();
            let shown = gateway.ask(&format!("GET /page/1\nIf-None-Match: {tag}"));
            assert_eq!(shown.cache(), "hit; detail=tag-current");
        }
        let old = version(&gateways[0], "/page/1");
        let new = pages.change();
        gateways[through].ask(&format!("PUT {target}"));
        for gateway in &gateways {
            let shown = || gateway.ask(&format!("GET /page/1\nIf-None-Match: \"{old}\""));
            eventually("the change", || (shown().text() == format!("\"{new}\"")).then_some(()));
        }
    }
}

#[test]
fn gateways_receive_an_unanswered_try_before_the_next_one_ends() {
    let (engine, pages, gate) = (Engine::start(), Pages::default(), Gate::default());
    let held = gate.clone();
    let origin = Origin::answering(move |seen| {
        let version = pages.0.load(Ordering::SeqCst);
        match seen.method.as_str() {
            "GET" => {
                Answer::with_body(&format!("200 OK\nETag: \"{version}\""), version.to_string().as_bytes())
            }
            _ if version == 0 => {
                pages.change();
                Answer::default().then_close()
            }
            _ => {
                held.pass();
                Answer::raw("HTTP/1.1 204 No Content\r\n\r\n")
            }
        }
    });
    let gateways = ["a", "b"].map(|name| {
        let keys = "name = 'api'\nrole = 'tags'\ntag_doubt = '0s'\nretries = 1";
        node(&engine, &origin, name, [LONG, keys], "")
    });
    wait_for(&gateways, &["a", "b"]);
    let shown = || gateways[1].ask("GET /page/1\nIf-None-Match: \"0\"");
    gateways[1].get("/page/1");
    assert_eq!(shown().cache(), "hit; detail=tag-current");
    let mut writer = gateways[0].client();
    writer.send("DELETE /page/1");
    eventually("the change", || (shown().text() == "1").then_some(()));
    gate.open();
    assert_eq!(writer.receive("DELETE").status, 204);
}

/// Starts node `a`, and node `d` with a disk in `directory`, a relay to the engine, and no keys that it owns.
fn with_a_way(engine: &Engine, origin: &Origin, directory: &Path) -> (Larder, Larder, Relay) {
    let relay = Relay::to(engine.address());
    let other = node(engine, origin, "a", [LONG, ""], "");
    let node = with_disk(&format!("redis://{}", relay.address), origin, directory);
    wait_for(std::slice::from_ref(&other), &["a", "d"]);
    assert_eq!(other.ask_admin("POST /cluster/drain?node=d\nLarder-Admin: 1").status, 200);
    let drains = || (cluster(&other)["nodes"][1]["draining"] == true).then_some(());
    eventually("d to drain", drains);
    assert_eq!(version(&other, "/page"), 0);
    (other, node, relay)
}

#[test]
fn a_stopping_node_publishes_its_waiting_purges_before_it_ends() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let (origin, directory) = (pages.origin(), tempfile::tempdir().expect("a directory"));
    let (other, mut node, relay) = with_a_way(&engine, &origin, directory.path());
    let before = count(&other, "distrusted");
    relay.set(Mode::Refuses);
    let new = pages.change();
    assert_eq!(purge(&node, "tag=t")["nodes"]["published"], false);
    node.signal(Signal::TERM);
    relay.set(Mode::Open);
    node.ended();
    eventually("the purge", || (version(&other, "/page") == new).then_some(()));
    assert_eq!(count(&other, "distrusted"), before, "it knows what was purged");
    assert!(!directory.path().join("unpublished").exists());
}

#[test]
fn unpublished_purges_of_a_killed_node_make_other_nodes_validate_everything() {
    let (engine, pages) = (Engine::start(), Pages::default());
    let (origin, directory) = (pages.origin(), tempfile::tempdir().expect("a directory"));
    let (other, mut node, relay) = with_a_way(&engine, &origin, directory.path());
    relay.set(Mode::Refuses);
    let new = pages.change();
    assert_eq!(purge(&node, "tag=t")["nodes"]["published"], false);
    node.signal(Signal::KILL);
    node.ended();
    assert_eq!(version(&other, "/page"), 0, "it cannot know");
    let back = with_disk(&engine.url(), &origin, directory.path());
    other.wait_for_log("could not publish all its purges");
    eventually("the purge", || (version(&other, "/page") == new).then_some(()));
    eventually("nothing to wait", || (count(&back, "waiting") == 0).then_some(()));
    eventually("no note", || (!directory.path().join("unpublished").exists()).then_some(()));
}
