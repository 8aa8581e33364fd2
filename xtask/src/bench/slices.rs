//! `cargo x bench slices`: the CPU time of a hit of a range of 1 MiB in an object of 1 GiB that is stored by slices,
//! compared with that of a whole object of 1 MiB, and with the slices of nginx and trafficserver.
//!
//! The loads that are compared request as many objects as ranges, in turn. If it is the same object each time, what the
//! kernel knows of its pages stays in the processor's cache, which makes 1 MiB cheaper, however it is stored. Each round
//! starts the servers again: where their memory lies decides more than how a body is stored, and stays the same until they end.

use super::goal::Goal;
use super::load::{self, Script};
use super::measure::{median, ratio};
use super::options::{Options, claim_cores};
use super::origin::{self, Origin};
use super::peers::{self, NGINX, Peer, Programs, Setup, Start, TRAFFIC_SERVER, Which};
use super::server::{self, RunningServer};
use super::table::{self, Cell, Row};
use crate::packages::{self, Package};
use anyhow::{Context, Result, bail};
use std::time::Duration;

/// The maximum cost of a hit of a range over that of the object of the same length.
const MOST: f64 = 1.1;
/// The number of objects or ranges that are requested, and the bytes from one range to the next.
const RANGES: u64 = 64;
const STRIDE: u64 = 16 << 20;
const CONNECTIONS: u32 = 16;
/// The time in which each case is requested once, before it is measured.
const FILLING: Duration = Duration::from_secs(1);

/// The slices of trafficserver.
const PLUGIN: Package = Package {
    name: "trafficserver-experimental-plugins",
    program: "/usr/lib/trafficserver/modules/slice.so",
    purpose: "a part of a peer",
};

/// What a load requests in turn.
#[derive(Clone, Copy)]
enum RequestKind {
    /// This many objects of 1 MiB.
    Objects(u64),
    /// Ranges that begin this many bytes behind a border of slices.
    Ranges(u64),
}

/// The loads; the others are compared with the first.
const CASES: [(&str, RequestKind); 4] = [
    ("object of 1 MiB", RequestKind::Objects(RANGES)),
    ("range of one slice", RequestKind::Ranges(0)),
    ("range of two slices", RequestKind::Ranges(512 << 10)),
    ("the same object", RequestKind::Objects(1)),
];

/// Reads the words after `bench slices`.
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Options::parse(words, [2, 7])
}

/// A server, and the CPU microseconds of a request in each round, for each of the cases.
struct Measurement {
    peer: Peer,
    samples: [Vec<f64>; CASES.len()],
}

impl Measurement {
    /// Starts the server, requests everything once, and measures each of the cases.
    fn measure(&mut self, programs: &Programs, origin: &Origin, duration: Duration) -> Result<()> {
        let server = RunningServer::start(&self.peer, programs, origin)?;
        for (_, wanted) in CASES {
            measure(&server, wanted, FILLING)?;
        }
        let asked = origin.requests();
        for ((name, wanted), samples) in CASES.iter().zip(&mut self.samples) {
            samples.push(
                measure(&server, *wanted, duration).with_context(|| format!("{}, {name}", self.peer.name))?,
            );
        }
        if origin.requests() > asked {
            bail!("{} asked the origin for what it had stored", self.peer.name);
        }
        Ok(())
    }

    /// Returns the median of the ratios of a case to the whole object, round by round.
    fn ratio(&self, case: usize) -> f64 {
        ratio(&self.samples[case], &self.samples[0])
    }
}

/// Runs the bench, prints its table and goals, and returns the goals. Fails if wrk is missing, a build fails, or a
/// server asks the origin for what it has stored.
pub(super) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = options.missing(&[&packages::WRK], &[&NGINX, &TRAFFIC_SERVER, &PLUGIN])?;
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let entrants = [
        Peer::apart("larder", Which::Larder, None, peers::larder),
        Peer::apart("nginx", Which::Installed, Some(NGINX), nginx),
        Peer::apart("trafficserver", Which::Installed, Some(TRAFFIC_SERVER), trafficserver),
    ];
    let is_here =
        |peer: &Peer| peer.is_here(&missing) && (peer.name != "trafficserver" || !missing.contains(&&PLUGIN));
    let measured = entrants.into_iter().filter(is_here);
    let mut measured: Vec<_> =
        measured.map(|peer| Measurement { peer, samples: Default::default() }).collect();
    for _ in 0..options.rounds {
        for one in &mut measured {
            one.measure(&programs, &origin, options.duration)?;
        }
    }
    let rows: Vec<_> = measured.iter().flat_map(rows).collect();
    let goals: Vec<_> = measured.first().map(goals).unwrap_or_default();
    table::print(&rows);
    super::goal::print(&goals);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(goals)
}

/// Configures nginx with slices of 1 MiB for the large object.
fn nginx(setup: &Setup) -> Result<Start> {
    let slices = "location /1g { slice 1m; proxy_cache bench; proxy_cache_key $uri$slice_range; \
                  proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1h; \
                  proxy_set_header Connection \"\"; proxy_pass http://origin; }";
    let template = include_str!("peers/nginx.conf")
        .replace("@SIZE@", "1g")
        .replace("@MORE@", peers::NGINX_FRUGAL)
        .replace("location /miss {", &format!("{slices}\n        location /miss {{"));
    let config = peers::write(setup, "nginx.conf", &template)?;
    let folder = setup.folder.to_string_lossy();
    Ok(peers::start(&["-c", &config, "-p", &folder, "-e", &format!("{folder}/error.log")]))
}

/// Configures trafficserver with slices of 1 MiB for the large object.
fn trafficserver(setup: &Setup) -> Result<Start> {
    let slices = "map /1g http://127.0.0.1:@ORIGIN@/1g @plugin=slice.so @pparam=--blockbytes=1048576 \
                  @plugin=cache_range_requests.so\n";
    peers::trafficserver_with(setup, slices)
}

/// Loads a server for `duration`, and returns the CPU microseconds of a request.
fn measure(server: &RunningServer, wanted: RequestKind, duration: Duration) -> Result<f64> {
    let (script, path) = match wanted {
        RequestKind::Objects(count) => (Script::walk("/1m/", count, 1)?, "/"),
        RequestKind::Ranges(offset) => (Script::ranges(RANGES, STRIDE, offset)?, origin::GIANT),
    };
    let load = || load::run(&script, server.port, path, CONNECTIONS, duration);
    let (used, load) = server.cpu_during(load)?;
    if load.bytes < load.requests << 20 {
        bail!("{} bytes in {} answers", load.bytes, load.requests);
    }
    Ok(used / load.requests as f64)
}

fn rows(one: &Measurement) -> Vec<Row> {
    let row = |(case, (name, _)): (usize, &(&str, RequestKind))| {
        vec![
            ("server", Cell::word(one.peer.name)),
            ("hit", Cell::word(name)),
            ("CPU us/request", Cell::number(median(one.samples[case].clone()), 2)),
            ("x object", Cell::number(one.ratio(case), 2)),
        ]
    };
    CASES.iter().enumerate().map(row).collect()
}

fn goals(one: &Measurement) -> Vec<Goal> {
    let goal = |case: usize| {
        Goal::new(format!("CPU of a {} / of an {}", CASES[case].0, CASES[0].0), MOST, one.ratio(case))
    };
    (1..3).map(goal).collect()
}
