//! Writes of a full disk: each stored object replaces another. Measures the cost of a stored object, and the bytes
//! written for it.

use super::super::lap::Lap;
use super::super::measure::median;
use super::super::peers::Which;
use super::super::process;
use super::super::server::RunningServer;
use super::super::table::{Cell, Row};
use super::servers::{SMALL, WRITTEN, figure, occupied, ready, written};
use super::{Bench, Goal};
use anyhow::{Context, Result};
use std::ops::Range;
use std::time::Instant;

const BODY: u64 = 10 << 10;
/// The number of objects that would fill the disk if they consisted only of their bodies.
const FULL: u64 = SMALL / BODY;
const CONNECTIONS: usize = 32;

/// The requests of a load.
struct Workload {
    name: &'static str,
    /// The object of a request, by the request's number.
    object: fn(u64) -> u64,
    /// The number of requests that store about as much as the disk holds.
    requests: u64,
}

const WORKLOADS: [Workload; 2] = [
    Workload { name: "unique", object: |number| number, requests: FULL },
    Workload { name: "zipf", object: popular, requests: 2 * FULL },
];

/// The number of objects of a `zipf` load: eight times as many as fit.
const OBJECTS: u64 = 8 * FULL;

/// Returns an object by Zipf's law with exponent 0.9, through the inverse of its integral; the result is the same for
/// the same number.
fn popular(number: u64) -> u64 {
    let share = (mixed(number) >> 11) as f64 / (1_u64 << 53) as f64;
    let rank = (share * ((OBJECTS as f64).powf(0.1) - 1.0) + 1.0).powi(10) as u64;
    rank.min(OBJECTS)
}

/// Returns a number that looks random (the finaliser of SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
fn mixed(number: u64) -> u64 {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

/// A round with one server.
struct Sample {
    requests_per_second: f64,
    stored_per_second: f64,
    /// CPU time for a request, in microseconds.
    cpu: f64,
    /// The share of the bytes from the origin that was not stored.
    lost: f64,
}

/// Bytes of objects accepted, and bytes written for them.
#[derive(Clone, Copy)]
struct ByteCounts {
    accepted: f64,
    written: f64,
}

/// A server, its written bytes when it was full, and its samples.
struct Entrant {
    server: RunningServer,
    when_full: ByteCounts,
    samples: Vec<Sample>,
}

/// Returns the table of all workloads.
pub(super) fn measure(bench: &Bench, goals: &mut Vec<Goal>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for workload in &WORKLOADS {
        let entrants = rounds(bench, workload)?;
        for entrant in &entrants {
            let amplification = entrant.amplification()?;
            rows.push(entrant.row(workload, amplification)?);
            let most = match entrant.server.name {
                "larder-fifo" => 1.05,
                "larder-lru" => 1.5,
                _ => continue,
            };
            let what = format!("write amplification, {}, {}", entrant.server.name, workload.name);
            goals.push(Goal::new(what, most, amplification));
        }
    }
    Ok(rows)
}

fn rounds(bench: &Bench, workload: &Workload) -> Result<Vec<Entrant>> {
    let full = 2 * workload.requests;
    let mut entrants = Vec::new();
    for peer in WRITTEN.iter().filter(|peer| bench.takes(peer)) {
        eprintln!("{}: filling {}", workload.name, peer.name);
        let server = bench.start(peer)?;
        ready(&server)?;
        sample(bench, workload, &server, 0..full).with_context(|| peer.name.to_owned())?;
        let when_full = ByteCounts::of(&server)?;
        entrants.push(Entrant { server, when_full, samples: Vec::new() });
    }
    for round in 0..u64::from(bench.options.common.rounds) {
        eprintln!("{} round {} of {}", workload.name, round + 1, bench.options.common.rounds);
        let first = full + round * workload.requests;
        for Entrant { server, samples, .. } in &mut entrants {
            let sample = sample(bench, workload, server, first..first + workload.requests);
            samples.push(sample.with_context(|| server.name.to_owned())?);
        }
    }
    Ok(entrants)
}

/// Sends the requests of these numbers, and waits until all their objects are written.
fn sample(bench: &Bench, workload: &Workload, server: &RunningServer, numbers: Range<u64>) -> Result<Sample> {
    let stored = || match server.which {
        Which::Larder => figure(server, "stored"),
        _ => Ok(bench.origin.requests() as f64),
    };
    let processes = server.processes()?;
    let (asked, stored_before, used) = (bench.origin.requests(), stored()?, process::cpu_time(&processes)?);
    let requests = (numbers.end - numbers.start) as f64;
    let path = |number| format!("/10k/{}", (workload.object)(number));
    let lap = Lap { port: server.port, length: BODY, connections: CONNECTIONS, depth: 1, path: &path };
    let began = Instant::now();
    lap.run(numbers)?;
    written(server)?;
    let seconds = began.elapsed().as_secs_f64();
    let asked = (bench.origin.requests() - asked) as f64;
    let stored = stored()? - stored_before;
    let used = process::cpu_time(&processes)?.saturating_sub(used);
    Ok(Sample {
        requests_per_second: requests / seconds,
        stored_per_second: stored / seconds,
        cpu: used.as_secs_f64() * 1e6 / requests,
        lost: (1.0 - stored / asked).max(0.0),
    })
}

impl ByteCounts {
    fn of(server: &RunningServer) -> Result<Self> {
        Ok(Self { accepted: figure(server, "bytes_accepted")?, written: figure(server, "bytes_written")? })
    }
}

impl Entrant {
    /// Returns the bytes written for each byte stored since the disk was full.
    fn amplification(&self) -> Result<f64> {
        let now = ByteCounts::of(&self.server)?;
        Ok((now.written - self.when_full.written) / (now.accepted - self.when_full.accepted))
    }

    fn row(&self, workload: &Workload, amplification: f64) -> Result<Row> {
        let of = |figure: fn(&Sample) -> f64| median(self.samples.iter().map(figure).collect());
        let told = |value: f64, decimals| match self.server.which {
            Which::Larder => Cell::number(value, decimals),
            _ => Cell::word("-"),
        };
        let live = figure(&self.server, "bytes_live")? / SMALL as f64;
        Ok(vec![
            ("load", Cell::word(workload.name)),
            ("server", Cell::word(self.server.name)),
            ("requests/s", Cell::number(of(|sample| sample.requests_per_second), 0)),
            ("stored/s", Cell::number(of(|sample| sample.stored_per_second), 0)),
            ("CPU us/request", Cell::number(of(|sample| sample.cpu), 1)),
            ("not stored %", told(of(|sample| sample.lost) * 100.0, 2)),
            ("bytes written/byte", told(amplification, 3)),
            ("live %", told(live * 100.0, 1)),
            ("MiB taken", Cell::number(occupied(self.server.folder())? as f64 / f64::from(1 << 20), 1)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::{OBJECTS, popular};

    #[test]
    fn popular_objects_are_asked_for_far_more_often() {
        let objects: Vec<u64> = (0..100_000).map(popular).collect();
        let of = |wanted: u64| objects.iter().filter(|&&object| object == wanted).count();
        assert!(objects.iter().all(|object| (1..=OBJECTS).contains(object)));
        assert!(of(1) > 20 * of(50) && of(50) > 0, "{} and {}", of(1), of(50));
    }

    #[test]
    fn a_number_always_means_the_same_object() {
        assert_eq!(popular(7), popular(7));
        assert_ne!(popular(7), popular(8));
    }
}
