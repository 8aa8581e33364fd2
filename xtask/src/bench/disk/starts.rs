//! Starts with many objects: the time until the first byte of a hit and of a miss, after a clean shutdown and after a
//! kill; and the memory of an object on the disk.

use super::super::lap::Lap;
use super::super::measure::median;
use super::super::process;
use super::super::server::RunningServer;
use super::super::table::{Cell, Row};
use super::servers::{DISK, figure, forget_pages, ready, written};
use super::{Bench, Goal};
use crate::client::Client;
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const BODY: u64 = 512;
const CONNECTIONS: usize = 32;
/// The number of pipelined requests during filling, which is not measured.
const DEPTH: usize = 16;
/// The minimum share of stored objects: if the write queue is full, some may be dropped.
const STORED: f64 = 0.99;

/// The maximum wait for a hit, and the time between two tries.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(1);

/// The file without which a start has to read the heads of all records.
const SNAPSHOT: &str = "disk/index.larder";

/// The way in which the server ends before it starts again.
struct End {
    name: &'static str,
    signal: Signal,
    loses_snapshot: bool,
    /// Whether its files are removed from the page cache then.
    forgets_pages: bool,
}

const fn end(name: &'static str, signal: Signal, loses_snapshot: bool, forgets_pages: bool) -> End {
    End { name, signal, loses_snapshot, forgets_pages }
}

const ENDS: [End; 6] = [
    end("TERM", Signal::TERM, false, false),
    end("TERM, page cache empty", Signal::TERM, false, true),
    end("KILL", Signal::KILL, false, false),
    end("KILL, page cache empty", Signal::KILL, false, true),
    end("KILL, no snapshot", Signal::KILL, true, false),
    end("KILL, no snapshot, page cache empty", Signal::KILL, true, true),
];

/// Seconds since the start of the process, and its memory.
struct Sample {
    miss: f64,
    hit: f64,
    /// The time until all objects are known.
    ready: f64,
    resident: u64,
}

/// Returns the table of starts.
pub(super) fn measure(bench: &Bench, goals: &mut Vec<Goal>) -> Result<Vec<Row>> {
    let mut server = bench.start(&DISK)?;
    ready(&server)?;
    let empty = process::resident(&server.processes()?)?;
    fill(bench, &server)?;
    let objects = figure(&server, "objects")?;
    let index = figure(&server, "bytes_of_memory")? / objects;
    let mut samples: [Vec<Sample>; ENDS.len()] = Default::default();
    let mut asked = 0;
    for round in 1..=bench.options.common.rounds {
        eprintln!("starts: round {round} of {}", bench.options.common.rounds);
        for (end, samples) in ENDS.iter().zip(&mut samples) {
            samples.push(restart(bench, &mut server, end, &mut asked).context(end.name)?);
        }
    }
    let resident = |sample: &Sample| (sample.resident as f64 - empty as f64) / objects;
    let rows = ENDS.iter().zip(&samples).map(|(end, samples)| {
        let of = |figure: &dyn Fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
        vec![
            ("after", Cell::word(end.name)),
            ("first miss s", Cell::number(of(&|sample| sample.miss), 3)),
            ("first hit s", Cell::number(of(&|sample| sample.hit), 3)),
            ("all known s", Cell::number(of(&|sample| sample.ready), 3)),
            ("index bytes/object", Cell::number(index, 1)),
            ("resident bytes/object", Cell::number(of(&resident), 1)),
        ]
    });
    let rows = rows.collect();
    let orderly = |figure: fn(&Sample) -> f64| median(samples[0].iter().map(figure).collect());
    goals.extend([
        Goal::new("seconds to the first hit".into(), 1.0, orderly(|sample| sample.hit)),
        Goal::new("seconds to the first miss".into(), 1.0, orderly(|sample| sample.miss)),
        Goal::new("bytes of memory an object".into(), 64.0, index),
    ]);
    Ok(rows)
}

fn path(object: u64) -> String {
    format!("/512/{object:08}")
}

fn fill(bench: &Bench, server: &RunningServer) -> Result<()> {
    let objects = bench.options.objects;
    eprintln!("starts: storing {objects} objects");
    let lap = Lap { port: server.port, length: BODY, connections: CONNECTIONS, depth: DEPTH, path: &path };
    lap.run(0..objects.into())?;
    written(server)?;
    let stored = figure(server, "objects")?;
    if stored < STORED * f64::from(objects) {
        bail!("only {stored} of {objects} objects are on the disk");
    }
    Ok(())
}

/// Ends the server, starts it again, and requests an object that it never had and one that it has. `asked` counts the
/// requests: none is repeated, so that no hit is an object stored after the start.
fn restart(bench: &Bench, server: &mut RunningServer, end: &End, asked: &mut u64) -> Result<Sample> {
    server.end(end.signal)?;
    if end.loses_snapshot {
        forget(&server.folder().join(SNAPSHOT))?;
    }
    if end.forgets_pages {
        forget_pages(server.folder())?;
    }
    let began = Instant::now();
    server.start_again()?;
    let mut client = Client::connect(server.port)?;
    *asked += 1;
    client.get(&format!("/512/new-{asked}"))?;
    let miss = began.elapsed();
    let hit = loop {
        let before = bench.origin.requests();
        *asked += 1;
        client.get(&path(*asked % u64::from(bench.options.objects)))?;
        if bench.origin.requests() == before {
            break began.elapsed();
        }
        if began.elapsed() > LIMIT {
            bail!("nothing is found after {} s", LIMIT.as_secs());
        }
        sleep(PAUSE);
    };
    ready(server)?;
    let ready = began.elapsed();
    let resident = process::resident(&server.processes()?)?;
    let [miss, hit, ready] = [miss, hit, ready].map(|time| time.as_secs_f64());
    Ok(Sample { miss, hit, ready, resident })
}

/// Removes a file, if it exists.
fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
