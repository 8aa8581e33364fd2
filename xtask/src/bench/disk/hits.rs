//! Hits of a working set in the page cache, by CPU time, and of one outside of it, by requests per second.

use super::super::lap::Lap;
use super::super::load::Script;
use super::super::measure::{self, Expect, Object, Sample, median};
use super::super::peers::{Peer, Which};
use super::super::server::RunningServer;
use super::super::table::{Cell, Row};
use super::super::{CONNECTIONS, process};
use super::servers::{DISK, MEMORY, NGINX, NGINX_AIO, forget_pages, ready, written};
use super::{Bench, Goal, Part};
use anyhow::{Context, Result, bail};

/// Objects of one size, which are requested in turn.
struct Set {
    object: Object,
    count: u64,
}

const SETS: [Set; 3] = [
    Set {
        object: Object { name: "4 KiB", path: "/4k/", length: 4 << 10, connections: CONNECTIONS },
        // As many files as nginx can keep open if a process may have no more than 20,000.
        count: 16_000,
    },
    Set {
        object: Object { name: "64 KiB", path: "/64k/", length: 64 << 10, connections: CONNECTIONS },
        count: 2_000,
    },
    // Few connections: requests in flight at the end of a round cost CPU time and are not counted.
    Set { object: Object { name: "10 MiB", path: "/10m/", length: 10 << 20, connections: 4 }, count: 40 },
];

/// The step from one object to the next: a prime that divides none of the counts, so that a walk visits each object,
/// and not in the order on the disk.
const STRIDE: u64 = 7919;

/// The number of laps after which everything has to be stored.
const LAPS: u32 = 10;
/// The maximum number of connections of a lap.
const LAP_CONNECTIONS: u32 = 16;

/// The minimum share of the hits that come from the disk, to count as disk hits.
const FROM_DISK: f64 = 0.9;

/// The data of a table of hits: a server and its samples, one for each round.
struct Entrant<'a, S> {
    server: &'a RunningServer,
    samples: Vec<S>,
}

/// A lap over files that are not in memory.
struct Cold {
    per_second: f64,
    /// Bytes read from storage for each byte of the set.
    read: f64,
}

/// Returns the rows of the sets in the page cache, and of those larger than it.
pub(super) fn measure(bench: &Bench, goals: &mut Vec<Goal>) -> Result<[Vec<Row>; 2]> {
    let [mut warm_rows, mut cold_rows] = [Vec::new(), Vec::new()];
    for set in &SETS {
        let servers = start(bench, set)?;
        if bench.has(Part::Hits) {
            let chosen = servers.iter().filter(|server| server.name != NGINX_AIO.name);
            let entrants = warm(bench, set, chosen)?;
            goals.extend(warm_goals(set, &entrants));
            warm_rows.extend(warm_summary(set, &entrants));
        }
        if bench.has(Part::Cold) {
            let chosen = servers.iter().filter(|server| [DISK.name, NGINX_AIO.name].contains(&server.name));
            cold_rows.extend(cold_summary(set, &cold(bench, set, chosen)?));
        }
    }
    Ok([warm_rows, cold_rows])
}

/// Starts the servers that the parts need, each with the whole set stored.
fn start(bench: &Bench, set: &Set) -> Result<Vec<RunningServer>> {
    let (hits, cold) = (bench.has(Part::Hits), bench.has(Part::Cold));
    let peers: [(Peer, bool); 4] = [(MEMORY, hits), (DISK, true), (NGINX, hits), (NGINX_AIO, cold)];
    let chosen = peers.iter().filter(|(peer, needed)| *needed && bench.takes(peer));
    let mut servers = Vec::new();
    for (peer, _) in chosen {
        eprintln!("{}: filling {}", set.object.name, peer.name);
        let server = bench.start(peer)?;
        fill(bench, set, &server).with_context(|| format!("{} at {}", server.name, set.object.name))?;
        servers.push(server);
    }
    Ok(servers)
}

/// Fetches all objects until no more requests reach the origin.
fn fill(bench: &Bench, set: &Set, server: &RunningServer) -> Result<()> {
    ready(server)?;
    for _ in 0..LAPS {
        let before = bench.origin.requests();
        set.lap(server, &|number| format!("{}{number}", set.object.path))?;
        written(server)?;
        if bench.origin.requests() == before {
            return Ok(());
        }
    }
    bail!("not all of {} objects are stored after {LAPS} laps", set.count)
}

impl Set {
    /// Fetches each object once; returns objects per second.
    fn lap(&self, server: &RunningServer, path: &(dyn Fn(u64) -> String + Sync)) -> Result<f64> {
        let connections = self.object.connections.min(LAP_CONNECTIONS) as usize;
        let lap = Lap { port: server.port, length: self.object.length, connections, depth: 1, path };
        Ok(self.count as f64 / lap.run(0..self.count)?.as_secs_f64())
    }
}

fn warm<'a>(
    bench: &Bench,
    set: &Set,
    servers: impl Iterator<Item = &'a RunningServer>,
) -> Result<Vec<Entrant<'a, (Sample, f64)>>> {
    let script = Script::walk(set.object.path, set.count, STRIDE)?;
    let mut entrants: Vec<_> = servers.map(|server| Entrant { server, samples: Vec::new() }).collect();
    for round in 1..=bench.options.common.rounds {
        eprintln!("{} in the page cache: round {round} of {}", set.object.name, bench.options.common.rounds);
        for Entrant { server, samples } in &mut entrants {
            let sample = warm_sample(bench, set, server, &script);
            samples.push(sample.with_context(|| format!("{} at {}", server.name, set.object.name))?);
        }
    }
    Ok(entrants)
}

/// Returns a sample, and the share of the hits that came from the disk.
fn warm_sample(bench: &Bench, set: &Set, server: &RunningServer, script: &Script) -> Result<(Sample, f64)> {
    let counts = || -> Result<[f64; 2]> {
        let stats = if server.which == Which::Larder { server.stats()? } else { serde_json::Value::Null };
        Ok(["hits", "disk_hits"].map(|name| stats[name].as_f64().unwrap_or_default()))
    };
    let before = counts()?;
    let duration = bench.options.common.duration;
    let sample = measure::sample(server, &set.object, Expect::Cached, duration, bench.origin, script)?;
    let after = counts()?;
    let share = (after[1] - before[1]) / (after[0] - before[0]);
    if server.name == DISK.name && share < FROM_DISK {
        bail!("only {:.0}% of the hits came from the disk", share * 100.0);
    }
    Ok((sample, share))
}

/// Returns the ratio of a server's CPU time to another's, by rounds.
fn ratio(own: &[(Sample, f64)], base: &[(Sample, f64)]) -> f64 {
    median(own.iter().zip(base).map(|(own, base)| own.0.cpu / base.0.cpu).collect())
}

fn samples_of<'a, S>(entrants: &'a [Entrant<S>], name: &str) -> &'a [S] {
    entrants.iter().find(|entrant| entrant.server.name == name).map_or(&[], |entrant| &entrant.samples)
}

fn warm_summary(set: &Set, entrants: &[Entrant<(Sample, f64)>]) -> Vec<Row> {
    let [memory, nginx] = [MEMORY.name, NGINX.name].map(|name| samples_of(entrants, name));
    let row = |Entrant { server, samples }: &Entrant<(Sample, f64)>| {
        let of = |figure: fn(&(Sample, f64)) -> f64| median(samples.iter().map(figure).collect());
        let share = match server.which {
            Which::Larder => Cell::number(of(|sample| sample.1) * 100.0, 1),
            _ => Cell::word("-"),
        };
        vec![
            ("size", Cell::word(set.object.name)),
            ("server", Cell::word(server.name)),
            ("CPU us/hit", Cell::number(of(|sample| sample.0.cpu), 2)),
            ("x memory", Cell::number(ratio(samples, memory), 2)),
            ("x nginx", Cell::number(ratio(samples, nginx), 2)),
            ("requests/s", Cell::number(of(|sample| sample.0.per_second), 0)),
            ("from disk %", share),
        ]
    };
    entrants.iter().map(row).collect()
}

fn warm_goals(set: &Set, entrants: &[Entrant<(Sample, f64)>]) -> Vec<Goal> {
    let [memory, disk, nginx] = [MEMORY.name, DISK.name, NGINX.name].map(|name| samples_of(entrants, name));
    let size = set.object.name;
    vec![
        Goal::new(format!("CPU per hit from disk, {size}, x memory"), 1.5, ratio(disk, memory)),
        Goal::new(format!("CPU per hit from disk, {size}, x nginx"), 1.0, ratio(disk, nginx)),
    ]
}

fn cold<'a>(
    bench: &Bench,
    set: &Set,
    servers: impl Iterator<Item = &'a RunningServer>,
) -> Result<Vec<Entrant<'a, Cold>>> {
    let mut entrants: Vec<_> = servers.map(|server| Entrant { server, samples: Vec::new() }).collect();
    for round in 1..=bench.options.common.rounds {
        eprintln!(
            "{} beyond the page cache: round {round} of {}",
            set.object.name, bench.options.common.rounds
        );
        for Entrant { server, samples } in &mut entrants {
            let sample = cold_sample(bench, set, server);
            samples.push(sample.with_context(|| format!("{} at {}", server.name, set.object.name))?);
        }
    }
    Ok(entrants)
}

/// Measures a lap after the page cache was emptied.
fn cold_sample(bench: &Bench, set: &Set, server: &RunningServer) -> Result<Cold> {
    forget_pages(server.folder())?;
    let processes = server.processes()?;
    let (asked, before) = (bench.origin.requests(), process::read_from_storage(&processes)?);
    let path = |number| format!("{}{}", set.object.path, number * STRIDE % set.count);
    let per_second = set.lap(server, &path)?;
    let read = process::read_from_storage(&processes)?.saturating_sub(before);
    match bench.origin.requests() - asked {
        0 => Ok(Cold { per_second, read: read as f64 / (set.count * set.object.length) as f64 }),
        missed => bail!("asked the origin {missed} times for what it had stored"),
    }
}

fn cold_summary(set: &Set, entrants: &[Entrant<Cold>]) -> Vec<Row> {
    let nginx = samples_of(entrants, NGINX_AIO.name);
    let row = |Entrant { server, samples }: &Entrant<Cold>| {
        let of = |figure: fn(&Cold) -> f64| median(samples.iter().map(figure).collect());
        let ratios = samples.iter().zip(nginx).map(|(own, nginx)| own.per_second / nginx.per_second);
        let per_second = of(|sample| sample.per_second);
        vec![
            ("size", Cell::word(set.object.name)),
            ("server", Cell::word(server.name)),
            ("requests/s", Cell::number(per_second, 0)),
            ("x nginx-aio", Cell::number(median(ratios.collect()), 2)),
            ("MiB/s", Cell::number(per_second * set.object.length as f64 / f64::from(1 << 20), 0)),
            ("bytes read/byte", Cell::number(of(|sample| sample.read), 2)),
        ]
    };
    entrants.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::{SETS, STRIDE};
    use std::collections::HashSet;

    #[test]
    fn a_walk_comes_to_each_object() {
        for set in &SETS {
            let visited: HashSet<_> = (0..set.count).map(|number| number * STRIDE % set.count).collect();
            assert_eq!(visited.len() as u64, set.count, "{}", set.object.name);
        }
    }
}
