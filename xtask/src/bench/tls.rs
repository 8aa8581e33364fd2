//! `cargo x bench tls`: the CPU time of a hit over TLS, compared with the same hit without TLS and with other servers,
//! and of a handshake, full or resumed, with one request; the time of the cipher alone; and latencies in open loop.
//!
//! All have the same certificate (ECDSA, P-256). Peers use the system's OpenSSL.

use super::goal::Goal;
use super::handshakes::{self, Handshakes};
use super::load::{self, Script};
use super::measure::{median, ratio};
use super::options::{Options, claim_cores};
use super::origin::Origin;
use super::peers::{self, Peer, Setup, Start, Which, start};
use super::server::{self, RunningServer};
use super::table::{self, Cell, Row};
use super::tls_load::{self, Tool};
use crate::packages::{self, Package};
use crate::program::certify;
use anyhow::{Context, Result};
use serde_json::json;
use std::time::Duration;

pub(super) const OPENSSL: Package =
    Package { name: "openssl", program: "openssl", purpose: "makes the certificate" };
pub(super) const HAPROXY: Package = Package { name: "haproxy", program: "haproxy", purpose: "a peer" };
pub(super) const H2O: Package = Package { name: "h2o", program: "h2o", purpose: "a peer" };

/// The maximum cost of a hit of 1 KiB over TLS, over this proxy's cost without TLS.
const SMALL: f64 = 1.25;
/// The maximum cost of a handshake with one request, over nginx's cost.
const HANDSHAKE: f64 = 0.6;
/// The maximum cost of a resumed handshake with one request, over the least of the other servers.
const RESUMED: f64 = 1.0;
/// The maximum cost of a hit of 1 MiB, over h2o's cost.
const LARGE: f64 = 0.6;
/// The maximum cost of TLS for 1 MiB, which is the difference to the cost without TLS, over the cipher's own time.
const SEALED: f64 = 1.3;

const PLAIN: &str = "larder, plain";
const LARDER: &str = "larder";
/// The cipher that this proxy chooses, for the same bytes.
const CIPHER: &str = "the cipher alone";

const ENTRANTS: [Peer; 5] = [
    Peer::apart(PLAIN, Which::Larder, None, |setup| larder(setup, &["--listen"])),
    Peer::apart(LARDER, Which::Larder, None, |setup| {
        larder(setup, &["--listen", "127.0.0.1:0", "--listen-tls"])
    }),
    Peer::apart("nginx", Which::Installed, Some(peers::NGINX), |setup| nginx(setup, " ssl")),
    Peer::apart("haproxy", Which::Installed, Some(HAPROXY), |setup| haproxy(setup, "")),
    Peer::apart("h2o", Which::Installed, Some(H2O), h2o),
];

/// The requests of a load.
struct Case {
    name: &'static str,
    path: &'static str,
    connections: u32,
    /// The handshake before each request; `None` if connections are kept.
    handshakes: Option<Handshakes>,
}

const CASES: [Case; 5] = [
    Case { name: "1k", path: "/1k", connections: 64, handshakes: None },
    Case { name: "30k", path: "/30k", connections: 64, handshakes: None },
    Case { name: "1m", path: "/1m", connections: 16, handshakes: None },
    Case { name: "handshake", path: "/1k", connections: 16, handshakes: Some(Handshakes::Full) },
    Case { name: "resumed", path: "/1k", connections: 16, handshakes: Some(Handshakes::Resumed) },
];

impl Case {
    fn is_large(&self) -> bool {
        self.name == "1m"
    }

    /// Loads a server for `duration`, without handshakes if it has no TLS. Returns the number of requests. Fails if the
    /// load or a request fails.
    fn load(&self, script: &Script, one: &Measurement, duration: Duration) -> Result<u64> {
        match self.handshakes {
            Some(handshakes) if one.server.name != PLAIN => {
                handshakes::run(handshakes, one.server.port, self.path, self.connections, duration)
            }
            handshakes => {
                let fields: &[&str] = if handshakes.is_some() { &["Connection: close"] } else { &[] };
                let load = load::run_at(script, &one.url(self.path), self.connections, duration, fields)?;
                Ok(load.requests)
            }
        }
    }
}

/// Reads the words after `bench tls`.
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Options::parse(words, [3, 5])
}

pub(super) fn larder(setup: &Setup, listen: &[&str]) -> Result<Start> {
    let [cert, key, _] = certify(setup.folder)?;
    let (port, origin) = (format!("127.0.0.1:{}", setup.port), format!("http://127.0.0.1:{}", setup.origin));
    let common = ["serve", "--origin", &origin, "--admin", "off", "--threads", "1", "--stats", "none"];
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let tls = if listen.contains(&"--listen-tls") { &tls[..] } else { &[] };
    Ok(start(&[&common[..], tls, listen, &[&port]].concat()))
}

/// Configures and starts nginx with TLS; `words` follow the port.
pub(super) fn nginx(setup: &Setup, words: &str) -> Result<Start> {
    let [cert, key, _] = certify(setup.folder)?;
    let template = include_str!("peers/nginx.conf")
        .replace("listen 127.0.0.1:@PORT@;", &format!("listen 127.0.0.1:@PORT@{words}; ssl_certificate {cert}; ssl_certificate_key {key}; ssl_session_cache off; ssl_protocols TLSv1.2 TLSv1.3;"))
        .replace("@SIZE@", "1g")
        .replace("@MORE@", "");
    start_nginx(setup, &template)
}

/// Starts nginx with this configuration.
pub(super) fn start_nginx(setup: &Setup, template: &str) -> Result<Start> {
    let config = peers::write(setup, "nginx.conf", template)?;
    let folder = setup.folder.to_string_lossy();
    Ok(start(&["-c", &config, "-p", &folder, "-e", &format!("{folder}/error.log")]))
}

/// Configures haproxy with TLS; `words` follow the certificate.
pub(super) fn haproxy(setup: &Setup, words: &str) -> Result<Start> {
    let [_, _, both] = certify(setup.folder)?;
    let template = include_str!("peers/haproxy.cfg")
        .replace("bind 127.0.0.1:@PORT@", &format!("bind 127.0.0.1:@PORT@ ssl crt {both}{words}"));
    Ok(start(&["-db", "-f", &peers::write(setup, "haproxy.cfg", &template)?]))
}

/// Configures h2o, which has no cache in front of an origin: it serves files of the same sizes.
pub(super) fn h2o(setup: &Setup) -> Result<Start> {
    let [cert, key, _] = certify(setup.folder)?;
    let template = include_str!("peers/h2o.conf").replace("@CERT@", &cert).replace("@KEY@", &key);
    start_h2o(setup, &template)
}

/// Starts h2o with this configuration and its files.
pub(super) fn start_h2o(setup: &Setup, template: &str) -> Result<Start> {
    let files = setup.folder.join("files");
    std::fs::create_dir(&files)?;
    for (name, length) in [("1k", 1 << 10), ("16k", 16 << 10), ("30k", 30 << 10), ("1m", 1 << 20)] {
        std::fs::write(files.join(name), vec![b'x'; length])?;
    }
    Ok(start(&["-c", &peers::write(setup, "h2o.conf", template)?]))
}

/// A measured server, and the CPU microseconds of a request in each round.
struct Measurement {
    server: RunningServer,
    samples: Vec<f64>,
}

impl Measurement {
    fn url(&self, path: &str) -> String {
        let scheme = if self.server.name == PLAIN { "http" } else { "https" };
        format!("{scheme}://127.0.0.1:{}{path}", self.server.port)
    }

    fn ratio(&self, other: &Self) -> f64 {
        ratio(&self.samples, &other.samples)
    }
}

/// Runs the bench, prints its tables and goals, and returns the goals. Fails if wrk is missing, a build fails, or a
/// server does not answer to the end.
pub(super) fn run(options: &Options) -> Result<Vec<Goal>> {
    let tools = [&packages::WRK, &OPENSSL];
    let missing = options.missing(&tools, &[&peers::NGINX, &HAPROXY, &H2O])?;
    let programs = peers::build(&[&peers::FLOOR, &ENTRANTS[0]], options.larder.as_deref())?;
    let tool = Tool(programs.tls_load());
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let begin = |peer| {
        Ok(Measurement { server: RunningServer::start(peer, &programs, &origin)?, samples: Vec::new() })
    };
    let mut measured =
        ENTRANTS.iter().filter(|peer| peer.is_here(&missing)).map(begin).collect::<Result<Vec<_>>>()?;
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for case in &CASES {
        let ciphers = measure(options, &tool, case, &mut measured)?;
        rows.extend(table_of(case, &measured, &ciphers));
        goals.extend(goals_of(case, &measured));
        goals.extend(goal_of_cipher(&measured, &ciphers));
    }
    let encrypted: Vec<_> =
        measured.iter().map(|one| &one.server).filter(|server| server.name != PLAIN).collect();
    let rounds = if options.quick { 1 } else { options.rounds };
    let latencies = tls_load::latencies(&tool, &encrypted, rounds, options.duration)?;
    table::print(&rows);
    println!("\nlatency of 1k over TLS in open loop, at half of the capacity");
    table::print(&latencies);
    super::goal::print(&goals);
    let report = json!({ "cpu": table::json(&rows), "latency": table::json(&latencies) });
    table::write(options.json.as_deref(), &report)?;
    Ok(goals)
}

/// Measures all servers in rounds. Returns the time of the cipher alone in each round, if the case is about it.
fn measure(options: &Options, tool: &Tool, case: &Case, measured: &mut [Measurement]) -> Result<Vec<f64>> {
    let script = Script::one()?;
    let mut ciphers = Vec::new();
    for one in measured.iter_mut() {
        one.samples.clear();
        case.load(&script, one, Duration::from_secs(1))
            .with_context(|| format!("{} at {}", one.server.name, case.name))?;
    }
    for round in 1..=options.rounds {
        eprintln!("{} round {round} of {}", case.name, options.rounds);
        for one in measured.iter_mut() {
            let load = || case.load(&script, one, options.duration);
            let (used, requests) = one.server.cpu_during(load)?;
            one.samples.push(used / requests as f64);
        }
        if let Some(larder) = find(measured, LARDER).filter(|_| case.is_large()) {
            ciphers.push(tool.cipher(&larder.server)?);
        }
    }
    Ok(ciphers)
}

/// Returns a row for each server and for the cipher, by medians; ratios are to this proxy without TLS in the same round.
fn table_of(case: &Case, measured: &[Measurement], ciphers: &[f64]) -> Vec<Row> {
    let plain = find(measured, PLAIN);
    let row = |name: &str, samples: &[f64]| {
        let ratio = plain.map_or(f64::NAN, |plain| ratio(samples, &plain.samples));
        vec![
            ("case", Cell::word(case.name)),
            ("server", Cell::word(name)),
            ("CPU us/request", Cell::number(median(samples.to_vec()), 2)),
            ("x plain", Cell::number(ratio, 2)),
        ]
    };
    let cipher = (!ciphers.is_empty()).then(|| row(CIPHER, ciphers));
    measured.iter().map(|one| row(one.server.name, &one.samples)).chain(cipher).collect()
}

fn find<'m>(measured: &'m [Measurement], name: &str) -> Option<&'m Measurement> {
    measured.iter().find(|one| one.server.name == name)
}

fn goals_of(case: &Case, measured: &[Measurement]) -> Option<Goal> {
    if case.handshakes == Some(Handshakes::Resumed) {
        return goal_of_resumed(measured);
    }
    let (other, most) = match case.name {
        "1k" => (PLAIN, SMALL),
        "1m" => ("h2o", LARGE),
        // For the guide to capacity.
        "30k" => return None,
        _ => ("nginx", HANDSHAKE),
    };
    let ratio = find(measured, LARDER)?.ratio(find(measured, other)?);
    Some(Goal::new(format!("CPU of {} over TLS / {other}'s", case.name), most, ratio))
}

/// Returns the goal that TLS costs not much more than its cipher: the median of the rounds.
fn goal_of_cipher(measured: &[Measurement], ciphers: &[f64]) -> Option<Goal> {
    let (larder, plain) = (find(measured, LARDER)?, find(measured, PLAIN)?);
    let more = larder.samples.iter().zip(&plain.samples).map(|(tls, plain)| tls - plain).collect::<Vec<_>>();
    let what = "CPU of 1m over TLS, less plain's / the cipher's alone".to_owned();
    (!ciphers.is_empty()).then(|| Goal::new(what, SEALED, ratio(&more, ciphers)))
}

fn goal_of_resumed(measured: &[Measurement]) -> Option<Goal> {
    let larder = find(measured, LARDER)?;
    let peers = measured.iter().filter(|one| ![LARDER, PLAIN].contains(&one.server.name));
    let ratio = peers.map(|peer| larder.ratio(peer)).max_by(f64::total_cmp)?;
    Some(Goal::new("CPU of resumed handshakes over TLS / the least of others'".to_owned(), RESUMED, ratio))
}
