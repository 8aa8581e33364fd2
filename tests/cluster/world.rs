//! Pages that change and are purged while clients read them from nodes that join and leave: the origin numbers its
//! versions, and a version that was purged longer ago than the lag is a fault.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use fastrand::Rng;
use larder_testkit::{Client, Larder, Origin, Response, locked};

use crate::invalidations::version_in;

pub(crate) const LAG: Duration = Duration::from_millis(800);
/// The key of a node's config that sets [`LAG`].
pub(crate) const KEYS: &str = "max_invalidation_lag = '800ms'";
const PATHS: usize = 6;
const READERS: u64 = 3;

/// The origin's versions, the purges, and the addresses of the nodes.
#[derive(Default)]
pub(crate) struct World {
    versions: [AtomicU64; PATHS],
    /// For each path: the times of purges, with the oldest version that may be served to requests later than the lag
    /// after them.
    purged: [Mutex<Vec<(Instant, u64)>>; PATHS],
    doors: Mutex<Vec<Option<Door>>>,
    pub(crate) reads: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) purges: AtomicU64,
    broken: AtomicU64,
    is_over: AtomicBool,
}

/// The addresses of a running node.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Door {
    site: SocketAddr,
    admin: SocketAddr,
}

impl World {
    pub(crate) fn origin(self: &Arc<Self>) -> Origin {
        let world = Arc::clone(self);
        Origin::by(move |seen| {
            let path: usize = seen.target[1..].parse().expect("a number");
            // The version of other pages never changes.
            let version = world.versions.get(path).map_or(0, |version| version.load(Ordering::SeqCst));
            format!("200 OK\nCache-Control: max-age=3600\nCache-Tag: t{path}\n\n{version}")
        })
    }

    /// Sets the addresses of the node with this number; `None` while it is down.
    pub(crate) fn place(&self, number: usize, node: Option<&Larder>) {
        let mut doors = locked(&self.doors);
        let length = doors.len().max(number + 1);
        doors.resize(length, None);
        doors[number] = node.map(|node| Door { site: node.address(), admin: node.admin });
    }

    fn door(&self, number: usize) -> Option<Door> {
        locked(&self.doors)[number]
    }

    fn some(&self, rng: &mut Rng) -> usize {
        rng.usize(..locked(&self.doors).len())
    }

    /// Writes and reads at random while `disturb` runs.
    pub(crate) fn run_while(&self, seed: u64, disturb: impl FnOnce()) {
        let rng = |number: u64| Rng::with_seed(seed.wrapping_add(number));
        scope(|threads| {
            let over = OnDrop(&self.is_over);
            for number in 1..=1 + READERS {
                let mut rng = rng(number);
                threads.spawn(move || {
                    let _over = OnDrop(&self.is_over);
                    while self.goes_on() {
                        match number {
                            1 => self.write(&mut rng),
                            _ => self.read(&mut rng),
                        }
                    }
                });
            }
            disturb();
            drop(over);
        });
    }

    /// Whether no thread has found a fault or ended the run.
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Prints the counts, and fails unless there were enough purges and hits to check.
    pub(crate) fn tell(&self) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (reads, hits, purges) = (count(&self.reads), count(&self.hits), count(&self.purges));
        let broken = count(&self.broken);
        println!("{reads} reads, {hits} of them hits, {broken} broken off, {purges} purges");
        assert!(purges > 4 && hits > reads / 10, "a checker that has nothing to check");
    }

    /// Changes a page, and purges it through a random node.
    fn write(&self, rng: &mut Rng) {
        let (path, number) = (rng.usize(..PATHS), self.some(rng));
        let hard = if rng.bool() { "&hard" } else { "" };
        let what = if rng.bool() { format!("url=http://site.test/{path}") } else { format!("tag=t{path}") };
        let request = format!("POST /purge?{what}{hard}\nLarder-Admin: 1\nHost: localhost");
        let version = self.versions[path].fetch_add(1, Ordering::SeqCst) + 1;
        if let Asked::Answered(answer) = self.ask(number, |door| door.admin, &request) {
            let answer = answer.json();
            if answer["nodes"]["published"] == true {
                self.purges.fetch_add(1, Ordering::Relaxed);
                locked(&self.purged[path]).push((Instant::now(), version));
            }
        }
        sleep(Duration::from_millis(rng.u64(..40)));
    }

    /// Requests a page from a random node.
    fn read(&self, rng: &mut Rng) {
        let (path, number) = (rng.usize(..PATHS), self.some(rng));
        let asked = Instant::now();
        let response = match self.ask(number, |door| door.site, &format!("GET /{path}\nHost: site.test")) {
            Asked::Answered(response) => response,
            // A response from a node that is lost ends incomplete, as one from an origin does.
            Asked::Failed => {
                self.broken.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // The node is down for a while.
            Asked::Unanswered => return sleep(Duration::from_millis(1)),
        };
        assert_eq!(response.status, 200, "/{path} by node {number}: {}", response.text());
        let version = version_in(response.text());
        // The last member of the field is from the node that was asked.
        let said = response.fields.iter().rfind(|(name, _)| name.eq_ignore_ascii_case("cache-status"));
        let is_hit = said.is_some_and(|(_, value)| value.contains("; hit"));
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.hits.fetch_add(u64::from(is_hit), Ordering::Relaxed);
        let purged = locked(&self.purged[path]);
        let overdue = purged.iter().filter(|(then, _)| asked > *then + LAG);
        let least = overdue.map(|(_, version)| *version).max().unwrap_or(0);
        drop(purged);
        let fault = format!("version {version} was served, {least} was purged long before");
        assert!(version >= least, "/{path} by node {number}: {fault}: {:?}", response.fields);
    }

    /// Returns the response of a node, or `Unanswered` if the node was down or went down meanwhile: another process may
    /// have its port.
    fn ask(&self, number: usize, which: fn(Door) -> SocketAddr, request: &str) -> Asked {
        let Some(door) = self.door(number) else { return Asked::Unanswered };
        let response = Client::try_ask(which(door), request);
        match response {
            _ if self.door(number) != Some(door) => Asked::Unanswered,
            Some(response) => Asked::Answered(response),
            None => Asked::Failed,
        }
    }
}

/// The result of a request to a node.
enum Asked {
    Answered(Response),
    Failed,
    Unanswered,
}

/// Ends the run when it is dropped, also if its thread panics.
struct OnDrop<'o>(&'o AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
