//! The nodes of a measurement, on free ports of loopback, and the engine of the cluster.
//!
//! The engine is the system's redis-server or valkey-server. It does not watch its standard input, so the kernel is
//! told to end it with this process.

use std::env;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use larder_evict::Capacity;
use larder_load::Via;
use serde_json::Value;
use tempfile::TempDir;

use crate::proxy::{Proxy, memory};
use crate::subprocess::Subprocess;
use crate::{Bench, Halt};

/// The programs that can serve as the engine.
const ENGINES: [&str; 2] = ["redis-server", "valkey-server"];
/// The program that makes the kernel end a foreign process with this one.
const SETPRIV: &str = "setpriv";
/// The number of attempts to start: another process may take the port that was free a moment ago.
const TRIES: usize = 5;
/// The time within which the nodes have to discover each other.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);
/// The policy of every memory, live and simulated.
pub(super) const POLICY: &str = "lru";

/// Returns a message with the missing program and the package to install; `None` if all programs are there.
pub(crate) fn missing() -> Option<String> {
    let lacking = |what: &str, package: &str| Some(format!("no {what} on the path; install {package}"));
    if engine().is_none() {
        return lacking(&ENGINES.join(" or "), "one (Debian: redis-server)");
    }
    if found(SETPRIV).is_none() { lacking(SETPRIV, "it (Debian: util-linux)") } else { None }
}

fn engine() -> Option<PathBuf> {
    ENGINES.into_iter().find_map(found)
}

fn found(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A running engine without persistence. It ends when this value is dropped, and with this process.
struct Engine {
    child: Subprocess,
    port: u16,
    _directory: TempDir,
}

impl Engine {
    fn start() -> Result<Self, Halt> {
        let program = engine().ok_or_else(|| Halt::Failed(missing().unwrap_or_default()))?;
        let mut said = String::new();
        for _ in 0..TRIES {
            match Self::try_start(&program)? {
                Ok(engine) => return Ok(engine),
                Err(last) => said = last,
            }
        }
        let program = program.display();
        Err(Halt::Failed(format!("the cluster's engine ended before it served; {program} said: {said}")))
    }

    /// Starts the engine, or returns its last output if it ended immediately.
    fn try_start(program: &Path) -> Result<Result<Self, String>, Halt> {
        let failed = |error| Halt::because(&format!("cannot start {}", program.display()), error);
        let directory = tempfile::tempdir().map_err(failed)?;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(failed)?.port();
        let mut command = Command::new(SETPRIV);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(directory.path());
        let mut child = Subprocess::start(&mut command).map_err(failed)?;
        let mut said = String::new();
        for line in child.output().into_iter().flat_map(|output| BufReader::new(output).lines()) {
            let line = line.map_err(failed)?;
            if line.contains("Ready to accept connections") {
                return Ok(Ok(Self { child, port, _directory: directory }));
            }
            said = line;
        }
        Ok(Err(said))
    }
}

/// Nodes that serve as one cache; they end when this value is dropped.
pub(super) struct Nodes {
    nodes: Vec<Proxy>,
    /// `None` for independent nodes.
    engine: Option<Engine>,
}

impl Nodes {
    /// Starts `count` nodes with the given memory each. With a share for copies they are a cluster, and this function
    /// waits until they have discovered each other. Otherwise they are independent. Fails if a node does not start, or
    /// the nodes do not discover each other.
    pub(super) fn start(
        bench: &Bench,
        count: u16,
        capacity: Capacity,
        hot: Option<f64>,
    ) -> Result<Self, Halt> {
        let engine = hot.map(|_| Engine::start()).transpose()?;
        let mut nodes = Self { nodes: Vec::new(), engine };
        for number in 0..count {
            let mut text = format!(
                "threads = 1\nadmin = '127.0.0.1:0'\n{}[stats]\nurl = 'none'\n\
                 [forward]\nlisten = ['127.0.0.1:0']\nallow_private = true\n",
                memory(capacity, POLICY)
            );
            if let (Some(engine), Some(hot)) = (&nodes.engine, hot) {
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    "[cluster]\nengine = 'redis://127.0.0.1:{}'\nnode = 'node-{number}'\n\
                     listen = '127.0.0.1:0'\nheartbeat = '100ms'\nhot = {hot:?}\n",
                    engine.port
                );
            }
            nodes.nodes.push(Proxy::configured(&bench.program, &text)?);
        }
        nodes.wait(bench)?;
        Ok(nodes)
    }

    /// Waits until every node sees all nodes.
    fn wait(&mut self, bench: &Bench) -> Result<(), Halt> {
        let begun = Instant::now();
        while !self.is_whole()? {
            self.check_engine()?;
            if bench.stop.load(Ordering::Relaxed) {
                return Err(Halt::Stopped);
            }
            if begun.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let halt = Halt::Failed(format!("the nodes have not found each other in {seconds} s"));
                return Err(self.explain(halt));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn is_whole(&self) -> Result<bool, Halt> {
        if self.engine.is_none() {
            return Ok(true);
        }
        for node in &self.nodes {
            let cluster = node.tell("/cluster")?;
            let there = cluster["nodes"].as_array().map_or(0, Vec::len);
            if cluster["standing"] != "member" || there != self.nodes.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that the nodes have remained one cluster. Fails if they have not, since the measurement is then invalid.
    pub(super) fn check(&mut self) -> Result<(), Halt> {
        self.check_engine()?;
        if self.is_whole()? {
            return Ok(());
        }
        Err(self.explain(Halt::Failed("the nodes have lost each other".to_owned())))
    }

    /// Returns the addresses of the nodes for clients. Fails if a node did not print its address.
    pub(super) fn doors(&self) -> Result<Vec<SocketAddr>, Halt> {
        self.nodes.iter().map(|node| node.door(Via::Http)).collect()
    }

    /// Returns the processor time of each node so far.
    pub(super) fn processors(&self) -> Vec<Duration> {
        self.nodes.iter().map(Proxy::processor).collect()
    }

    /// Returns the number of requests from one node to another so far. Fails if a node does not report the number.
    pub(super) fn crossings(&self) -> Result<u64, Halt> {
        if self.engine.is_none() {
            return Ok(0);
        }
        let asked = |node: &Proxy| {
            let cluster = node.tell("/cluster")?;
            let asked = |peers: &Value| peers["asked"].as_u64();
            asked(&cluster["peers"])
                .ok_or_else(|| Halt::Failed("larder serve: its /cluster has no peers".to_owned()))
        };
        self.nodes.iter().map(asked).sum()
    }

    /// Returns `halt`, extended by the last output of a node if it has ended.
    pub(super) fn explain(&mut self, halt: Halt) -> Halt {
        for node in &mut self.nodes {
            let explained = node.explain(halt.clone());
            if explained != halt {
                return explained;
            }
        }
        halt
    }

    /// Checks that the engine is running: without it each node serves independently, which invalidates the measurement.
    pub(super) fn check_engine(&mut self) -> Result<(), Halt> {
        let status = self.engine.as_mut().and_then(|engine| engine.child.ended().ok().flatten());
        status.map_or(Ok(()), |status| Err(Halt::Failed(format!("the cluster's engine ended with {status}"))))
    }
}
