//! Repeated `kill -9` under load, with a comparison of every byte and a search for every object that was published
//! before; and the part of the order of use that a restart restores.
//!
//! `LARDER_CYCLES=200` makes the first two tests long.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use larder_testkit::{Answer, Client, Larder, Origin, PATIENCE, eventually};
use rustix::process::Signal;

use super::inventory::objects;
use crate::{config, end, ready};

/// The URLs of the load.
const URLS: usize = 300;
/// The number of concurrent clients.
const CLIENTS: u64 = 4;

/// Returns the origin's content at `/n`, with its version in every line.
fn content(n: usize, version: u64) -> Vec<u8> {
    let len = [200, 3_000, 20_000, 90_000, 700_000][n % 5] + n;
    let line = format!("page {n} version {version}\n");
    line.bytes().cycle().take(len).collect()
}

/// Returns the version of a whole content; `None` if the content is not consistent.
fn version(n: usize, body: &[u8]) -> Option<u64> {
    let line = body.split(|&byte| byte == b'\n').next()?;
    let version =
        std::str::from_utf8(line).ok()?.strip_prefix(&format!("page {n} version "))?.parse().ok()?;
    (body == content(n, version)).then_some(version)
}

/// The versions at the origin: a POST increments one.
type Versions = Arc<Vec<AtomicU64>>;

fn origin(versions: &Versions) -> Origin {
    let versions = Arc::clone(versions);
    Origin::answering(move |seen| {
        let n: usize = seen.target[1..].parse().expect("a number");
        if seen.method == "POST" {
            versions[n].fetch_add(1, Ordering::SeqCst);
            return Answer::with_body("204 No Content", b"");
        }
        let version = versions[n].load(Ordering::SeqCst);
        Answer::with_body("200 OK\nCache-Control: max-age=3600\nETag: \"1\"", &content(n, version))
    })
}

/// The state that the clients share during one run of a proxy.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    answered: AtomicU64,
    /// The URLs that were changed.
    posted: Mutex<HashSet<String>>,
    wrong: Mutex<Option<String>>,
}

impl Load {
    /// Sends one client's requests until `stop`.
    fn run(&self, larder: SocketAddr, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        while !self.stop.load(Ordering::Relaxed) {
            let n = (rng.f64() * rng.f64() * URLS as f64) as usize;
            if rng.u8(..50) == 0 {
                self.posted.lock().unwrap().insert(format!("http://site.test/{n}"));
                let _ = Client::try_ask(larder, &format!("POST /{n}\nContent-Length: 0"));
                continue;
            }
            let Some(response) = Client::try_ask(larder, &format!("GET /{n}")) else { continue };
            self.answered.fetch_add(1, Ordering::Relaxed);
            if response.status == 200 && version(n, &response.body).is_none() {
                let wrong =
                    format!("/{n}: {} bytes of no version: {:?}", response.body.len(), response.fields);
                *self.wrong.lock().unwrap() = Some(wrong);
            }
        }
    }
}

/// Waits until no writes are queued, and returns the URLs on the disk of `larder`.
fn published(larder: &Larder) -> HashSet<String> {
    eventually("nothing to write", || (larder.stats()["disks"][0]["bytes_queued"] == 0).then_some(()));
    let objects = objects(&["--admin", &larder.admin.to_string()]);
    objects.iter().map(|object| object["url"].as_str().unwrap().to_owned()).collect()
}

/// Repeatedly kills a proxy with a directory of `size` under load. Where `all_fit`, all URLs that were published before
/// a load are still there after it, except the changed ones.
fn survive(size: &str, all_fit: bool) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cycles = number("LARDER_CYCLES").unwrap_or(4);
    let seed = number("LARDER_SEED").unwrap_or(fastrand::u64(..1 << 32));
    println!("LARDER_SEED={seed} LARDER_CYCLES={cycles}");
    let directory = tempfile::tempdir().unwrap();
    let versions: Versions = Arc::new((0..URLS).map(|_| AtomicU64::new(0)).collect());
    let origin = origin(&versions);
    let config = config(directory.path(), &origin, "[memory]\nsize = '2MiB'").replace("64MiB", size);
    let mut rng = Rng::with_seed(seed);
    let (mut answered, mut kept, mut expected) = (0, 0, HashSet::new());
    for cycle in 0..cycles {
        let larder = Larder::start(&config);
        ready(&larder);
        let found = published(&larder);
        let lost: Vec<_> = expected.difference(&found).collect();
        assert!(!all_fit || lost.is_empty(), "cycle {cycle} of seed {seed}: lost {lost:?}");
        kept += found.len() as u64;
        let load = Load::default();
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (seed, address, load) = (rng.u64(..) ^ client, larder.address(), &load);
                scope.spawn(move || load.run(address, seed));
            }
            let enough = rng.u64(40..400);
            let begun = Instant::now();
            // Without a panic, which would leave the clients at work.
            while load.answered.load(Ordering::Relaxed) < enough && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
            larder.signal(Signal::KILL);
            load.stop.store(true, Ordering::Relaxed);
        });
        let Load { answered: so_many, posted, wrong, .. } = load;
        assert_eq!(wrong.into_inner().unwrap(), None, "cycle {cycle} of seed {seed}");
        answered += so_many.into_inner();
        expected = &found - &posted.into_inner().unwrap();
    }
    assert!(
        answered > 20 * cycles && kept > 20 * (cycles - 1),
        "{answered} answers, {kept} objects found again"
    );
    println!("{cycles} kills, {answered} answers, {kept} objects found again in all");
}

#[test]
fn killed_again_and_again_under_load_it_serves_no_wrong_byte() {
    survive("24MiB", false);
}

#[test]
fn killed_again_and_again_it_finds_all_that_was_published() {
    survive("96MiB", true);
}

#[test]
fn a_restart_brings_the_order_of_use_back() {
    const REQUESTS: usize = 6_000;
    let mut rng = Rng::with_seed(1);
    let requests: Vec<_> = (0..REQUESTS).map(|_| (rng.f64().powi(3) * 3_000.0) as usize).collect();
    let hits = |restarts: bool| {
        let directory = tempfile::tempdir().unwrap();
        let origin =
            Origin::by(|seen| format!("200 OK\nCache-Control: max-age=3600\n\n{:4000}", seen.target));
        let memory = "[memory]\nentries = 1";
        let config = config(directory.path(), &origin, memory).replace("64MiB", "3MiB");
        let mut larder = Larder::start(&config);
        let written = |larder: &Larder| {
            eventually("nothing to write", || {
                (larder.stats()["disks"][0]["bytes_queued"] == 0).then_some(())
            });
        };
        // Waits for the writes after each chunk, because a repeated request for an unwritten object would be a random
        // miss.
        let ask = |larder: &Larder, requests: &[usize]| {
            let mut client = larder.client();
            for some in requests.chunks(20) {
                some.iter().for_each(|n| drop(client.ask(&format!("GET /{n}"))));
                written(larder);
            }
        };
        ask(&larder, &requests[..REQUESTS / 2]);
        let before = origin.count();
        if restarts {
            end(larder);
            larder = Larder::start(&config);
            ready(&larder);
        }
        ask(&larder, &requests[REQUESTS / 2..]);
        1.0 - (origin.count() - before) as f64 / (REQUESTS / 2) as f64
    };
    let (with, without) = (hits(true), hits(false));
    println!("hit ratio of the second half: {without:.3}, after a restart {with:.3}");
    assert!(without > 0.3 && (without - with) / without < 0.02, "{with} after a restart, {without} without");
}
