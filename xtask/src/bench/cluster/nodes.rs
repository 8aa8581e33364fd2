//! The nodes of `bench cluster`: a single one, and three of which one owns nearly all keys, since its weight is ten
//! thousand times that of the others. So the choice of the asked node determines the source of an answer.

use super::super::origin::Origin;
use super::super::peers::{Peer, Programs, Setup, Start, Which, start};
use super::super::server::{self, RunningServer};
use super::Kind;
use crate::client::Client;
use crate::packages::Package;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program through which the nodes discover each other.
pub(super) const ENGINE: Package =
    Package { name: "redis-server", program: "redis-server", purpose: "the engine of a cluster" };

/// The maximum wait until the nodes have discovered each other, and until copies exist.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);
/// The number of requests after which a node has a copy, if it keeps any.
const TIMES: u32 = 4;

/// Each node of the cluster: its name, its weight, and the share of its memory for copies.
const NODES: [(&str, u32, f64); 3] =
    [("node-owner", 10_000, 0.1), ("node-copies", 1, 0.5), ("node-asks", 1, 0.0)];

/// Running nodes, which end when this value is dropped.
pub(super) struct Nodes {
    // In this order, so that nodes end before their engine.
    alone: RunningServer,
    cluster: Vec<RunningServer>,
    _engine: RunningServer,
    _folder: TempDir,
}

impl Nodes {
    /// Starts all nodes, and waits until those of the cluster have discovered each other. Fails if one does not start,
    /// or they do not discover each other.
    pub(super) fn start(programs: &Programs, origin: &Origin) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let base = server::in_memory();
        let engine = Peer::apart("engine", Which::Installed, Some(ENGINE), engine);
        let engine = RunningServer::start(&engine, programs, origin)?;
        let node = |name: &'static str, text: &str| {
            let file = config(folder.path(), name, text)?;
            let node = Peer::apart(name, Which::Larder, None, larder);
            RunningServer::start_with(&base, &node, programs, origin.port(), &["--config", &file])
        };
        let alone = node("node-alone", "")?;
        let mut cluster = Vec::new();
        for (name, weight, hot) in NODES {
            let text = format!(
                "[cluster]\nengine = 'redis://127.0.0.1:{}'\nnode = '{name}'\nlisten = '127.0.0.1:0'\n\
                 weight = {weight}\nhot = {hot:?}\n",
                engine.port
            );
            cluster.push(node(name, &text)?);
        }
        let nodes = Self { alone, cluster, _engine: engine, _folder: folder };
        nodes.wait()?;
        Ok(nodes)
    }

    fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        for node in &self.cluster {
            while node.tell("/cluster")?["nodes"].as_array().map(Vec::len) != Some(NODES.len()) {
                if begun.elapsed() > LIMIT {
                    bail!("{} has not found the others in {} s", node.name, LIMIT.as_secs());
                }
                sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Returns the node that is asked.
    pub(super) fn of(&self, kind: Kind) -> &RunningServer {
        match kind {
            Kind::Alone | Kind::AloneMiss => &self.alone,
            Kind::Own | Kind::OwnMiss => &self.cluster[0],
            Kind::Copy => &self.cluster[1],
            Kind::Peer | Kind::PeerMiss => &self.cluster[2],
        }
    }

    /// Returns all nodes that take part.
    pub(super) fn all(&self, kind: Kind) -> Vec<&RunningServer> {
        match kind {
            Kind::Alone | Kind::AloneMiss => vec![&self.alone],
            _ => self.cluster.iter().collect(),
        }
    }

    /// Returns the number of requests so far from the node to others. Fails if it does not report the number.
    pub(super) fn crossings(&self, kind: Kind) -> Result<u64> {
        if matches!(kind, Kind::Alone | Kind::AloneMiss) {
            return Ok(0);
        }
        let cluster = self.of(kind).tell("/cluster")?;
        cluster["peers"]["asked"].as_u64().with_context(|| format!("no peers in {cluster}"))
    }

    /// Requests each of `paths` until the cache is in its final state. Fails if a request is not answered.
    pub(super) fn warm(&self, kind: Kind, paths: impl Iterator<Item = String>) -> Result<()> {
        let mut client = Client::connect(self.of(kind).port)?;
        for path in paths {
            for _ in 0..TIMES {
                client.get(&path)?;
            }
        }
        Ok(())
    }
}

/// Writes the config file of a node, and returns its path.
fn config(folder: &Path, name: &str, text: &str) -> Result<String> {
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file.to_string_lossy().into_owned())
}

fn engine(setup: &Setup) -> Result<Start> {
    let (port, folder) = (setup.port.to_string(), setup.folder.to_string_lossy());
    let words =
        ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no", "--dir", &folder];
    Ok(start(&words))
}

fn larder(setup: &Setup) -> Result<Start> {
    let [listen, admin] = [setup.port, setup.admin].map(|port| format!("127.0.0.1:{port}"));
    let origin = format!("http://127.0.0.1:{}", setup.origin);
    let addresses = ["serve", "--listen", &listen, "--admin", &admin, "--origin", &origin];
    let common = ["--threads", "1", "--access-log", "off", "--stats", "none", "--memory", "256MiB"];
    Ok(start(&[&addresses, &common[..]].concat()))
}
