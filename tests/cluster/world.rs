//! Pages that change and are purged while they are read through nodes that come and go: the origin numbers its
//! versions, and a version that was purged longer ago than the lag is a fault.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use fastrand::Rng;
use larder_testkit::{Client, Larder, Origin, Response};
use serde_json::Value;

use crate::invalidations::version_in;

pub(crate) const LAG: Duration = Duration::from_millis(800);
/// The same, for the config of a node.
pub(crate) const KEYS: &str = "max_invalidation_lag = '800ms'";
const PATHS: usize = 6;
const READERS: u64 = 3;

/// What the origin has, what was purged of it, and where the nodes are.
#[derive(Default)]
pub(crate) struct World {
    versions: [AtomicU64; PATHS],
    /// For each path: since when no older version than this may be served to who asks after the lag.
    purged: [Mutex<Vec<(Instant, u64)>>; PATHS],
    doors: Mutex<Vec<Option<Door>>>,
    pub(crate) reads: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) purges: AtomicU64,
    broken: AtomicU64,
    is_over: AtomicBool,
}

/// A node that is there.
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
            // Others are of one version, for ever.
            let version = world.versions.get(path).map_or(0, |version| version.load(Ordering::SeqCst));
            format!("200 OK\nCache-Control: max-age=3600\nCache-Tag: t{path}\n\n{version}")
        })
    }

    /// Says where the node of this number is, if it is there.
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

    /// Writes and reads as chance will have it, while `disturb` does what it does.
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

    /// False as soon as somebody has found a fault.
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Fails unless there was something to check.
    pub(crate) fn tell(&self) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (reads, hits, purges) = (count(&self.reads), count(&self.hits), count(&self.purges));
        let broken = count(&self.broken);
        println!("{reads} reads, {hits} of them hits, {broken} broken off, {purges} purges");
        assert!(purges > 4 && hits > reads / 10, "a checker that has nothing to check");
    }

    /// Changes a page, and purges it by way of some node.
    fn write(&self, rng: &mut Rng) {
        let (path, number) = (rng.usize(..PATHS), self.some(rng));
        let hard = if rng.bool() { "&hard" } else { "" };
        let what = if rng.bool() { format!("url=http://site.test/{path}") } else { format!("tag=t{path}") };
        let request = format!("POST /purge?{what}{hard}\nLarder-Admin: 1\nHost: localhost");
        let version = self.versions[path].fetch_add(1, Ordering::SeqCst) + 1;
        if let Asked::Answered(answer) = self.ask(number, |door| door.admin, &request) {
            let answer: Value = serde_json::from_slice(&answer.body).expect("json");
            if answer["nodes"]["published"] == true {
                self.purges.fetch_add(1, Ordering::Relaxed);
                locked(&self.purged[path]).push((Instant::now(), version));
            }
        }
        sleep(Duration::from_millis(rng.u64(..40)));
    }

    /// Asks some node for a page.
    fn read(&self, rng: &mut Rng) {
        let (path, number) = (rng.usize(..PATHS), self.some(rng));
        let asked = Instant::now();
        let response = match self.ask(number, |door| door.site, &format!("GET /{path}\nHost: site.test")) {
            Asked::Answered(response) => response,
            // What has begun to come from a node that is lost breaks off, as what comes from an origin does.
            Asked::Failed => {
                self.broken.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // It is away for a while.
            Asked::Nobody => return sleep(Duration::from_millis(1)),
        };
        assert_eq!(response.status, 200, "/{path} by node {number}: {}", response.text());
        let version = version_in(response.text());
        // The last to say something is the node that was asked.
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

    /// What a node answers. Nothing of one that goes away meanwhile: its port may be anybody's.
    fn ask(&self, number: usize, which: fn(Door) -> SocketAddr, request: &str) -> Asked {
        let Some(door) = self.door(number) else { return Asked::Nobody };
        let response = Client::try_ask(which(door), request);
        match response {
            _ if self.door(number) != Some(door) => Asked::Nobody,
            Some(response) => Asked::Answered(response),
            None => Asked::Failed,
        }
    }
}

/// What came of asking a node.
enum Asked {
    Answered(Response),
    Failed,
    Nobody,
}

/// Ends the run, however this thread ends.
struct OnDrop<'o>(&'o AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
