//! The ways from a client to the backend that `bench control` compares, each with the processes that it goes through.

use super::super::peers::{Peer, Programs, Setup, Start, Which, start};
use super::super::process;
use super::super::server::{self, Running};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How many users, paths and skills there are: some 180 URLs that can be read.
pub(super) const ENTITIES: u32 = 20;

/// The keys of a gateway. It makes tags from its start on: no change was in progress before.
const GATEWAY: &str = "role = 'tags'\ntag_doubt = '0s'\ncouple = { users = ['paths', 'skills'] }";
/// The same for one that pushes.
const PUSHING: &str =
    "role = 'tags'\ntag_doubt = '0s'\npush = true\ncouple = { users = ['paths', 'skills'] }";

/// How requests reach the backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// Straight.
    Direct,
    /// Through two proxies that only pass on: what two hops cost.
    Hops,
    /// A gateway alone, asked for what no tag is shown of: what its hop costs.
    Gateway,
    /// A cache that asks each time, and a gateway that answers it.
    Always,
    /// A cache that is told by the gateway what no longer holds.
    Push,
    /// A cache alone, of answers that are said to be fresh: a memory hit and nothing else.
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

    /// The keys of each larder's site, the one next to the backend first.
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

/// A way that is open.
pub(super) struct Open {
    pub(super) way: Way,
    /// Microseconds that the backend takes for an answer.
    pub(super) cost: u64,
    // Those next to the clients first, so that they end first.
    larders: Vec<Running>,
    backend: Running,
}

impl Open {
    /// Starts a backend whose answers take `cost` microseconds, and what stands before it; config files go to `folder`.
    ///
    /// # Errors
    /// When one of them does not start.
    pub(super) fn start(way: Way, cost: u64, programs: &Programs, folder: &Path) -> Result<Self> {
        let start =
            |peer: &Peer, more: &[&str]| Running::start_with(&server::in_memory(), peer, programs, 0, more);
        let backend = Peer::apart("services", Which::Larder, None, services);
        let [entities, time] = [u64::from(ENTITIES), cost].map(|number| number.to_string());
        let mut more = vec!["--entities", &entities, "--cost", &time];
        if way == Way::Memory {
            more.extend(["--lifetime", "86400"]);
        }
        let backend = start(&backend, &more)?;
        let mut larders: Vec<Running> = Vec::new();
        for (hop, keys) in way.sites().iter().enumerate() {
            let origin = larders.first().unwrap_or(&backend).port;
            let file = folder.join(format!("{}-{cost}-{hop}.toml", way.name().replace(' ', "-")));
            fs::write(&file, format!("[[site]]\norigin = 'http://127.0.0.1:{origin}'\n{keys}\n"))
                .with_context(|| format!("cannot write {}", file.display()))?;
            let larder = Peer::apart(HOPS[hop], Which::Larder, None, larder);
            larders.insert(0, start(&larder, &["--config", &file.to_string_lossy()])?);
        }
        Ok(Self { way, cost, larders, backend })
    }

    /// Where clients ask.
    pub(super) fn port(&self) -> u16 {
        self.larders.first().unwrap_or(&self.backend).port
    }

    /// CPU time that everything before the backend has used, and that the backend has.
    ///
    /// # Errors
    /// When one of the processes has ended.
    pub(super) fn cpu(&self) -> Result<[Duration; 2]> {
        let mut larders = Duration::ZERO;
        for larder in &self.larders {
            larders += process::cpu_time(&larder.processes()?)?;
        }
        Ok([larders, process::cpu_time(&self.backend.processes()?)?])
    }
}

/// Names of the larders' folders, from the backend on.
const HOPS: [&str; 2] = ["gateway", "cache"];

fn services(setup: &Setup) -> Result<Start> {
    Ok(start(&["live", "services", "--listen", &format!("127.0.0.1:{}", setup.port)]))
}

fn larder(setup: &Setup) -> Result<Start> {
    let [listen, admin] = [setup.port, setup.admin].map(|port| format!("127.0.0.1:{port}"));
    let addresses = ["serve", "--listen", &listen, "--admin", &admin];
    Ok(start(&[&addresses, &["--threads", "1", "--stats", "none", "--memory", "256MiB"][..]].concat()))
}
