//! `cargo x bench run`: how long downloads over https take behind `larder run`, in a first run and in a second one, beside the
//! same downloads without it, behind mitmproxy, and behind Squid. The registries are behind a line of 100 Mbit/s and 20 ms.
//!
//! The client is curl with 16 connections, so that the way of the bytes is measured, and not the work of a package manager. It
//! trusts as many authorities in each way, since it reads all of them for each connection. Without the line, its time is the
//! least that a second run can take.

mod proxies;
mod registry;
mod relay;

use self::proxies::{MITMPROXY, Proxy, SQUID};
use self::registry::{Registry, Workload};
use super::goal::{self, Goal};
use super::measure::median;
use super::options::Options;
use super::table::{Cell, Row};
use super::tls::OPENSSL;
use super::{peers, process, warn_if_busy};
use crate::packages::Package;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CURL: Package = Package { name: "curl", program: "curl", purpose: "the client" };

/// The bytes of the layer, and those in the quick form.
const LAYER: [u64; 2] = [2 << 30, 256 << 20];
/// The most that the first and the second run may take over the time without a cache.
const MOST: [f64; 2] = [1.1, 0.2];

/// The downloads of one workload, each in another way; the first one is direct, the next two are those of `larder run`.
type Samples = Vec<(&'static str, Sample)>;

/// What downloads took.
#[derive(Clone, Copy)]
struct Sample {
    elapsed: Duration,
    /// The CPU time of the client and the proxy.
    cpu: Duration,
}

/// Reads the words after `bench run`. Errors: the same as for [`Options::parse`].
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Ok(Options::with(words, &[], [1, 1], [1, 1])?.0)
}

/// Runs the bench and prints its table, and the goals with their results. Fails if a build fails, a program is missing,
/// or a download fails.
pub(super) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = options.missing(&[&CURL, &OPENSSL, &peers::NGINX], &[&MITMPROXY, &SQUID])?;
    let larder = peers::program(options.larder.as_deref())?;
    warn_if_busy();
    let registry = Registry::start(LAYER[usize::from(options.quick)])?;
    let is_there = |peer| !missing.contains(&peer);
    let peers = [&MITMPROXY, &SQUID].map(is_there);
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for workload in &registry.workloads {
        let client = Client { registry: &registry, workload, larder: &larder };
        let rounds = (1..=options.rounds).map(|round| {
            eprintln!("{}, round {round} of {}", workload.name, options.rounds);
            client.downloads(peers).context(workload.name)
        });
        let rounds = rounds.collect::<Result<Vec<_>>>()?;
        rows.extend((0..rounds[0].len()).map(|at| row(workload, &rounds, at)));
        goals.extend((1..).zip(MOST).map(|(at, most)| {
            Goal::new(format!("{}: {} / direct", workload.name, rounds[0][at].0), most, ratio(&rounds, at))
        }));
    }
    let line = relay::RATE / 1_000_000;
    println!("\ndownloads over a line of {line} Mbit/s and {} ms", relay::ROUND_TRIP.as_millis());
    goal::report(options.json.as_deref(), ("downloads", &rows), &goals)?;
    Ok(goals)
}

/// A client of the registries.
struct Client<'b> {
    registry: &'b Registry,
    workload: &'b Workload,
    larder: &'b Path,
}

impl Client<'_> {
    /// Downloads all files in each way, with these peers: mitmproxy, Squid.
    fn downloads(&self, [mitmproxy, squid]: [bool; 2]) -> Result<Samples> {
        let cache = self.registry.folder().join("cache");
        let direct = Path::new(&self.registry.certificate);
        let mut samples = vec![("direct", measure(self.curl(direct, None), None)?)];
        for name in ["larder run, first", "larder run, second"] {
            samples.push((name, measure(self.larder_run(&cache), None).context(name)?));
        }
        fs::remove_dir_all(cache)?;
        samples.push(("without the line", measure(self.curl(direct, Some(self.registry.port)), None)?));
        let mut behind = |proxy: &Proxy, name| {
            let mut curl = self.curl(&proxy.certificate, None);
            curl.env("https_proxy", &proxy.url);
            samples.push((name, measure(curl, Some(proxy.process.id())).context(name)?));
            anyhow::Ok(())
        };
        if mitmproxy {
            behind(&Proxy::mitmproxy(self.registry)?, "mitmproxy, without a cache")?;
        }
        if squid {
            let squid = Proxy::squid(self.registry)?;
            behind(&squid, "squid, first")?;
            behind(&squid, "squid, second")?;
        }
        Ok(samples)
    }

    fn larder_run(&self, cache: &Path) -> Command {
        let certificate = Path::new(&self.registry.certificate);
        let curl = self.curl(certificate, None);
        let mut larder = Command::new(self.larder);
        larder.args(["run", "--host", "localhost", "--require", "--cache"]).arg(cache).arg("--");
        larder.arg(curl.get_program()).args(curl.get_args());
        for name in ["SSL_CERT_FILE", "CURL_CA_BUNDLE"] {
            larder.env(name, certificate);
        }
        larder.env("STATE_DIRECTORY", self.registry.state());
        larder
    }

    /// Returns the client, which trusts the certificates in this file. With a `port`, it connects to that one of this machine.
    fn curl(&self, certificates: &Path, port: Option<u16>) -> Command {
        let to = port.map_or_else(String::new, |port| format!("--connect-to ::127.0.0.1:{port}"));
        let step = |config: &PathBuf| {
            let options = "--http1.1 --parallel --parallel-max 16 --fail --silent --show-error";
            format!("curl {options} {to} --config '{}'", config.display())
        };
        let steps: Vec<_> = self.workload.steps.iter().map(step).collect();
        let mut shell = Command::new("sh");
        shell.args(["-c", &steps.join(" && ")]).env("CURL_CA_BUNDLE", certificates);
        shell
    }
}

/// Runs `command`. The CPU time of a `proxy` that serves it is added to its own.
fn measure(mut command: Command, proxy: Option<u32>) -> Result<Sample> {
    let is_own = |name: &str| command.get_envs().any(|(own, _)| own == name);
    let foreign = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"];
    let foreign: Vec<_> = foreign.into_iter().filter(|name| !is_own(name)).collect();
    foreign.into_iter().for_each(|name| _ = command.env_remove(name));
    // Without its helpers, which come and go.
    let of_proxy = || proxy.map_or(Ok(Duration::ZERO), |id| process::cpu_time(&[id]));
    let before = process::children_time()? + of_proxy()?;
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output().context("it does not start")?;
    let elapsed = begun.elapsed();
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let cpu = (process::children_time()? + of_proxy()?).saturating_sub(before);
    Ok(Sample { elapsed, cpu })
}

/// Returns the median of the ratios of elapsed times to those of direct downloads, round by round.
fn ratio(rounds: &[Samples], at: usize) -> f64 {
    let seconds = |round: &Samples, at: usize| round[at].1.elapsed.as_secs_f64();
    median(rounds.iter().map(|round| seconds(round, at) / seconds(round, 0)).collect())
}

fn row(workload: &Workload, rounds: &[Samples], at: usize) -> Row {
    let of = |figure: fn(&Sample) -> Duration| {
        median(rounds.iter().map(|round| figure(&round[at].1).as_secs_f64()).collect())
    };
    let seconds = of(|sample| sample.elapsed);
    vec![
        ("downloads", Cell::word(workload.name)),
        ("way", Cell::word(rounds[0][at].0)),
        ("s", Cell::number(seconds, 2)),
        ("x direct", Cell::number(ratio(rounds, at), 2)),
        ("MB/s", Cell::number(workload.bytes as f64 / seconds / 1e6, 1)),
        ("CPU s", Cell::number(of(|sample| sample.cpu), 2)),
    ]
}
