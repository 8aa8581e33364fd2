//! `kill -9` again and again under load, with every byte compared; and how much of the order of use a restart
//! brings back.
//!
//! `LARDER_CYCLES=200` makes the first long.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use crate::support::{Answer, Client, Larder, Origin, eventually};
use crate::{config, end, ready};

/// URLs of the load.
const URLS: usize = 300;
/// Clients at once.
const CLIENTS: u64 = 4;

/// What an origin has at `/n`: its version, in every line of its content.
fn content(n: usize, version: u64) -> Vec<u8> {
    let len = [200, 3_000, 20_000, 90_000, 700_000][n % 5] + n;
    let line = format!("page {n} version {version}\n");
    line.bytes().cycle().take(len).collect()
}

/// Which version a whole content is of; `None` if it is of none.
fn version(n: usize, body: &[u8]) -> Option<u64> {
    let line = body.split(|&byte| byte == b'\n').next()?;
    let version =
        std::str::from_utf8(line).ok()?.strip_prefix(&format!("page {n} version "))?.parse().ok()?;
    (body == content(n, version)).then_some(version)
}

/// The versions at the origin: a POST makes a new one.
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

/// One client's requests until `stop`; says what was wrong.
fn load(larder: SocketAddr, seed: u64, stop: &AtomicBool) -> Result<u64, String> {
    let mut rng = Rng::with_seed(seed);
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        let n = (rng.f64() * rng.f64() * URLS as f64) as usize;
        if rng.u8(..50) == 0 {
            let _ = Client::try_ask(larder, &format!("POST /{n}\nContent-Length: 0"));
            continue;
        }
        let Some(response) = Client::try_ask(larder, &format!("GET /{n}")) else { continue };
        answered += 1;
        if response.status == 200 && version(n, &response.body).is_none() {
            return Err(format!("/{n}: {} bytes of no version: {:?}", response.body.len(), response.fields));
        }
    }
    Ok(answered)
}

#[test]
fn killed_again_and_again_under_load_it_serves_no_wrong_byte() {
    let cycles = std::env::var("LARDER_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let seed = std::env::var("LARDER_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(fastrand::u64(..1 << 32));
    println!("LARDER_SEED={seed} LARDER_CYCLES={cycles}");
    let directory = tempfile::tempdir().unwrap();
    let versions: Versions = Arc::new((0..URLS).map(|_| AtomicU64::new(0)).collect());
    let origin = origin(&versions);
    let config = config(directory.path(), &origin, "[memory]\nsize = '2MiB'").replace("64MiB", "24MiB");
    let mut rng = Rng::with_seed(seed);
    let (mut answered, mut kept) = (0, 0);
    for cycle in 0..cycles {
        let larder = Larder::start(&config);
        ready(&larder);
        kept += larder.stats()["disks"][0]["objects"].as_u64().unwrap_or(0);
        let (stop, wrong) = (AtomicBool::new(false), Mutex::new(None));
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (seed, address) = (rng.u64(..) ^ client, larder.address());
                    let (stop, wrong) = (&stop, &wrong);
                    scope.spawn(move || match load(address, seed, stop) {
                        Ok(answered) => answered,
                        Err(why) => {
                            *wrong.lock().unwrap() = Some(why);
                            0
                        }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(rng.u64(100..700)));
            larder.signal(Signal::KILL);
            stop.store(true, Ordering::Relaxed);
            answered += clients.into_iter().map(|client| client.join().unwrap()).sum::<u64>();
        });
        assert_eq!(*wrong.lock().unwrap(), None, "cycle {cycle} of seed {seed}");
        drop(larder);
    }
    assert!(
        answered > 20 * cycles && kept > 20 * (cycles - 1),
        "{answered} answers, {kept} objects found again"
    );
    println!("{cycles} kills, {answered} answers, {kept} objects found again in all");
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
        let ask = |larder: &Larder, requests: &[usize]| {
            let mut client = larder.client();
            for n in requests {
                client.ask(&format!("GET /{n}"));
            }
        };
        ask(&larder, &requests[..REQUESTS / 2]);
        let before = origin.count();
        if restarts {
            eventually("nothing to write", || {
                (larder.stats()["disks"][0]["bytes_queued"] == 0).then_some(())
            });
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
