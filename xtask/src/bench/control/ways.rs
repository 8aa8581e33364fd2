//! The compared ways from a client to the backend, each with its processes.

use super::super::peers::{Peer, Programs, Setup, Start, Which, start};
use super::super::process;
use super::super::server::{self, RunningServer};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The number of users, of paths and of skills: about 180 readable URLs.
pub(super) const ENTITIES: u32 = 20;

/// The keys of a gateway. It creates tags from its start: no change was in progress before.
const GATEWAY: &str = "role = 'tags'\ntag_doubt = '0s'\ncouple = { users = ['paths', 'skills'] }";
/// The same for a gateway that pushes invalidations.
const PUSHING: &str =
    "role = 'tags'\ntag_doubt = '0s'\npush = true\ncouple = { users = ['paths', 'skills'] }";

/// The paths of requests to the backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// Directly.
    Direct,
    /// Through two proxies that only forward: the cost of two hops.
    Hops,
    /// A gateway alone, with requests without a tag: the cost of its hop.
    Gateway,
    /// A cache that validates each answer, with a gateway that answers the validations.
    Always,
    /// A cache that receives invalidations from the gateway.
    Push,
    /// A cache alone, for answers that are marked as fresh: only memory hits.
    Memory,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "straight",
            Self::Hops => "two hops",
            Self::Gateway => "gateway",
            Self::Always => "always",
            Self::Push => "push",
            Self::Memory => "memory hit",
        }
    }

    /// Returns the keys of each larder's site, the one next to the backend first.
    fn sites(self) -> &'static [&'static str] {
        match self {
            Self::Direct => &[],
            Self::Hops => &["cache = false", "cache = false"],
            Self::Gateway => &[GATEWAY],
            Self::Always => &[GATEWAY, "validate = 'always'"],
            Self::Push => &[PUSHING, ""],
            Self::Memory => &[""],
        }
    }
}

/// An open way.
pub(super) struct Open {
    pub(super) way: Way,
    /// The backend's time for an answer, in microseconds.
    pub(super) cost: u64,
    // Those next to the clients first, so that they end first.
    larders: Vec<RunningServer>,
    backend: RunningServer,
}

impl Open {
    /// Starts a backend whose answers take `cost` microseconds, and the proxies in front of it; config files are
    /// written to `folder`. Fails if one of them does not start.
    pub(super) fn start(way: Way, cost: u64, programs: &Programs, folder: &Path) -> Result<Self> {
        let start = |peer: &Peer, more: &[&str]| {
            RunningServer::start_with(&server::in_memory(), peer, programs, 0, more)
        };
        let [entities, time] = [u64::from(ENTITIES), cost].map(|number| number.to_string());
        let mut more = vec!["--entities", &entities, "--cost", &time];
        if way == Way::Memory {
            more.extend(["--lifetime", "86400"]);
        }
        let backend = start(&SERVICES, &more)?;
        let mut larders: Vec<RunningServer> = Vec::new();
        for (hop, keys) in way.sites().iter().enumerate() {
            let origin = larders.first().unwrap_or(&backend).port;
            let file = folder.join(format!("{}-{cost}-{hop}.toml", way.name().replace(' ', "-")));
            fs::write(&file, format!("[[site]]\norigin = 'http://127.0.0.1:{origin}'\n{keys}\n"))
                .with_context(|| format!("cannot write {}", file.display()))?;
            larders.insert(0, start(&HOPS[hop], &["--config", &file.to_string_lossy()])?);
        }
        Ok(Self { way, cost, larders, backend })
    }

    /// Returns the port for clients.
    pub(super) fn port(&self) -> u16 {
        self.larders.first().unwrap_or(&self.backend).port
    }

    /// Returns the CPU time of all proxies, and that of the backend. Fails if one of the processes has ended.
    pub(super) fn cpu(&self) -> Result<[Duration; 2]> {
        let mut larders = Duration::ZERO;
        for larder in &self.larders {
            larders += process::cpu_time(&larder.processes()?)?;
        }
        Ok([larders, process::cpu_time(&self.backend.processes()?)?])
    }
}

/// The backend.
pub(super) const SERVICES: Peer = Peer::apart("services", Which::Lab, None, services);
/// The proxies, from the backend on.
pub(super) const HOPS: [Peer; 2] =
    [Peer::apart("gateway", Which::Larder, None, larder), Peer::apart("cache", Which::Larder, None, larder)];

fn services(setup: &Setup) -> Result<Start> {
    Ok(start(&["live", "services", "--listen", &format!("127.0.0.1:{}", setup.port)]))
}

fn larder(setup: &Setup) -> Result<Start> {
    let [listen, admin] = [setup.port, setup.admin].map(|port| format!("127.0.0.1:{port}"));
    let addresses = ["serve", "--listen", &listen, "--admin", &admin];
    Ok(start(&[&addresses, &["--threads", "1", "--stats", "none", "--memory", "256MiB"][..]].concat()))
}
