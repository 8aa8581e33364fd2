//! `cargo x bench replay`: the speed of replaying traces, compared with libCacheSim's `cachesim` if it is installed.
//!
//! Both programs get the same file and the same capacities on one thread, in turns. A speed is the program's own
//! measurement of its loop, the best of the rounds; a sweep is a whole process, including reading.

use super::goal::Goal;
use super::process::children_time;
use super::table::{self, Cell};
use super::{peers, warn_if_busy};
use crate::{args, root};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const REQUESTS: usize = 1_000_000;
const OBJECTS: usize = 100_000;

/// The policies, with libCacheSim's names for them.
const POLICIES: &[(&str, &str)] = &[
    ("fifo", "fifo"),
    ("lru", "lru"),
    ("sieve", "sieve"),
    ("clock", "clock"),
    ("s3fifo", "s3fifo"),
    ("slru", "slru"),
    ("2q", "twoq"),
    ("arc", "arc"),
    ("lfu", "lfu"),
    ("gdsf", "gdsf"),
    ("wtinylfu", "wtinylfu"),
    ("rand", "random"),
];

/// The capacity in the table of speeds, and the capacities of the sweep: shares of all objects or bytes.
const SHARE: &str = "10%";
const SWEEP: &str = "0.1%,0.3%,1%,3%,10%,20%,30%,50%";

/// The options of `cargo x bench replay`.
pub(crate) struct Options {
    against: Option<PathBuf>,
    traces: Vec<PathBuf>,
    rounds: u32,
    json: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `bench replay`. Fails on an unknown word, or an invalid value; the error names it.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let known = [
            ("--quick", false),
            ("--against", true),
            ("--trace", true),
            ("--rounds", true),
            ("--json", true),
        ];
        let words = args::parse(words, &known)?;
        Ok(Self {
            against: words.path("--against"),
            traces: words.paths("--trace"),
            rounds: words.number("--rounds", if words.has("--quick") { 1 } else { 3 })?,
            json: words.path("--json"),
        })
    }
}

/// Runs the bench and prints its tables. It has no goals. Fails if a build fails, or a program does not print the
/// expected output.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let larder = peers::program(None)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let rows = measure(options, &larder, folder.path())?;
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(Vec::new())
}

fn measure(options: &Options, larder: &Path, folder: &Path) -> Result<Vec<table::Row>> {
    let generated = folder.join("zipf.oracleGeneral");
    fs::write(&generated, zipf()).with_context(|| format!("cannot write {}", generated.display()))?;
    let mut traces = vec![generated.clone()];
    traces.extend(if options.traces.is_empty() { shipped()? } else { options.traces.clone() });
    let peer = peer(options.against.as_deref())?;
    if peer.is_none() {
        println!("no cachesim on the path; build libCacheSim and name it by --against to compare");
    }
    warn_if_busy();
    println!("speeds in million requests a second on one core, capacity {SHARE}");
    let programs = Programs { larder, peer: peer.as_deref(), folder };
    let mut rows = Vec::new();
    for trace in &traces {
        rows.extend(programs.speeds(trace, options.rounds)?);
    }
    table::print(&rows);
    println!(
        "\n{} policies at {} sizes, {REQUESTS} requests, one thread, reading included",
        POLICIES.len(),
        SWEEP.split(',').count()
    );
    table::print(&programs.sweeps(&generated, options.rounds)?);
    Ok(rows)
}

/// Returns the larder's cells, in order of capacity, then policy.
pub(super) fn simulate(larder: &Path, trace: &Path, policies: &str, capacities: &str) -> Result<Vec<Value>> {
    let mut command = Command::new(larder);
    command.args(["simulate", "--json", "--threads", "1", "--policy", policies]);
    command.args(["--capacity", capacities]).arg(trace);
    let mut said: Value = serde_json::from_str(&output(&mut command)?).context("reading larder's JSON")?;
    match said["cells"].take() {
        Value::Array(cells) if !cells.is_empty() => Ok(cells),
        _ => bail!("larder simulated nothing over {}", trace.display()),
    }
}

/// Returns `path`, or a `cachesim` on the path.
fn peer(path: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(path) = path {
        let full = path.canonicalize().with_context(|| format!("no program at {}", path.display()))?;
        return Ok(Some(full));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::split_paths(&folders).map(|folder| folder.join("cachesim")).find(|path| path.is_file()))
}

/// Returns the shipped traces.
pub(super) fn shipped() -> Result<Vec<PathBuf>> {
    let folder = root().join("traces");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut traces: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    traces.retain(|path| path.extension().is_some_and(|extension| extension == "zst"));
    traces.sort();
    Ok(traces)
}

struct Programs<'a> {
    larder: &'a Path,
    peer: Option<&'a Path>,
    folder: &'a Path,
}

/// A program's results for one policy at one capacity.
#[derive(Clone, Copy)]
struct ReplayResult {
    miss_ratio: f64,
    /// Million requests per second; NaN if the program does not print them.
    speed: f64,
}

impl Programs<'_> {
    /// Returns a row for each policy.
    fn speeds(&self, trace: &Path, rounds: u32) -> Result<Vec<table::Row>> {
        let name = trace.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        let cells =
            (0..rounds).map(|_| simulate(self.larder, trace, &ours(), SHARE)).collect::<Result<Vec<_>>>()?;
        let mut rows = Vec::new();
        for (at, (policy, theirs)) in POLICIES.iter().enumerate() {
            let first = &cells[0][at];
            let speed = best(cells.iter().map(|cells| number(&cells[at], "requests_per_second") / 1e6));
            let mut row = vec![
                ("trace", Cell::word(&name)),
                ("policy", Cell::word(policy)),
                ("miss %", Cell::number(100.0 - 100.0 * number(first, "hit_ratio"), 2)),
                ("M/s", Cell::number(speed, 1)),
                ("B/object", Cell::number(number(first, "metadata_bytes_per_object"), 1)),
            ];
            if let Some(peer) = self.peer {
                let said = (0..rounds)
                    .map(|_| self.peer_says(peer, trace, theirs, first))
                    .collect::<Result<Vec<_>>>()?;
                let their_speed = best(said.iter().map(|said| said.speed));
                row.push(("libCacheSim miss %", Cell::number(100.0 * said[0].miss_ratio, 2)));
                row.push(("libCacheSim M/s", Cell::number(their_speed, 1)));
                row.push(("times as fast", Cell::number(speed / their_speed, 1)));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Returns a row for each program, with the minimum times of the rounds.
    fn sweeps(&self, trace: &Path, rounds: u32) -> Result<Vec<table::Row>> {
        let capacities: Vec<_> = simulate(self.larder, trace, "lru", SWEEP)?.iter().map(capacity).collect();
        let mut programs: Vec<(&str, Vec<[Duration; 2]>)> = vec![("larder", Vec::new())];
        programs.extend(self.peer.map(|_| ("cachesim", Vec::new())));
        for _ in 0..rounds {
            programs[0].1.push(timed(|| simulate(self.larder, trace, &ours(), SWEEP).map(drop))?);
            if let Some(peer) = self.peer {
                let theirs: Vec<_> = POLICIES.iter().map(|(_, theirs)| *theirs).collect();
                let run =
                    || self.cachesim(peer, trace, &theirs.join(","), &capacities.join(","), true).map(drop);
                programs[1].1.push(timed(run)?);
            }
        }
        let least = |times: &[[Duration; 2]], at: usize| {
            times.iter().map(|time| time[at]).min().unwrap_or_default().as_secs_f64()
        };
        let ours = [least(&programs[0].1, 0), least(&programs[0].1, 1)];
        let row = |(name, times): &(&str, Vec<[Duration; 2]>)| {
            vec![
                ("program", Cell::word(name)),
                ("seconds", Cell::number(least(times, 0), 2)),
                ("CPU seconds", Cell::number(least(times, 1), 2)),
                ("x larder", Cell::number(least(times, 0) / ours[0], 1)),
                ("x larder's CPU", Cell::number(least(times, 1) / ours[1], 1)),
            ]
        };
        Ok(programs.iter().map(row).collect())
    }

    /// Returns cachesim's results for the larder's cell `ours`.
    fn peer_says(&self, peer: &Path, trace: &Path, policy: &str, ours: &Value) -> Result<ReplayResult> {
        let by_entries = ours["by"] == "entries";
        let text = self.cachesim(peer, trace, policy, &capacity(ours), by_entries)?;
        let said = text.lines().rev().find_map(said);
        said.with_context(|| format!("cachesim says nothing of {policy} over {}", trace.display()))
    }

    fn cachesim(
        &self,
        peer: &Path,
        trace: &Path,
        policies: &str,
        sizes: &str,
        by_entries: bool,
    ) -> Result<String> {
        let mut command = Command::new(peer);
        // It leaves a folder of results in its working directory.
        command.current_dir(self.folder).arg(trace).args(["oracleGeneral", policies, sizes]);
        command.args(["--num-thread", "1", "--ignore-obj-size", if by_entries { "1" } else { "0" }]);
        output(&mut command)
    }
}

fn ours() -> String {
    POLICIES.iter().map(|(ours, _)| *ours).collect::<Vec<_>>().join(",")
}

pub(super) fn number(cell: &Value, name: &str) -> f64 {
    cell[name].as_f64().unwrap_or(f64::NAN)
}

fn capacity(cell: &Value) -> String {
    cell["capacity"].to_string()
}

fn best(speeds: impl Iterator<Item = f64>) -> f64 {
    speeds.fold(0.0, f64::max)
}

/// Parses a line such as `... LRU cache size 10000, 200000 req, miss ratio 0.8152, throughput 6.07 MQPS`.
fn said(line: &str) -> Option<ReplayResult> {
    let after = |word: &str| {
        let rest = line.split_once(word)?.1.trim_start();
        rest.split([',', ' ']).next()?.parse().ok()
    };
    Some(ReplayResult { miss_ratio: after(", miss ratio")?, speed: after("throughput")? })
}

/// Returns the standard output of a command that has to succeed.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => bail!("{name} failed: {}", complaint.lines().last().unwrap_or_default()),
    }
}

/// Returns the elapsed and the processor time of the processes that `run` starts and waits for.
fn timed(run: impl FnOnce() -> Result<()>) -> Result<[Duration; 2]> {
    let (start, used) = (Instant::now(), children_time()?);
    run()?;
    Ok([start.elapsed(), children_time()?.saturating_sub(used)])
}

/// Returns a million requests whose popularity falls with the rank (Zipf, exponent 1), as oracleGeneral: records of
/// time, object, size and next access, which is "never", since no policy here reads it.
fn zipf() -> Vec<u8> {
    let mut total = 0.0;
    let cumulated: Vec<f64> = (1..=OBJECTS)
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    let mut state = 1_u64;
    let mut file = Vec::with_capacity(REQUESTS * 24);
    for at in 0..REQUESTS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = cumulated.partition_point(|&sum| sum <= share * total) as u64;
        record(&mut file, at as u32, rank);
    }
    file
}

/// Appends a request in second `at` to a trace: an oracleGeneral record of an object without a size.
pub(super) fn record(file: &mut Vec<u8>, at: u32, object: u64) {
    let fields =
        [&at.to_le_bytes()[..], &object.to_le_bytes(), &1_u32.to_le_bytes(), &(-1_i64).to_le_bytes()];
    fields.iter().for_each(|field| file.extend_from_slice(field));
}

#[cfg(test)]
mod tests {
    use super::{REQUESTS, said, zipf};

    #[test]
    fn the_peers_line_is_understood() {
        let line =
            "/t/z LRU cache size    10000,           200000 req, miss ratio 0.8152, throughput 6.07 MQPS";
        let said = said(line).unwrap();
        assert_eq!((said.miss_ratio, said.speed), (0.8152, 6.07));
        let interval =
            "sim.c:59 z LRU 24.00 hour: 86400 requests, miss ratio 0.8222, interval miss ratio 0.8222";
        assert!(super::said(interval).is_none());
    }

    #[test]
    fn the_first_object_is_asked_for_most() {
        let trace = zipf();
        let objects = trace.chunks(24).map(|record| u64::from_le_bytes(record[4..12].try_into().unwrap()));
        let first = objects.filter(|&object| object == 0).count();
        assert_eq!(trace.len(), REQUESTS * 24);
        // The expected share is about the inverse of the harmonic sum, a twelfth of a million.
        assert!((80_000..86_000).contains(&first), "{first}");
    }
}
