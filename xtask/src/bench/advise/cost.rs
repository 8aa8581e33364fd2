//! What shadow caches cost: CPU of a hit of 1 KiB, and memory once they are full, of a larder with them over one without.

use crate::bench::goal::Goal;
use crate::bench::lap::Lap;
use crate::bench::load::{self, Script};
use crate::bench::measure::median;
use crate::bench::options::claim_cores;
use crate::bench::origin::Origin;
use crate::bench::peers::{self, Peer, Programs, Setup, Start, Which};
use crate::bench::server::{self, RunningServer};
use crate::bench::table::{self, Cell, Row};
use crate::bench::{CONNECTIONS, process};
use crate::packages;
use anyhow::{Result, bail};
use std::path::Path;
use std::time::Duration;

/// The objects that all fit, and their order.
const STORED: u64 = 10_000;
const STRIDE: u64 = 7_919;
/// The objects that fill the shadows, and of which few fit.
const DISTINCT: u64 = 200_000;
const BYTES: u64 = 1 << 10;
const ROUNDS: usize = 7;
const DURATION: Duration = Duration::from_secs(3);
/// The most CPU over that without shadows, and the most memory more, in MiB.
const MOST: f64 = 1.02;
const MOST_MIB: f64 = 16.0;

/// Measures both, prints a table, and returns the goals. Errors: a program is missing, or a request is not answered
/// from the cache.
pub(super) fn run(larder: &Path) -> Result<Vec<Goal>> {
    if !packages::missing([&packages::WRK]).is_empty() {
        bail!("not installed: wrk (run: apt-get install wrk)");
    }
    claim_cores(&server::in_memory())?;
    let (programs, origin) = (Programs::given(larder), Origin::start());
    let on = Peer::apart("advise on", Which::Larder, None, |setup| configure(setup, "on"));
    let off = Peer::apart("advise off", Which::Larder, None, |setup| configure(setup, "off"));
    let both =
        [RunningServer::start(&on, &programs, &origin)?, RunningServer::start(&off, &programs, &origin)?];
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    let path = |number| format!("/1k/{number}");
    for larder in &both {
        lap(larder, &path).run(0..STORED)?;
    }
    let loads = [
        ("one object", Script::walk("/1k/", 1, STRIDE)?),
        ("10,000 objects", Script::walk("/1k/", STORED, STRIDE)?),
        ("10,000 objects by Zipf's law", Script::zipf("/1k/", STORED)?),
    ];
    for (name, script) in &loads {
        let (samples, ratio) = compare(&both, script, &origin)?;
        rows.extend(samples.into_iter().zip(&both).map(|(cpu, larder)| row(name, larder, "CPU us", cpu)));
        goals.push(Goal::new(format!("CPU of a hit of {name}: on / off"), MOST, ratio));
    }
    let path = |number| format!("/1k/new/{number}");
    for larder in &both {
        lap(larder, &path).run(0..DISTINCT)?;
    }
    let resident = [memory(&both[0])?, memory(&both[1])?];
    let load = "200,000 new objects";
    rows.extend(resident.into_iter().zip(&both).map(|(mib, larder)| row(load, larder, "MiB", mib)));
    goals.push(Goal::new("MiB of memory for shadows".to_owned(), MOST_MIB, resident[0] - resident[1]));
    table::print(&rows);
    Ok(goals)
}

fn configure(setup: &Setup, advise: &str) -> Result<Start> {
    peers::larder_of_site(setup, &format!("advise = \"{advise}\"\nmemory.size = \"64MiB\"\n"), "")
}

fn lap<'a>(larder: &RunningServer, path: &'a (dyn Fn(u64) -> String + Sync)) -> Lap<'a> {
    Lap { port: larder.port, length: BYTES, connections: 4, depth: 8, path }
}

/// Returns the CPU time of a hit in microseconds for each larder, and the median of the ratios of the rounds.
fn compare(both: &[RunningServer; 2], script: &Script, origin: &Origin) -> Result<([f64; 2], f64)> {
    let mut samples = [Vec::new(), Vec::new()];
    for larder in both {
        // The sample becomes smaller in the first seconds of a load.
        load::run(script, larder.port, "/1k/0", CONNECTIONS, DURATION)?;
    }
    let asked = origin.requests();
    for _ in 0..ROUNDS {
        for (larder, samples) in both.iter().zip(&mut samples) {
            let load = || load::run(script, larder.port, "/1k/0", CONNECTIONS, DURATION);
            let (used, load) = larder.cpu_during(load)?;
            samples.push(used / load.requests as f64);
        }
    }
    if origin.requests() != asked {
        bail!("the origin was asked {} times for what was stored", origin.requests() - asked);
    }
    let ratios = samples[0].iter().zip(&samples[1]).map(|(on, off)| on / off).collect();
    Ok((samples.map(median), median(ratios)))
}

/// Returns the resident memory in MiB.
fn memory(larder: &RunningServer) -> Result<f64> {
    Ok(process::resident(&larder.processes()?)? as f64 / f64::from(1 << 20))
}

fn row(load: &str, larder: &RunningServer, unit: &str, figure: f64) -> Row {
    vec![
        ("load", Cell::word(load)),
        ("larder", Cell::word(larder.name)),
        ("unit", Cell::word(unit)),
        ("figure", Cell::number(figure, 2)),
    ]
}
