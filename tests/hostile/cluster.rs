//! A malicious engine or node: the cluster reveals no secret and serves no forged response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use larder_testkit::nodes::{OVER_TLS, cluster, node, peer_address, wait_for};
use larder_testkit::{Engine, Larder, Origin, eventually};
use rustix::process::Signal;

const TOKEN: &str = "token = '0123456789abcdef'";
const OTHER_TOKEN: &str = "token = 'fedcba9876543210'";
const TIER: &str = "tier = '8MiB'\ntier_deadline = '20s'\nmax_invalidation_lag = '10m'";

fn origin(body: &'static str) -> Origin {
    Origin::by(move |_| format!("200 OK\nCache-Control: max-age=3600\n\n{body}"))
}

/// Returns the number of records or messages of this kind that `node` has ignored as forged.
fn forged(node: &Larder, what: &str) -> u64 {
    cluster(node)["forged"][what].as_u64().expect("a number")
}

/// Requests `pages` pages from `node`, with a cookie; all responses come from the origin.
fn ask_with_cookies(node: &Larder, pages: usize) {
    for page in 0..pages {
        let answer = node.ask(&format!("GET /{page}\nCookie: session=secret"));
        assert_eq!((answer.status, answer.text()), (200, "ours"));
    }
}

/// Starts a server at `address` that answers 204 to each client and records the received bytes.
fn listen_in(address: SocketAddr) -> Arc<Mutex<Vec<u8>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = eventually("the address to be free", || TcpListener::bind(address).ok());
    let remembered = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let remembered = Arc::clone(&remembered);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    remembered.lock().expect("no panic").extend_from_slice(&bytes[..count]);
                    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                }
            });
        }
    });
    heard
}

#[test]
fn a_member_without_a_valid_seal_is_ignored_and_gets_no_request() {
    let (engine, ours, theirs) = (Engine::start(), origin("ours"), origin("theirs"));
    let node = node(&engine, &ours, "a", TOKEN);
    wait_for(std::slice::from_ref(&node), &["a"]);
    let record = ["id", "1", "advertise", &theirs.url(), "weight", "60000", "version", "1"];
    for seal in [&[][..], &["seal", "-"], &["seal", "0123456789abcdef0123456789abcdef"]] {
        engine.tell(&[&["hset", "{larder}:node:evil"], &record[..], seal].concat());
        engine.tell(&["sadd", "{larder}:nodes", "evil"]);
        engine.tell(&["sadd", "{larder}:draining", "a"]);
        let before = forged(&node, "members");
        eventually("a record that is ignored", || (forged(&node, "members") > before).then_some(()));
    }
    ask_with_cookies(&node, 20);
    assert_eq!((theirs.count(), ours.count()), (0, 20));
    let seen = cluster(&node);
    assert_eq!(seen["nodes"].as_array().map(Vec::len), Some(1));
    assert_eq!(seen["nodes"][0]["draining"], false, "no node said so: {seen}");
}

#[test]
fn a_server_in_place_of_a_lost_node_receives_no_secrets() {
    let heard = heard_at_the_address_of_a_node_that_is_gone(TOKEN);
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.starts_with("HEAD / HTTP/1.1\r\n"), "{heard}");
    assert!(!heard.contains("secret") && !heard.contains("0123456789abcdef\r"), "{heard}");
    assert!(!heard.contains("GET"), "{heard}");
}

#[test]
fn a_server_in_place_of_a_tls_node_receives_only_hellos() {
    let heard = heard_at_the_address_of_a_node_that_is_gone(OVER_TLS);
    // A TLS handshake record of any version, with a ClientHello.
    assert!(heard.starts_with(&[22, 3]) && heard[5] == 1, "{heard:?}");
    assert!(!String::from_utf8_lossy(&heard).contains("HTTP"), "{heard:?}");
}

/// Returns the bytes that a node sends to the address of a dead node, which another server has taken over; nodes have
/// these keys.
fn heard_at_the_address_of_a_node_that_is_gone(keys: &str) -> Vec<u8> {
    let (engine, ours) = (Engine::start(), origin("ours"));
    let mut nodes = ["a", "b"].map(|name| node(&engine, &ours, name, keys));
    wait_for(&nodes, &["a", "b"]);
    let record = engine.tell(&["--raw", "hgetall", "{larder}:node:b"]);
    let record: Vec<_> = record.lines().filter(|line| !line.is_empty()).collect();
    let address = peer_address(&nodes[1]);
    nodes[1].signal(Signal::KILL);
    nodes[1].ended();
    let heard = listen_in(address);
    // An attacker that has read the record of the dead node writes it again.
    engine.tell(&[&["hset", "{larder}:node:b"], &record[..]].concat());
    engine.tell(&["persist", "{larder}:node:b"]);
    engine.tell(&["sadd", "{larder}:nodes", "b"]);
    wait_for(&nodes[..1], &["a", "b"]);
    // While the address was nobody's, the node may have put the dead one aside for a while.
    eventually("an answer that proves nothing", || {
        ask_with_cookies(&nodes[0], 10);
        (forged(&nodes[0], "proofs") > 0).then_some(())
    });
    heard.lock().expect("no panic").clone()
}

#[test]
fn a_forged_second_tier_record_is_not_served() {
    let (engine, ours, theirs) = (Engine::start(), origin("ours"), origin("theirs"));
    let impostor = node(&engine, &theirs, "impostor", &format!("{OTHER_TOKEN}\n{TIER}"));
    eventually("an impostor that writes", || {
        impostor.ask(&format!("GET /{}", fastrand::u32(..)));
        (cluster(&impostor)["tier"]["written"].as_u64()? > 0).then_some(())
    });
    let written = || cluster(&impostor)["tier"]["written"].as_u64().expect("a number");
    let before = written();
    impostor.get("/page");
    eventually("the page to be written", || (written() > before).then_some(()));
    let node = node(&engine, &ours, "a", &format!("{TOKEN}\n{TIER}"));
    wait_for(std::slice::from_ref(&node), &["a"]);
    eventually("a node that asks the second tier", || {
        let page = format!("/{}", fastrand::u32(..));
        assert_eq!(node.get(&page).text(), "ours");
        (cluster(&node)["tier"]["asked"].as_u64()? > 0).then_some(())
    });
    assert_eq!(node.get("/page").text(), "ours");
    assert!(forged(&node, "records") > 0, "{}", cluster(&node));
}

#[test]
fn a_purge_that_no_node_ordered_is_ignored() {
    let (engine, ours) = (Engine::start(), origin("ours"));
    let node = node(&engine, &ours, "a", TOKEN);
    wait_for(std::slice::from_ref(&node), &["a"]);
    eventually("news of purges", || cluster(&node)["invalidations"]["lag_seconds"].is_number().then_some(()));
    node.get("/page");
    assert!(node.get("/page").is_hit());
    let entry = ["v", "1", "by", "b/1", "do", "remove", "all", ""];
    for seal in [&[][..], &["seal", "-"], &["seal", "00000000000000000000000000000000"]] {
        let before = forged(&node, "entries");
        engine.tell(&[&["xadd", "{larder}:invalidations", "*"], seal, &entry[..]].concat());
        eventually("an entry that is ignored", || (forged(&node, "entries") > before).then_some(()));
    }
    assert!(node.get("/page").is_hit());
    assert_eq!(cluster(&node)["invalidations"]["distrusted"], 1, "only at the start: {}", cluster(&node));
}
