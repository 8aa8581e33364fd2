//! Reads of clients after their own changes: a client that stays with a node reads no version older than the ones that
//! the node has acknowledged, and a client that moves to another node does not either if it sends the position that it
//! was given.
//!
//! The origin counts the versions of each page, so that a client knows the versions that it must not read any more. The
//! relays to the engine are slowed down at random, so that nodes receive changes at different times; `LARDER_SEED`
//! repeats the choices. Each run also shows that the checks can fail: by a node that asks without the position of its
//! own changes, and by clients that move without their position.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use larder_cluster::Seal;
use larder_cluster::seal::MessageKind;
use larder_testkit::nodes::{cluster, peer_address, wait_for};
use larder_testkit::{Client, Engine, Larder, Origin, Response, eventually, seed};

use crate::invalidations::{LONG, node_by, version_in};
use crate::relay::{Mode, Relay};

/// Number of pages.
const PAGES: usize = 12;
const NAMES: [&str; 3] = ["a", "b", "c"];
const TOKEN: &str = "0123456789abcdef";
/// The number of changes that are followed by a read.
const TRIES: usize = 200;
/// A position field of an origin.
const FOREIGN: &str = "Larder-Position: 9-9.0000000000000000.-";

/// The version of each page at the origin.
#[derive(Clone)]
struct Pages(Arc<[AtomicU64; PAGES]>);

impl Pages {
    fn new() -> Self {
        Self(Arc::new([const { AtomicU64::new(0) }; PAGES]))
    }

    fn origin(&self) -> Origin {
        let pages = self.clone();
        Origin::by(move |seen| {
            let page: usize = seen.target[1..].parse().expect("a number");
            let version = &pages.0[page];
            match seen.method.as_str() {
                _ if seen.field("larder-position").is_some() => "500 Forwarded".to_owned(),
                "GET" => format!(
                    "200 OK\nCache-Control: max-age=3600\nCache-Tag: t{page}\n{FOREIGN}\n\n{}",
                    version.load(Ordering::SeqCst)
                ),
                _ => {
                    version.fetch_add(1, Ordering::SeqCst);
                    format!("204 No Content\n{FOREIGN}")
                }
            }
        })
    }

    fn version(&self, page: usize) -> u64 {
        self.0[page].load(Ordering::SeqCst)
    }
}

/// Three nodes, each with its own relay to the engine, and one client that talks to all of them.
struct Nodes {
    pages: Pages,
    ways: Vec<Relay>,
    nodes: Vec<Larder>,
    clients: Vec<Client>,
    rng: Rng,
    _origin: Origin,
    _engine: Engine,
}

/// An acknowledged change.
struct Changed {
    page: usize,
    version: u64,
    position: Option<String>,
}

impl Nodes {
    fn start() -> Self {
        let seed = seed();
        let (engine, pages) = (Engine::start(), Pages::new());
        let origin = pages.origin();
        let ways: Vec<_> = NAMES.iter().map(|_| Relay::to(engine.address())).collect();
        let start = |(name, way): (&&str, &Relay)| {
            let url = format!("redis://{}", way.address);
            node_by(&url, &origin, name, [LONG, "purge_from = ['127.0.0.1']"], "")
        };
        let nodes: Vec<_> = NAMES.iter().zip(&ways).map(start).collect();
        wait_for(&nodes, &NAMES);
        let hears = |node: &Larder| cluster(node)["invalidations"]["lag_seconds"].is_number();
        eventually("nodes that hear of purges", || nodes.iter().all(hears).then_some(()));
        let clients = nodes.iter().map(Larder::client).collect();
        Self { pages, ways, nodes, clients, rng: Rng::with_seed(seed), _origin: origin, _engine: engine }
    }

    /// Starts the nodes such that `b` owns all pages.
    fn start_with_one_owner() -> Self {
        let nodes = Self::start();
        for name in ["a", "c"] {
            let drain = format!("POST /cluster/drain?node={name}\nLarder-Admin: 1");
            assert_eq!(nodes.nodes[0].ask_admin(&drain).status, 200);
        }
        let drains = |node: &Larder| {
            let seen = cluster(node);
            seen["nodes"][0]["draining"] == true && seen["nodes"][2]["draining"] == true
        };
        eventually("a and c to drain", || nodes.nodes.iter().all(drains).then_some(()));
        nodes
    }

    fn ask(&mut self, node: usize, line: &str, more: &str) -> Response {
        let response = self.clients[node].ask(&format!("{line}\nHost: site.test{more}"));
        assert!(matches!(response.status, 200 | 204), "{line} by {}: {response:?}", NAMES[node]);
        response
    }

    /// Returns the version of a page that a client of `node` gets with this position.
    fn read(&mut self, node: usize, page: usize, position: Option<&str>) -> u64 {
        let more = position.map(|position| format!("\nLarder-Position: {position}")).unwrap_or_default();
        let response = self.ask(node, &format!("GET /{page}"), &more);
        assert_eq!(
            response.field("larder-position"),
            None,
            "what an origin says of positions is not passed on"
        );
        version_in(response.text())
    }

    /// Delays the purges to each node by a random time of up to 3 ms.
    fn slow_down(&mut self) {
        for way in &self.ways {
            way.delay(Duration::from_millis(self.rng.u64(..4)));
        }
    }

    /// Changes a page through `node`, by a request or by a purge, after all nodes have read it.
    fn change(&mut self, node: usize, page: usize) -> Changed {
        (0..NAMES.len()).for_each(|node| _ = self.read(node, page, None));
        let url = format!("url=http://site.test/{page}");
        let answer = match self.rng.u8(..6) {
            0..=2 => self.ask(node, &format!("PUT /{page}"), "\nContent-Length: 0"),
            3 => {
                self.pages.0[page].fetch_add(1, Ordering::SeqCst);
                self.ask(node, &format!("PURGE /{page}"), "")
            }
            kind => {
                self.pages.0[page].fetch_add(1, Ordering::SeqCst);
                let what = if kind == 4 { url } else { format!("tag=t{page}&hard") };
                self.nodes[node].ask_admin(&format!("POST /purge?{what}\nLarder-Admin: 1"))
            }
        };
        assert!(matches!(answer.status, 200 | 204), "{answer:?}");
        let position = answer.field("larder-position").map(str::to_owned);
        Changed { page, version: self.pages.version(page), position }
    }

    fn some(&mut self) -> (usize, usize) {
        (self.rng.usize(..NAMES.len()), self.rng.usize(..PAGES))
    }

    /// Returns the oldest version of a page in the other nodes' responses to a peer request without a position.
    fn read_without_floor(&self, node: usize, page: usize) -> u64 {
        let others = (0..NAMES.len()).filter(|other| *other != node);
        let read = others.map(|other| {
            let line = format!("GET http://site.test/{page}\nLarder-Peer: reverse 192.0.2.1:1 - -");
            version_in(Client::to(peer_address(&self.nodes[other])).ask(&line).text())
        });
        read.min().expect("two others")
    }
}

/// Whether a node, the one that the client asked or the owner, has answered with a stored response.
fn is_hit(response: &Response) -> bool {
    let is_status = |name: &str| name.eq_ignore_ascii_case("cache-status");
    response.fields.iter().any(|(name, value)| is_status(name) && value.contains("; hit"))
}

#[test]
fn a_client_that_stays_with_a_node_reads_its_own_changes() {
    let mut nodes = Nodes::start();
    for number in 0..TRIES {
        let (node, page) = nodes.some();
        nodes.slow_down();
        let changed = nodes.change(node, page);
        let version = nodes.read(node, page, None);
        assert!(version >= changed.version, "try {number}, /{page} by {}: {version}", NAMES[node]);
    }
}

#[test]
fn the_answer_of_an_owner_without_a_change_is_not_used() {
    let mut nodes = Nodes::start_with_one_owner();
    let mut old = 0;
    for page in 0..PAGES / 2 {
        (0..NAMES.len()).for_each(|node| _ = nodes.read(node, page, None));
        // The node itself has not received its change back when it asks the owner.
        nodes.ways[0].delay(Duration::from_millis(20));
        nodes.ways[1..].iter().for_each(|way| way.set(Mode::Silent));
        nodes.ask(0, &format!("PUT /{page}"), "\nContent-Length: 0");
        let version = nodes.pages.version(page);
        assert_eq!(nodes.read(0, page, None), version, "/{page}");
        old += usize::from(nodes.read_without_floor(0, page) < version);
        nodes.ways[0].delay(Duration::ZERO);
        nodes.ways[1..].iter().for_each(|way| way.set(Mode::Open));
    }
    assert!(old > 0, "without the floor an owner gives what was changed: a checker that cannot fail");
}

#[test]
fn a_node_whose_purges_are_not_published_asks_no_owner() {
    let mut nodes = Nodes::start_with_one_owner();
    nodes.ways[0].set(Mode::Refuses);
    let mut old = 0;
    for number in 0..TRIES / 4 {
        let page = nodes.rng.usize(..PAGES);
        let changed = nodes.change(0, page);
        assert_eq!(changed.position, None, "it is not published");
        let version = nodes.read(0, page, None);
        assert!(version >= changed.version, "try {number}, /{page}: {version}");
        old += usize::from(nodes.read_without_floor(0, page) < changed.version);
    }
    assert!(old > 0, "owners have what was changed: a checker that cannot fail");
    nodes.ways[0].set(Mode::Open);
    let waits = |nodes: &Nodes| cluster(&nodes.nodes[0])["invalidations"]["waiting"] != 0;
    eventually("nothing to wait", || (!waits(&nodes)).then_some(()));
    for page in 0..PAGES {
        let version = nodes.pages.version(page);
        eventually("the others to hear", || (nodes.read(1, page, None) == version).then_some(()));
    }
}

#[test]
fn a_client_that_moves_with_its_position_reads_its_own_changes() {
    let mut nodes = Nodes::start();
    for number in 0..TRIES {
        let (node, page) = nodes.some();
        nodes.slow_down();
        let changed = nodes.change(node, page);
        let other = (node + nodes.rng.usize(1..NAMES.len())) % NAMES.len();
        let position = changed.position.expect("it is published");
        let version = nodes.read(other, changed.page, Some(&position));
        assert!(version >= changed.version, "try {number}, /{page} by {}: {version}", NAMES[other]);
    }
}

#[test]
fn a_node_that_does_not_reach_a_position_asks_the_origin() {
    let mut nodes = Nodes::start_with_one_owner();
    let mut old = 0;
    for page in 0..PAGES / 2 {
        (0..NAMES.len()).for_each(|node| _ = nodes.read(node, page, None));
        nodes.ways[1].set(Mode::Silent);
        let answer = nodes.ask(0, &format!("PUT /{page}"), "\nContent-Length: 0");
        let position = answer.field("larder-position").expect("it is published").to_owned();
        let version = nodes.pages.version(page);
        old += usize::from(nodes.read(1, page, None) < version);
        let more = format!("\nLarder-Position: {position}");
        let asked = nodes.ask(1, &format!("GET /{page}"), &more);
        assert_eq!(version_in(asked.text()), version, "/{page}");
        nodes.ways[1].set(Mode::Open);
    }
    assert!(old > 0, "without a position a node gives what was changed: a checker that cannot fail");
}

/// Returns the response of a cluster's only node, which has stored its page, to a client with this position.
fn shown(node: &Larder, position: &str) -> Response {
    node.ask(&format!("GET /0\nHost: site.test\nLarder-Position: {position}"))
}

#[test]
fn a_forged_position_still_gets_a_hit_without_asking_the_origin() {
    let (engine, pages) = (Engine::start(), Pages::new());
    let origin = pages.origin();
    let node = node_by(&engine.url(), &origin, "a", [LONG, ""], "");
    wait_for(std::slice::from_ref(&node), &["a"]);
    let hears = || cluster(&node)["invalidations"]["lag_seconds"].is_number().then_some(());
    eventually("a node that hears of purges", hears);
    let put = node.ask("PUT /0\nHost: site.test\nContent-Length: 0");
    let real = put.field("larder-position").expect("it is published").to_owned();
    // The node applies its own purge once more when it receives it.
    let is_kept = || shown(&node, &real).is_hit().then_some(());
    eventually("a page that is kept", is_kept);
    let (before, engine_of_real) = (origin.count(), real.split('.').nth(1).expect("an engine").to_owned());
    for position in [
        "",
        "x",
        "1-1",
        "1-1.x.-",
        "18446744073709551616-0.0000000000000000.-",
        &"9".repeat(4_000),
        "18446744073709551615-18446744073709551615.0000000000000000.-",
        &format!("18446744073709551615-18446744073709551615.{engine_of_real}.-"),
        &format!("0-0.{engine_of_real}.-"),
        &format!("{real}, {real}"),
    ] {
        let answer = shown(&node, position);
        assert!(answer.status == 200 && answer.is_hit(), "{position}: {answer:?}");
    }
    assert_eq!(origin.count(), before);
}

/// Starts a node with the token [`TOKEN`]. Returns it with the position of a change.
fn with_token(engine: &Engine, origin: &Origin) -> (Larder, String) {
    let token = format!("{LONG}\ntoken = '{TOKEN}'");
    let node = node_by(&engine.url(), origin, "a", [&token, ""], "");
    wait_for(std::slice::from_ref(&node), &["a"]);
    let hears = || cluster(&node)["invalidations"]["lag_seconds"].is_number().then_some(());
    eventually("a node that hears of purges", hears);
    let put = node.ask("PUT /0\nHost: site.test\nContent-Length: 0");
    let position = put.field("larder-position").expect("it is published").to_owned();
    (node, position)
}

#[test]
fn a_position_is_not_sealed_with_the_token_itself() {
    let (engine, pages) = (Engine::start(), Pages::new());
    let (_node, position) = with_token(&engine, &pages.origin());
    let (text, seal) = position.rsplit_once('.').expect("a sealed position");
    assert_eq!(seal.len(), 32, "{position}");
    // Otherwise, each guess of the token would cost a client a few hashes.
    let by_token = Seal::new(Some(TOKEN.as_bytes()), "larder");
    assert!(!by_token.is(MessageKind::Client, &[text.as_bytes()], seal.as_bytes()), "{position}");
}

#[test]
fn where_nodes_share_a_token_a_client_can_make_up_no_position() {
    let (engine, pages) = (Engine::start(), Pages::new());
    let (node, real) = with_token(&engine, &pages.origin());
    eventually("a page that is kept", || shown(&node, &real).is_hit().then_some(()));
    let (position, seal) = real.split_once('.').expect("a position");
    engine.signal(rustix::process::Signal::STOP);
    for made_up in [
        format!("18446744073709551615-0.{seal}"),
        format!("9{position}.{seal}"),
        format!("9{position}.{}.-", seal.split('.').next().expect("an engine")),
    ] {
        assert!(shown(&node, &made_up).is_hit(), "{made_up}: it is not valid, and delays no request");
    }
    assert!(shown(&node, &real).is_hit(), "it was reached long ago");
    engine.signal(rustix::process::Signal::CONT);
}

#[test]
fn without_the_engine_a_position_sends_the_request_to_the_origin() {
    let mut nodes = Nodes::start();
    nodes.read(1, 0, None);
    nodes.ways[1].set(Mode::Refuses);
    let changed = nodes.change(0, 0);
    let position = changed.position.expect("it is published");
    let asked = nodes.ask(1, "GET /0", &format!("\nLarder-Position: {position}"));
    assert_eq!(version_in(asked.text()), changed.version);
    assert!(!is_hit(&asked), "{asked:?}");
    nodes.ways[1].set(Mode::Open);
    let hits = |nodes: &mut Nodes| {
        let asked = nodes.ask(1, "GET /0", &format!("\nLarder-Position: {position}"));
        is_hit(&asked).then_some(())
    };
    eventually("a node that has caught up", || hits(&mut nodes));
}

#[test]
fn a_gateway_behind_the_clients_position_answers_no_304() {
    let (engine, pages) = (Engine::start(), Pages::new());
    let origin = pages.origin();
    let way = Relay::to(engine.address());
    let urls = [engine.url(), format!("redis://{}", way.address)];
    let gateway = |(name, url): (&str, &String)| {
        node_by(url, &origin, name, [LONG, "name = 'api'\nrole = 'tags'\ntag_doubt = '0s'"], "")
    };
    let gateways: Vec<_> = ["a", "b"].into_iter().zip(&urls).map(gateway).collect();
    wait_for(&gateways, &["a", "b"]);
    gateways[1].get("/0");
    let tag = gateways[1].get("/0").field("etag").expect("a tag").to_owned();
    let conditional = format!("GET /0\nIf-None-Match: {tag}");
    assert_eq!(gateways[1].ask(&conditional).status, 304);
    way.set(Mode::Silent);
    let answer = gateways[0].ask("PUT /0\nContent-Length: 0");
    let position = answer.field("larder-position").expect("it is published").to_owned();
    assert_eq!(gateways[1].ask(&conditional).status, 304, "it cannot know");
    let asked = gateways[1].ask(&format!("{conditional}\nLarder-Position: {position}"));
    assert_eq!((asked.status, asked.text()), (200, "1"));
    way.set(Mode::Open);
}

#[test]
fn clients_of_caches_behind_a_pushing_gateway_read_their_own_changes() {
    let seed = seed();
    let (mut rng, engine, version) = (Rng::with_seed(seed), Engine::start(), Arc::new(AtomicU64::new(0)));
    let at_origin = Arc::clone(&version);
    let origin = Origin::by(move |seen| match seen.method.as_str() {
        "GET" => format!("200 OK\n\n{}", at_origin.load(Ordering::SeqCst)),
        _ => format!("200 OK\n\n{}", at_origin.fetch_add(1, Ordering::SeqCst) + 1),
    });
    let gateway =
        Larder::with_site(&[&origin], "role = 'tags'\npush = true\npush_lifetime = '1h'\ntag_doubt = '0s'");
    let caches: Vec<_> = NAMES
        .iter()
        .map(|name| {
            let keys =
                format!("engine = '{}'\nnode = '{name}'\nlisten = '127.0.0.1:0'\n{LONG}", engine.url());
            let beat = "heartbeat = '50ms'\ndrop_out = '30s'";
            let site = format!("[[site]]\norigin = 'http://{}'", gateway.address());
            Larder::start(&format!("[cluster]\n{keys}\n{beat}\n{site}\n"))
        })
        .collect();
    wait_for(&caches, &NAMES);
    let mut clients: Vec<_> = caches.iter().map(Larder::client).collect();
    let mut hits = 0;
    for number in 0..TRIES {
        let (cache, page) = (rng.usize(..NAMES.len()), rng.usize(..PAGES));
        let get = format!("GET /users/{page}\nHost: site.test");
        for client in &mut clients {
            hits += usize::from(is_hit(&client.ask(&get)));
        }
        clients[cache].ask(&format!("PUT /users/{page}\nHost: site.test\nContent-Length: 0"));
        let expected = version.load(Ordering::SeqCst);
        let read = version_in(clients[cache].ask(&get).text());
        assert!(read >= expected, "try {number}, /users/{page} by {}: {read} of {expected}", NAMES[cache]);
    }
    assert!(hits > 0, "nothing was kept: a checker that has nothing to check");
}
