//! Connections between nodes over TLS, by their token or by certificates: the bytes on the wire, and the nodes that are
//! refused.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use larder_testkit::nodes::{OVER_TLS, asked, cluster, config, node, peer_address, three, wait_for};
use larder_testkit::{Authority, Client, Engine, Larder, Origin, Pair, eventually};

use crate::peers::{PAGE, paths};
use crate::relay::Relay;

const SECRETS: [&str; 3] = ["session=secret", "a body of great length", "0123456789abcdef"];

/// Returns the number of messages of this kind that `node` refused as forged.
fn forged(node: &Larder, what: &str) -> u64 {
    cluster(node)["forged"][what].as_u64().expect("a number")
}

/// Whether the other node has answered requests of `node`. Beside other work, a handshake can take longer than a node may
/// be silent; then the origin answers some requests, too.
fn is_answered(node: &Larder) -> bool {
    asked(node, "asked") > asked(node, "failed")
}

/// Requests some pages that no node has yet from each of `nodes`, with a cookie, and asserts each response.
fn ask_all(nodes: &[Larder], body: &str) {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    for path in paths(24) {
        for node in nodes {
            let answer = node.ask(&format!("GET {path}?{call}\nCookie: session=secret"));
            assert_eq!((answer.status, answer.text()), (200, body), "{path}");
        }
    }
}

/// Requests such pages until each node has answered another one. A node that is too busy for a handshake gets no
/// requests for a second.
fn ask_until_answered(nodes: &[Larder], body: &str) {
    eventually("an answer from each node", || {
        ask_all(nodes, body);
        nodes.iter().all(is_answered).then_some(())
    });
}

/// Starts two nodes that reach each other by relays, with these keys.
fn relayed(engine: &Engine, origin: &Origin, scheme: &str, keys: &str) -> (Vec<Larder>, Vec<Relay>) {
    let start = |name: &str| {
        let relay = Relay::new();
        let keys = format!("advertise = '{scheme}://{}'\n{keys}", relay.address);
        let node = node(engine, origin, name, &keys);
        relay.leads_to(peer_address(&node));
        (node, relay)
    };
    let (nodes, relays): (Vec<_>, Vec<_>) = ["a", "b"].map(start).into_iter().unzip();
    wait_for(&nodes, &["a", "b"]);
    (nodes, relays)
}

#[test]
fn cluster_traffic_over_tls_is_unreadable_to_an_eavesdropper() {
    let page = format!("200 OK\nCache-Control: max-age=60\n\n{}", SECRETS[1]);
    let (engine, origin) = (Engine::start(), Origin::by(move |_| page.clone()));
    // Without TLS, two of the three secrets are visible to the relays, so the check is effective.
    for (scheme, tls, is_read) in [("http", "off", true), ("https", "token", false)] {
        let keys = format!("prefix = '{scheme}'\ntoken = '{}'\ntls = '{tls}'", SECRETS[2]);
        let (nodes, relays) = relayed(&engine, &origin, scheme, &keys);
        ask_until_answered(&nodes, SECRETS[1]);
        for (number, secret) in SECRETS.iter().enumerate() {
            let heard: Vec<_> = relays.iter().map(|relay| relay.has_heard(secret)).collect();
            assert!(heard.iter().all(|(count, _)| *count > 1_000), "{heard:?}");
            // The token itself is never sent.
            let expected = is_read && number < 2;
            assert_eq!(heard.iter().any(|(_, is_there)| *is_there), expected, "{scheme}: {secret}");
        }
    }
}

#[test]
fn over_tls_each_key_is_fetched_once_for_all() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let nodes = three(&engine, &origin, OVER_TLS);
    let failed = || nodes.iter().map(|node| asked(node, "failed")).sum::<u64>();
    let mut round = 0;
    // A request to a node that is too busy to answer goes to the origin, too. Beside other work, that happens.
    let pages = eventually("pages that nodes requested of each other without a failure", || {
        round += 1;
        let (pages, before) =
            (paths(30).into_iter().map(|path| format!("{path}?{round}")).collect::<Vec<_>>(), failed());
        for path in &pages {
            for node in &nodes {
                assert_eq!(node.get(path).text(), "body", "{path}");
            }
        }
        (failed() == before).then_some(pages)
    });
    for path in &pages {
        assert_eq!(origin.count_of(path), 1, "{path}");
    }
    assert!(nodes.iter().all(is_answered));
    let address = cluster(&nodes[0])["nodes"][1]["advertise"].as_str().map(str::to_owned);
    assert!(address.is_some_and(|address| address.starts_with("https://")));
}

#[test]
fn clients_that_are_no_nodes_get_no_connection_and_are_counted() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let node = node(&engine, &origin, "a", OVER_TLS);
    let address = peer_address(&node);
    let answer = Client::to(address).ask("GET /\nHost: site.test");
    assert_eq!((answer.status, answer.text().contains("use https:// here")), (400, true));
    let refused = |count| (forged(&node, "connections") == count).then_some(());
    eventually("the first connection to be counted", || refused(1));
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &address.to_string()]).stdin(Stdio::null());
    assert!(!openssl.output().expect("openssl").status.success());
    eventually("the second connection to be counted", || refused(2));
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_node_with_another_token_learns_nothing_and_serves_its_own_clients() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let ours = node(&engine, &origin, "a", OVER_TLS);
    let theirs = node(&engine, &origin, "b", "token = 'fedcba9876543210'\ntls = 'token'");
    wait_for(std::slice::from_ref(&ours), &["a"]);
    wait_for(std::slice::from_ref(&theirs), &["b"]);
    let nodes = [ours, theirs];
    ask_all(&nodes, "body");
    assert!(nodes.iter().all(|node| asked(node, "asked") == 0));
    eventually("members without a valid seal to be counted", || {
        nodes.iter().all(|node| forged(node, "members") > 0).then_some(())
    });
}

#[test]
fn nodes_with_and_without_tls_exchange_purges_but_no_requests() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let encrypts = node(&engine, &origin, "a", OVER_TLS);
    let does_not = node(&engine, &origin, "b", "token = '0123456789abcdef'");
    let nodes = [encrypts, does_not];
    wait_for(&nodes, &["a", "b"]);
    ask_all(&nodes, "body");
    assert_eq!(asked(&nodes[0], "asked"), 0, "nothing leaves in clear");
    assert_eq!(asked(&nodes[1], "asked"), asked(&nodes[1], "failed"), "and nothing is answered");
    nodes[0].wait_for_log("without TLS: no request is sent to it");
    let purge = nodes[0].ask_admin("POST /purge?all&wait\nLarder-Admin: 1");
    let told = purge.json();
    assert_eq!(told["nodes"]["acknowledged"], 2, "{told}");
}

/// Returns the keys of a node that presents `pair`, and trusts certificates of `authority` for this name.
fn by_files(authority: &Authority, pair: &Pair, name: &str) -> String {
    let (ca, cert, key) = (authority.file(), pair.cert.display(), pair.key.display());
    format!("tls = 'files'\nca = '{ca}'\ncert = '{cert}'\nkey = '{key}'\ntls_name = '{name}'")
}

#[test]
fn nodes_identify_each_other_by_certificates_of_one_authority_and_one_name() {
    let (engine, origin) = (Engine::start(), Origin::always(PAGE));
    let (authority, other) = (Authority::new(), Authority::new());
    let pair = authority.pair("node", &["nodes.test"]);
    let strangers = [other.pair("node", &["nodes.test"]), authority.pair("site", &["site.test"])];
    let keys = by_files(&authority, &pair, "nodes.test");
    let nodes = ["a", "b"].map(|name| node(&engine, &origin, name, &keys));
    wait_for(&nodes, &["a", "b"]);
    ask_until_answered(&nodes, "body");
    // Without a token, each client that can write to the engine is a member: certificates decide which nodes are asked.
    let refused = || forged(&nodes[0], "proofs") + forged(&nodes[1], "proofs");
    for stranger in &strangers {
        let before = refused();
        let keys = by_files(&authority, stranger, "nodes.test");
        let stranger = Larder::start(&config(&engine.url(), &origin, "c", &keys));
        eventually("three members", || (cluster(&nodes[0])["nodes"].as_array()?.len() == 3).then_some(()));
        eventually("connections that are refused on both sides", || {
            ask_all(&nodes, "body");
            ask_all(std::slice::from_ref(&stranger), "body");
            (refused() > before && forged(&stranger, "connections") > 0).then_some(())
        });
        assert_eq!(asked(&stranger, "hits"), 0);
        drop(stranger);
        wait_for(&nodes, &["a", "b"]);
    }
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart() {
    let (engine, origin, authority) = (Engine::start(), Origin::always(PAGE), Authority::new());
    let pair = authority.expired("node");
    let keys = by_files(&authority, &pair, "nodes.test");
    let nodes = ["a", "b"].map(|name| node(&engine, &origin, name, &keys));
    wait_for(&nodes, &["a", "b"]);
    ask_all(&nodes, "body");
    assert!(nodes.iter().all(|node| asked(node, "asked") == asked(node, "failed")), "it has expired");
    let _renewed = authority.pair("node", &["nodes.test"]);
    for node in &nodes {
        let answered = || {
            ask_all(&nodes, "body");
            (asked(node, "asked") > asked(node, "failed")).then_some(())
        };
        eventually("an answer of the other node", answered);
    }
}
