//! Under load, while nodes and the engine are stopped, killed, cut off and restarted at random: no response is served
//! that was purged longer ago than the lag allows, and no request fails. After recovery, all nodes fetch each page
//! once. A failure prints its seed; `LARDER_SEED` repeats its choices, though not its timing, and
//! `LARDER_CHECK_SECONDS` sets the duration.

use std::env::var;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use larder_testkit::nodes::{OVER_TLS, cluster, peer_address, wait_for};
use larder_testkit::{Engine, Larder, Origin, eventually, seed, site};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::invalidations::command;
use crate::relay::{Mode, Relay};
use crate::world::{KEYS, LAG, World};

/// The duration of the disturbances, unless the environment sets another one.
const RUN: Duration = Duration::from_secs(4);

/// Three nodes whose connections to the engine and to each other can be cut.
struct Cluster<'w> {
    engine: Engine,
    world: &'w World,
    places: Vec<Place>,
    nodes: Vec<Larder>,
    rng: Rng,
}

/// The location of a node and its relays.
struct Place {
    name: &'static str,
    to_engine: Relay,
    /// The relay by which the other nodes reach it.
    to_node: Relay,
    /// Whether the other nodes reach it over TLS.
    over_tls: bool,
    /// The disk of a node, if it has one; its stored responses remain after a restart.
    disk: Option<TempDir>,
}

impl Place {
    fn new(name: &'static str, engine: &Engine, over_tls: bool) -> Self {
        let disk = (name == "c").then(|| tempfile::tempdir().expect("a directory"));
        Self { name, to_engine: Relay::to(engine.address()), to_node: Relay::new(), over_tls, disk }
    }

    fn start(&self, origin: &Origin) -> Larder {
        let disk = self.disk.as_ref().map_or(String::new(), |directory| {
            format!("[[disk]]\npath = '{}'\nsize = '64MiB'\n", directory.path().display())
        });
        let (name, engine, node) = (self.name, self.to_engine.address, self.to_node.address);
        let (scheme, keys) = if self.over_tls { ("https", OVER_TLS) } else { ("http", "") };
        let node = Larder::start(&format!(
            "{disk}[cluster]\nengine = 'redis://{engine}'\nnode = '{name}'\nlisten = '127.0.0.1:0'\n\
             advertise = '{scheme}://{node}'\nheartbeat = '50ms'\ndrop_out = '2s'\n{KEYS}\n{keys}\n{}",
            site(&[origin], "")
        ));
        self.to_node.leads_to(peer_address(&node));
        node
    }
}

impl<'w> Cluster<'w> {
    fn new(world: &'w World, origin: &Origin, mut rng: Rng) -> Self {
        let (engine, over_tls) = (Engine::start(), rng.bool());
        let places: Vec<_> = ["a", "b", "c"].map(|name| Place::new(name, &engine, over_tls)).into();
        let nodes: Vec<_> = places.iter().map(|place| place.start(origin)).collect();
        nodes.iter().enumerate().for_each(|(number, node)| world.place(number, Some(node)));
        Self { engine, world, places, nodes, rng }
    }

    fn millis(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.rng.u64(..most.as_millis() as u64))
    }

    /// Causes one random disturbance for a while.
    fn disturb(&mut self, origin: &Origin) {
        let (while_, number) = (self.millis(2 * LAG), self.rng.usize(..self.nodes.len()));
        let mode = if self.rng.bool() { Mode::Refuses } else { Mode::Silent };
        match self.rng.u8(..8) {
            0 => {
                self.engine.signal(Signal::STOP);
                sleep(while_);
                self.engine.signal(Signal::CONT);
            }
            1 => self.engine.restart(),
            2 => command(&self.engine, "XTRIM {larder}:invalidations MAXLEN 0"),
            3 => {
                self.nodes[number].signal(Signal::STOP);
                sleep(while_);
                self.nodes[number].signal(Signal::CONT);
            }
            4 => {
                self.world.place(number, None);
                self.nodes[number].signal(Signal::KILL);
                self.nodes[number].ended();
                sleep(while_);
                self.nodes[number] = self.places[number].start(origin);
                self.world.place(number, Some(&self.nodes[number]));
            }
            5 => cut([&self.places[number].to_engine], mode, while_),
            6 => cut([&self.places[number].to_node], mode, while_),
            _ => cut(self.places.iter().map(|place| &place.to_node), mode, while_),
        }
        sleep(self.millis(LAG));
    }

    /// Asserts that each page that every node requests is fetched once.
    fn assert_one_fetch_for_all(&self, origin: &Origin) {
        wait_for(&self.nodes, &["a", "b", "c"]);
        let is_reachable = |node: &Value| node["reachable"] == true;
        let is_well = |node: &Larder| {
            let shown = cluster(node);
            let mut nodes = shown["nodes"].as_array().expect("a list").iter();
            shown["invalidations"]["trusted"] == true && nodes.all(is_reachable)
        };
        eventually("all to be well", || self.nodes.iter().all(is_well).then_some(()));
        // A retry with other pages: on a busy machine, a node may get purges late or seem to hang.
        let mut number = 100;
        let is_fetched_once = || {
            let paths: Vec<_> = (number..number + 20).map(|path| format!("/{path}")).collect();
            number += 20;
            for (path, node) in paths.iter().flat_map(|path| self.nodes.iter().map(move |node| (path, node)))
            {
                assert_eq!(node.ask(&format!("GET {path}\nHost: site.test")).status, 200);
            }
            paths.iter().all(|path| origin.count_of(path) == 1).then_some(())
        };
        eventually("pages that are fetched once for all", is_fetched_once);
    }
}

fn cut<'r>(ways: impl IntoIterator<Item = &'r Relay>, mode: Mode, while_: Duration) {
    let ways: Vec<_> = ways.into_iter().collect();
    ways.iter().for_each(|way| way.set(mode));
    sleep(while_);
    ways.iter().for_each(|way| way.set(Mode::Open));
}

#[test]
fn nothing_is_served_that_was_purged_longer_ago_than_is_allowed() {
    let seed = seed();
    let run = var("LARDER_CHECK_SECONDS")
        .map_or(RUN, |seconds| Duration::from_secs(seconds.parse().expect("a number")));
    let world = Arc::new(World::default());
    let origin = world.origin();
    let mut nodes = Cluster::new(&world, &origin, Rng::with_seed(seed));
    wait_for(&nodes.nodes, &["a", "b", "c"]);
    world.run_while(seed, || {
        let begun = Instant::now();
        while begun.elapsed() < run && world.goes_on() {
            nodes.disturb(&origin);
        }
    });
    world.tell();
    nodes.assert_one_fetch_for_all(&origin);
}
