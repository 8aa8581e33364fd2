//! The larders of `bench observe`: each with a different database, or none.

use super::super::origin::Origin;
use super::super::peers::{self, Peer, Programs, Setup, Start, Which};
use super::super::server::{self, RunningServer};
use super::{OBJECTS, path};
use crate::packages::Package;
use anyhow::{Context, Result, bail};
use larder_testkit::databases::Server;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The packages of the database servers.
pub(super) const PACKAGES: [Package; 3] = [
    Package { name: "mariadb-server-core", program: "mariadbd", purpose: "a database" },
    Package { name: "mariadb-client-core", program: "mariadb", purpose: "its client" },
    Package { name: "postgresql", program: "initdb", purpose: "a database" },
];

/// The maximum wait until rows are written.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(50);

/// The destination of statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Off,
    Sqlite,
    Mariadb,
    Postgres,
}

pub(super) const KINDS: &[(&str, Kind)] =
    &[("off", Kind::Off), ("sqlite", Kind::Sqlite), ("mariadb", Kind::Mariadb), ("postgres", Kind::Postgres)];

/// A running larder with its database.
pub(super) struct Entrant {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    // In this order, so that the larder ends first.
    pub(super) larder: RunningServer,
    database: Option<Server>,
    url: String,
    program: PathBuf,
}

impl Entrant {
    /// Starts the database and a larder that has all requested objects in memory. Fails if a larder does not start, or
    /// does not answer.
    pub(super) fn start(
        name: &'static str,
        kind: Kind,
        programs: &Programs,
        origin: &Origin,
    ) -> Result<Self> {
        let database = match kind {
            Kind::Off | Kind::Sqlite => None,
            Kind::Mariadb => Some(Server::mariadb()),
            Kind::Postgres => Some(Server::postgres()),
        };
        database.iter().try_for_each(stand_back)?;
        // The larder's own folder is its working directory.
        let url = match (kind, &database) {
            (Kind::Off, _) => "none".to_owned(),
            (_, None) => "sqlite:statistics.db".to_owned(),
            (_, Some(server)) => server.make(),
        };
        let peer = Peer::apart(name, Which::Larder, None, configure);
        let more = ["--stats", &url];
        let larder = RunningServer::start_with(&server::in_memory(), &peer, programs, origin.port(), &more)?;
        let mut client = crate::client::Client::connect(larder.port)?;
        for number in 0..OBJECTS {
            client.get(&path(number))?;
        }
        Ok(Self { name, kind, larder, database, url, program: programs.larder() })
    }

    /// Returns the database's server, if it has one.
    pub(super) fn server(&self) -> Option<&Server> {
        self.database.as_ref()
    }

    /// Returns a count that the larder keeps about its rows.
    pub(super) fn count(&self, name: &str) -> Result<u64> {
        let stats = self.larder.stats()?;
        stats["statistics"][name].as_u64().with_context(|| format!("no '{name}' in {stats}"))
    }

    /// Waits until all rows are written, and checks that the database has the requests that `/stats` counts, except for
    /// dropped ones. Returns the number of dropped ones. Fails if it takes too long, or the sums differ.
    pub(super) fn settle(&self) -> Result<u64> {
        if self.kind == Kind::Off {
            return Ok(0);
        }
        let begun = Instant::now();
        while self.count("queued")? > 0 {
            if begun.elapsed() > LIMIT {
                bail!("{}: rows still wait after {} s", self.name, LIMIT.as_secs());
            }
            sleep(PAUSE);
        }
        let (requests, dropped) = (self.larder.stats()?["requests"].as_u64(), self.count("dropped")?);
        let found = self.sum()?;
        if requests != Some(found + dropped) {
            bail!("{}: {found} requests in the database, {dropped} dropped, {requests:?} counted", self.name);
        }
        Ok(dropped)
    }

    /// Returns the requests in the database.
    fn sum(&self) -> Result<u64> {
        let mut command = Command::new(&self.program);
        command.args(["stats", "--json", "--stats", &self.url]);
        command.args(["--sql", "SELECT SUM(requests) AS n FROM transactions"]);
        let output = command.current_dir(self.larder.folder()).output().context("cannot start larder")?;
        let rows: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
        let sum = rows[0]["n"].as_str().and_then(|text| text.parse().ok());
        sum.with_context(|| format!("no sum in {rows}"))
    }
}

/// Lowers the priority of a database's server, so that it gets only the CPU time that the load leaves. On a separate
/// core, it would delay no other process.
fn stand_back(server: &Server) -> Result<()> {
    for process in server.processes() {
        let process = process.as_raw_nonzero().to_string();
        let mut command = Command::new("chrt");
        let output = command.args(["--all-tasks", "--idle", "--pid", "0", &process]).output();
        let output = output.context("cannot start chrt")?;
        // Some processes of servers end soon after their start.
        if !output.status.success() && Path::new("/proc").join(&process).exists() {
            bail!("chrt: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    Ok(())
}

fn configure(setup: &Setup) -> Result<Start> {
    peers::serve(setup, &["--access-log", "off", "--memory", "1GiB"])
}
