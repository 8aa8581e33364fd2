//! `cargo x bench h2`: the CPU time of a hit over HTTP/2, with one stream and with many, compared with the same hit
//! over HTTP/1.1 and with other servers, over TLS and in clear.

use super::goal::Goal;
use super::measure::{median, ratio};
use super::options::{Options, claim_cores};
use super::origin::Origin;
use super::peers::{self, Peer, Programs, Setup, Start, Which, start};
use super::server::{self, RunningServer};
use super::table::{self, Cell, Row};
use super::tls;
use crate::packages::Package;
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Duration;

pub(super) const H2LOAD: Package = Package { name: "nghttp2-client", program: "h2load", purpose: "the load" };

/// The maximum cost of a hit of 1 KiB with 100 streams over TLS, over h2o's cost, and over nginx's.
const MANY_H2O: f64 = 1.0;
const MANY_NGINX: f64 = 0.2;
/// The maximum cost of a hit of 1 KiB with one stream over TLS, and of one of 1 MiB, over their costs with HTTP/1.1.
const SINGLE: f64 = 1.3;
const LARGE: f64 = 1.1;

const LARDER: &str = "larder";
// It is also the name of a folder.
const HTTP1: &str = "larder, HTTP 1.1";

/// The transport of the servers.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Tls,
    Clear,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Tls => "TLS",
            Self::Clear => "clear",
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Self::Tls => "https",
            Self::Clear => "http",
        }
    }

    fn entrants(self) -> [Peer; 5] {
        let [larder, nginx, haproxy, h2o]: [fn(&Setup) -> Result<Start>; 4] = match self {
            Self::Tls => [
                |setup| tls::larder(setup, &["--listen", "127.0.0.1:0", "--listen-tls"]),
                |setup| tls::nginx(setup, " ssl http2"),
                |setup| tls::haproxy(setup, " alpn h2,http/1.1"),
                tls::h2o,
            ],
            Self::Clear => [
                |setup| tls::larder(setup, &["--listen"]),
                |setup| nginx_in_clear(setup),
                |setup| haproxy_in_clear(setup),
                |setup| h2o_in_clear(setup),
            ],
        };
        [
            Peer::apart(LARDER, Which::Larder, None, larder),
            Peer::apart(HTTP1, Which::Larder, None, larder),
            Peer::apart("nginx", Which::Installed, Some(peers::NGINX), nginx),
            Peer::apart("haproxy", Which::Installed, Some(tls::HAPROXY), haproxy),
            Peer::apart("h2o", Which::Installed, Some(tls::H2O), h2o),
        ]
    }
}

fn nginx_in_clear(setup: &Setup) -> Result<Start> {
    let template = include_str!("peers/nginx.conf")
        .replace("listen 127.0.0.1:@PORT@;", "listen 127.0.0.1:@PORT@ http2;")
        .replace("@SIZE@", "1g")
        .replace("@MORE@", "");
    tls::start_nginx(setup, &template)
}

fn haproxy_in_clear(setup: &Setup) -> Result<Start> {
    let template =
        include_str!("peers/haproxy.cfg").replace("bind 127.0.0.1:@PORT@", "bind 127.0.0.1:@PORT@ proto h2");
    Ok(start(&["-db", "-f", &peers::write(setup, "haproxy.cfg", &template)?]))
}

fn h2o_in_clear(setup: &Setup) -> Result<Start> {
    let template = include_str!("peers/h2o.conf");
    let is_tls = |line: &&str| ["ssl:", "@CERT@", "@KEY@"].iter().any(|word| line.contains(word));
    let lines = template.lines().filter(|line| !is_tls(line)).collect::<Vec<_>>();
    tls::start_h2o(setup, &(lines.join("\n") + "\n"))
}

/// The requests of a load.
#[derive(Clone, Copy)]
struct Case {
    size: &'static str,
    /// The number of streams on a connection.
    streams: u32,
    connections: u32,
    /// The size of the client's windows, in bits.
    window: u32,
}

impl Case {
    fn name(&self) -> String {
        let window = if self.window < 30 { ", small windows" } else { "" };
        format!("{}, {} at once{window}", self.size, self.streams)
    }

    /// Returns all cases, or those of a quick run.
    fn all(quick: bool) -> Vec<Self> {
        let mut cases = Vec::new();
        for size in ["1k", "16k", "1m"] {
            for streams in [1, 10, 100] {
                let connections = if streams == 1 { 32 } else { 4 };
                cases.push(Self { size, streams, connections, window: 30 });
            }
        }
        cases.push(Self { size: "1m", streams: 10, connections: 4, window: 16 });
        cases.retain(|case| !quick || case.size != "16k" && case.streams != 10);
        cases
    }
}

/// Reads the words after `bench h2`.
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Options::parse(words, [2, 3])
}

/// A measured server, and the CPU microseconds of a request in each round.
struct Measurement {
    server: RunningServer,
    samples: Vec<f64>,
}

impl Measurement {
    /// Returns the median of the ratios to another server, round by round.
    fn ratio(&self, other: &Self) -> f64 {
        ratio(&self.samples, &other.samples)
    }
}

/// Runs the bench, prints its table and goals, and returns the goals. Fails if h2load is missing, a build fails, or a
/// server does not answer to the end.
pub(super) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = options.missing(&[&H2LOAD, &tls::OPENSSL], &[&peers::NGINX, &tls::HAPROXY, &tls::H2O])?;
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for way in [Way::Tls, Way::Clear] {
        let begin = |peer| {
            Ok(Measurement { server: RunningServer::start(peer, &programs, &origin)?, samples: Vec::new() })
        };
        let entrants = way.entrants();
        let mut measured =
            entrants.iter().filter(|peer| peer.is_here(&missing)).map(begin).collect::<Result<Vec<_>>>()?;
        for case in Case::all(options.quick) {
            measure(options, way, case, &mut measured)?;
            rows.extend(table_of(way, case, &measured));
            if way == Way::Tls {
                goals.extend(goals_of(case, &measured));
            }
        }
    }
    table::print(&rows);
    super::goal::print(&goals);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(goals)
}

fn measure(options: &Options, way: Way, case: Case, measured: &mut [Measurement]) -> Result<()> {
    for one in measured.iter_mut() {
        one.samples.clear();
        load(way, case, &one.server, Duration::from_secs(1))
            .with_context(|| format!("{} at {} ({})", one.server.name, case.name(), way.name()))?;
    }
    for round in 1..=options.rounds {
        eprintln!("{} ({}) round {round} of {}", case.name(), way.name(), options.rounds);
        for one in measured.iter_mut() {
            let load = || load(way, case, &one.server, options.duration);
            let (used, requests) = one.server.cpu_during(load)?;
            one.samples.push(used / requests as f64);
        }
    }
    Ok(())
}

/// Loads a server for `duration`. Returns the number of answered requests.
fn load(way: Way, case: Case, server: &RunningServer, duration: Duration) -> Result<u64> {
    let url = format!("{}://127.0.0.1:{}/{}", way.scheme(), server.port, case.size);
    let mut h2load = Command::new("h2load");
    match server.name {
        // About as many concurrent requests, each on a separate connection.
        HTTP1 => h2load.args(["--h1", "-c", &(case.connections * case.streams).min(64).to_string()]),
        _ => h2load.args(["-c", &case.connections.to_string(), "-m", &case.streams.to_string()]),
    };
    h2load.args(["-w", &case.window.to_string(), "-W", &case.window.to_string()]);
    h2load.args(["-t", "1", "-D", &duration.as_secs().to_string(), &url]);
    let output = h2load.output().context("cannot start h2load")?;
    if !output.status.success() {
        bail!("h2load failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    answered(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the number of answered requests from h2load's output.
fn answered(text: &str) -> Result<u64> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let requests = line("requests: ").context("h2load printed no counts")?;
    let codes = line("status codes: ").context("h2load printed no status codes")?;
    let count = |text: &str, name: &str| {
        text.split(", ").find_map(|part| part.strip_suffix(name)?.trim().parse::<u64>().ok())
    };
    let (succeeded, ok) = (count(requests, " succeeded"), count(codes, " 2xx"));
    // Requests that are in flight at the end count as failed.
    match (succeeded, ok, count(requests, " errored")) {
        (Some(all @ 1..), Some(ok), Some(0)) if ok >= all => Ok(all),
        _ => bail!("h2load: {requests}; {codes}"),
    }
}

/// Returns a row for each server, by medians; ratios are to HTTP/1.1 in the same round.
fn table_of(way: Way, case: Case, measured: &[Measurement]) -> Vec<Row> {
    let plain = measured.iter().find(|one| one.server.name == HTTP1);
    let row = |one: &Measurement| {
        vec![
            ("over", Cell::word(way.name())),
            ("case", Cell::word(&case.name())),
            ("server", Cell::word(one.server.name)),
            ("CPU us/request", Cell::number(median(one.samples.clone()), 2)),
            ("x HTTP/1.1", Cell::number(plain.map_or(f64::NAN, |plain| one.ratio(plain)), 2)),
        ]
    };
    measured.iter().map(row).collect()
}

fn goals_of(case: Case, measured: &[Measurement]) -> Vec<Goal> {
    let goals: &[(&str, f64)] = match (case.size, case.streams, case.window) {
        ("1k", 100, _) => &[("h2o", MANY_H2O), ("nginx", MANY_NGINX)],
        ("1k", 1, _) => &[(HTTP1, SINGLE)],
        ("1m", 1, 30) => &[(HTTP1, LARGE)],
        _ => &[],
    };
    let find = |name: &str| measured.iter().find(|one| one.server.name == name);
    let goal = |(other, most): &(&str, f64)| {
        let ratio = find(LARDER)?.ratio(find(other)?);
        Some(Goal::new(format!("CPU of {} over TLS / {other}'s", case.name()), *most, ratio))
    };
    goals.iter().filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::{Case, answered};

    #[test]
    fn requests_count_if_all_of_them_succeeded() {
        let text =
            |requests: &str, codes: &str| format!("finished\nrequests: {requests}\nstatus codes: {codes}\n");
        let whole = "9 total, 12 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout";
        assert_eq!(answered(&text(whole, "9 2xx, 0 3xx, 0 4xx, 0 5xx")).unwrap(), 9);
        let failed = "9 total, 9 started, 9 done, 0 succeeded, 9 failed, 9 errored, 0 timeout";
        for (requests, codes) in
            [(failed, "0 2xx, 0 3xx, 0 4xx, 0 5xx"), (whole, "3 2xx, 0 3xx, 6 4xx, 0 5xx")]
        {
            assert!(answered(&text(requests, codes)).is_err());
        }
        assert!(answered("").is_err());
    }

    #[test]
    fn a_quick_run_has_every_goal() {
        let quick: Vec<_> = Case::all(true).iter().map(Case::name).collect();
        assert_eq!(quick, ["1k, 1 at once", "1k, 100 at once", "1m, 1 at once", "1m, 100 at once"]);
        assert_eq!(Case::all(false).len(), 10);
    }
}
