//! Two nodes whose engine stands still, or is killed and restarted empty, at random: a client that stays with a node
//! reads no version older than that node has acknowledged, and published versions are visible at the other node after
//! the lag.

use super::Task;
use super::pages::{PageVersions, Pages, Reader, host, path};
use super::purges;
use crate::client::{Answer, Client};
use crate::soak::ordinary::Random;
use crate::soak::server::Larder;
use anyhow::{Context, Result, ensure};
use larder_testkit::{Engine, free, locked};
use rustix::process::Signal;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time for which a node may use its contents without news from the engine.
const LAG: Duration = Duration::from_secs(1);
const NODES: [&str; 2] = ["a", "b"];
/// The maximum wait until the nodes have discovered each other.
const START: Duration = Duration::from_secs(30);

/// The versions of a page that each node has acknowledged, and those that any node has published.
#[derive(Default)]
struct NodeVersions {
    by_node: [u64; NODES.len()],
    published: PublishedVersions,
}

/// Published versions with their times.
#[derive(Default)]
struct PublishedVersions {
    recent: Vec<(Instant, u64)>,
    /// The highest version that was published before the lag.
    overdue: u64,
}

impl PublishedVersions {
    /// Returns the lowest valid version for a request that is sent at `now`. `now` never goes back.
    fn least(&mut self, now: Instant) -> u64 {
        let overdue = self.recent.extract_if(.., |(then, _)| now > *then + LAG);
        self.overdue = overdue.map(|(_, version)| version).fold(self.overdue, u64::max);
        self.overdue
    }
}

/// The nodes, and the state of their clients.
struct Nodes<'t> {
    task: &'t Task<'t>,
    pages: &'t Pages,
    nodes: &'t [Larder],
    acknowledged: Vec<Mutex<NodeVersions>>,
}

pub(super) fn run(task: &Task<'_>) -> Result<()> {
    let pages = purges::pages(40, &[100, 3_000]);
    let (origin, mut engine) = (pages.serve(), Engine::start());
    let nodes = NODES.map(|name| start(task.larder, name, &engine.url(), origin));
    let nodes: Vec<_> = nodes.into_iter().collect::<Result<_>>()?;
    know_each_other(&nodes)?;
    let acknowledged = (0..pages.count()).map(|_| Mutex::default()).collect();
    let cluster = Nodes { task, pages: &pages, nodes: &nodes, acknowledged };
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let (random, cluster) = (task.random(thread), &cluster);
            scope.spawn(move || cluster.run(thread as usize % NODES.len(), random));
        }
        let mut random = task.random(0);
        while !task.over.is_over() {
            task.over.sleep(Duration::from_millis(1_000 + random.below(6_000)));
            let time = Duration::from_millis(random.below(3_000));
            if random.below(3) == 0 {
                engine.kill();
                std::thread::sleep(time);
                engine.restart();
            } else {
                engine.signal(Signal::STOP);
                std::thread::sleep(time);
                engine.signal(Signal::CONT);
            }
            task.findings.faults.add();
        }
        Ok(())
    })
}

fn start(larder: &Path, name: &str, engine: &str, origin: u16) -> Result<Larder> {
    let peers = free();
    let config = format!(
        "[cluster]\nengine = '{engine}'\nnode = '{name}'\nlisten = '{peers}'\n\
         heartbeat = '100ms'\ndrop_out = '4s'\nmax_invalidation_lag = '{}s'\n\
         [[site]]\norigin = 'http://127.0.0.1:{origin}'\npurge_from = ['127.0.0.1']\nstale_if_error = '0s'\n",
        LAG.as_secs()
    );
    Larder::start(larder, &config)
}

fn know_each_other(nodes: &[Larder]) -> Result<()> {
    let begun = Instant::now();
    for node in nodes {
        let mut client = Client::to(node.admin);
        loop {
            let answer = client.ask("GET /cluster", "Host: localhost\r\n")?;
            let cluster: serde_json::Value = serde_json::from_slice(&answer.body).context("no JSON")?;
            let known = cluster["nodes"].as_array().map(Vec::len);
            if known == Some(NODES.len()) && cluster["invalidations"]["lag_seconds"].is_number() {
                break;
            }
            ensure!(begun.elapsed() < START, "the nodes have not found each other in {} s", START.as_secs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

impl Nodes<'_> {
    /// Runs a client that stays with a node, until the run is over.
    fn run(&self, node: usize, mut random: Random) {
        let mut reader = Reader::new(self.task, self.pages, self.nodes[node].site);
        let mut writer = Client::to(self.nodes[node].site);
        let mut admin = Client::to(self.nodes[node].admin);
        while !self.task.over.is_over() {
            let page = self.pages.some(&mut random);
            if random.below(10) == 0 {
                self.change(node, page, &mut writer, &mut admin, &mut random);
            } else {
                let least = self.least(node, page);
                reader.read(&host(page), page, random.below(4) == 0, least);
            }
            std::thread::sleep(Duration::from_millis(random.below(40)));
        }
    }

    fn least(&self, node: usize, page: u64) -> PageVersions {
        let mut acknowledged = self.page(page);
        let own = acknowledged.by_node[node].max(acknowledged.published.least(Instant::now()));
        PageVersions { own, user: 0 }
    }

    fn page(&self, page: u64) -> std::sync::MutexGuard<'_, NodeVersions> {
        locked(&self.acknowledged[page as usize])
    }

    /// Changes a page by a request or by a purge at this node, and records the answer.
    fn change(&self, node: usize, page: u64, writer: &mut Client, admin: &mut Client, random: &mut Random) {
        let (host, path) = (host(page), path(page));
        let kind = random.below(3);
        let purged = if kind == 0 { None } else { Some(self.pages.change(page)) };
        let fields = format!("Host: {host}\r\n");
        let answer = match kind {
            _ if self.task.leaves_out("changes") => {
                let version = self.pages.change(page);
                self.page(page).by_node[node] = version;
                return self.task.findings.changes.add();
            }
            0 => writer.ask(&format!("PUT {path}"), &fields),
            1 => writer.ask(&format!("PURGE {path}"), &fields),
            _ => {
                let request = format!("POST /purge?url=http://{host}{path}");
                admin.ask(&request, "Host: localhost\r\nLarder-Admin: 1\r\n")
            }
        };
        let Some(answer) = answer.ok().filter(|answer| answer.status == 200) else {
            return self.task.findings.unanswered.add();
        };
        let told = answer.field("version").and_then(|text| text.parse().ok());
        let Some(version) = purged.or(told) else { return };
        let mut acknowledged = self.page(page);
        let by_node = &mut acknowledged.by_node[node];
        *by_node = version.max(*by_node);
        if is_published(&answer) {
            acknowledged.published.recent.push((Instant::now(), version));
        }
        self.task.findings.changes.add();
    }
}

/// Whether the other node is informed, or will be.
fn is_published(answer: &Answer) -> bool {
    answer.field("larder-position").is_some()
}

#[cfg(test)]
mod tests {
    use super::{LAG, PublishedVersions};
    use std::time::{Duration, Instant};

    #[test]
    fn a_published_version_has_to_be_read_after_the_lag() {
        let now = Instant::now();
        let mut published = PublishedVersions { recent: vec![(now, 2), (now + LAG, 3)], overdue: 0 };
        assert_eq!(published.least(now + LAG), 0);
        assert_eq!(published.least(now + LAG + Duration::from_millis(1)), 2);
        assert_eq!(published.least(now + 3 * LAG), 3);
        assert!(published.recent.is_empty());
    }
}
