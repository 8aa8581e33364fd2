//! `cargo x bench doors`: the CPU time of a hit of 10 KiB through each door, compared with HTTP and with Thrift's own
//! threaded server, which answers a constant.
//!
//! `larder fetch` creates the load for all: it is slower than the servers, so that CPU time is more significant than
//! calls per second.

use super::goal::Goal;
use super::measure::median;
use super::options::claim_cores;
use super::origin::Origin;
use super::peers::{self, Peer, Setup, Start, Which, start};
use super::server::{self, RunningServer};
use super::table::{self, Cell};
use crate::packages::{self, Package};
use crate::{args, root};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of the origin's page.
const PATH: &str = "/10k";
const LENGTH: u64 = 10 << 10;
const CONNECTIONS: &str = "16";

/// The packages to build Thrift's own server.
const THRIFT: &[Package] = &[
    Package { name: "thrift-compiler", program: "thrift", purpose: "a peer" },
    Package { name: "libthrift-dev", program: "/usr/include/thrift/Thrift.h", purpose: "a peer" },
    Package { name: "libboost-dev", program: "/usr/include/boost/version.hpp", purpose: "a peer needs it" },
    Package { name: "g++", program: "g++", purpose: "compiles it" },
];

/// A server, and the options of `larder fetch` for it.
struct Entrant {
    peer: Peer,
    via: &'static str,
}

const ENTRANTS: [Entrant; 5] = [
    Entrant { peer: larder("http", |setup| doors(setup, &["--forward"])), via: "http" },
    Entrant {
        peer: larder("thrift", |setup| doors(setup, &["--forward", "127.0.0.1:0", "--thrift"])),
        via: "thrift",
    },
    Entrant { peer: larder("onc", |setup| doors(setup, &["--forward", "127.0.0.1:0", "--onc"])), via: "onc" },
    Entrant {
        peer: larder("line", |setup| doors(setup, &["--forward", "127.0.0.1:0", "--line"])),
        via: "line",
    },
    Entrant {
        peer: Peer::apart("thrift c++", Which::Thrift, None, |setup| Ok(start(&[&setup.port.to_string()]))),
        via: "thrift",
    },
];

const fn larder(name: &'static str, configure: fn(&Setup) -> Result<Start>) -> Peer {
    Peer::apart(name, Which::Larder, None, configure)
}

/// Starts one worker, whose door is at the setup's port: the last of `flags` selects the door.
fn doors(setup: &Setup, flags: &[&str]) -> Result<Start> {
    let config = peers::write(setup, "larder.toml", "[onc]\nrpcbind = 'off'\n")?;
    let (door, admin) = (format!("127.0.0.1:{}", setup.port), format!("127.0.0.1:{}", setup.admin));
    let common = [
        "serve",
        "--config",
        &config,
        "--threads",
        "1",
        "--access-log",
        "off",
        "--stats",
        "none",
        "--allow-private",
        "--admin",
        &admin,
    ];
    Ok(start(&[&common, flags, &[&door]].concat()))
}

/// The options of `cargo x bench doors`.
pub(crate) struct Options {
    calls: u32,
    rounds: u32,
    json: Option<PathBuf>,
    install: bool,
}

impl Options {
    /// Reads the words after `bench doors`. Fails on an unknown word, or an invalid value; the error names it.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let known = [
            ("--quick", false),
            ("--calls", true),
            ("--rounds", true),
            ("--json", true),
            ("--install", false),
        ];
        let words = args::parse(words, &known)?;
        let [calls, rounds] = if words.has("--quick") { [5_000, 2] } else { [20_000, 5] };
        Ok(Self {
            calls: words.number("--calls", calls)?,
            rounds: words.number("--rounds", rounds)?,
            json: words.path("--json"),
            install: words.has("--install"),
        })
    }
}

/// A measured server, and its samples: CPU microseconds for a call, and calls per second.
struct Measurement {
    server: RunningServer,
    via: &'static str,
    samples: Vec<(f64, f64)>,
}

/// Runs the bench and prints its table. It has no goals. Fails if a build fails, or a server does not answer to the
/// end.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = packages::missing(THRIFT);
    if options.install {
        packages::install(&missing)?;
    } else if !missing.is_empty() {
        println!("without Thrift's own server (add --install, or run: {})", packages::command_line(&missing));
    }
    let with_thrift = options.install || missing.is_empty();
    let programs = peers::build(&ENTRANTS.each_ref().map(|entrant| &entrant.peer)[..1], None)?;
    if with_thrift {
        compile(&programs.thrift())?;
    }
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let url = format!("http://127.0.0.1:{}{PATH}", origin.port());
    let mut measured = Vec::new();
    for Entrant { peer, via } in
        ENTRANTS.iter().filter(|entrant| with_thrift || entrant.peer.which != Which::Thrift)
    {
        let server = RunningServer::start(peer, &programs, &origin)?;
        calls(&programs.larder(), &server, via, &url, 100)?;
        measured.push(Measurement { server, via, samples: Vec::new() });
    }
    let asked = origin.requests();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for Measurement { server, via, samples } in &mut measured {
            let calls = || calls(&programs.larder(), server, via, &url, options.calls);
            let (used, per_second) = server.cpu_during(calls)?;
            samples.push((used / f64::from(options.calls), per_second));
        }
    }
    if origin.requests() != asked {
        bail!("the origin was asked {} times for what was stored", origin.requests() - asked);
    }
    let rows = rows(&measured);
    table::print(&rows);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(Vec::new())
}

/// Makes `count` calls for `url`; returns calls per second. All must succeed, with the complete page.
fn calls(larder: &Path, server: &RunningServer, via: &str, url: &str, count: u32) -> Result<f64> {
    let mut command = Command::new(larder);
    command.args(["fetch", url, "--via", via, "--server", &format!("127.0.0.1:{}", server.port)]);
    command.args(["--connections", CONNECTIONS, "--repeat", &count.to_string(), "--admin", "off", "--json"]);
    let output = command.output().context("cannot start larder")?;
    let said: Value = serde_json::from_slice(&output.stdout).context("reading what larder fetch says")?;
    let number = |name: &str| said["client"][name].as_f64().unwrap_or(f64::NAN);
    let whole = f64::from(count) * LENGTH as f64;
    if !output.status.success() || number("errors") != 0.0 || number("bytes") != whole {
        bail!("{}: calls failed: {}", server.name, String::from_utf8_lossy(&output.stderr));
    }
    Ok(number("requests_per_second"))
}

/// Compiles Thrift's own server from the shipped definition.
fn compile(program: &Path) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("larder-bench-thrift-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let made = compile_in(&folder, program);
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    made
}

fn compile_in(folder: &Path, program: &Path) -> Result<()> {
    fs::write(folder.join("constant.cpp"), include_str!("peers/constant.cpp"))?;
    let definition = root().join("crates/rpc/larder.thrift");
    let mut generate = Command::new("thrift");
    generate.args(["--gen", "cpp", "-out", "."]).arg(definition);
    let mut compile = Command::new("g++");
    compile.args(["-O2", "-o"]).arg(program).args(["constant.cpp", "Larder.cpp", "larder_types.cpp"]);
    compile.args(["-lthrift", "-pthread"]);
    for command in [&mut generate, &mut compile] {
        let output =
            command.current_dir(folder).output().with_context(|| format!("cannot start {command:?}"))?;
        if !output.status.success() {
            bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(())
}

/// Returns a row for each server, by medians; ratios are to HTTP in the same round.
fn rows(measured: &[Measurement]) -> Vec<table::Row> {
    let http = &measured[0].samples;
    let row = |Measurement { server, samples, .. }: &Measurement| {
        let ratios = samples.iter().zip(http).map(|(own, http)| own.0 / http.0);
        vec![
            ("door", Cell::word(server.name)),
            ("CPU us/call", Cell::number(median(samples.iter().map(|sample| sample.0).collect()), 2)),
            ("x http", Cell::number(median(ratios.collect()), 2)),
            ("calls/s", Cell::number(median(samples.iter().map(|sample| sample.1).collect()), 0)),
        ]
    };
    measured.iter().map(row).collect()
}
