//! `cargo x bench tls`: the CPU time of a hit over TLS, beside the same hit without TLS and beside other servers, and of a
//! handshake with one request.
//!
//! All have the same certificate (ECDSA, P-256). Peers use the system's OpenSSL.

use super::goal::Goal;
use super::load::{self, Script};
use super::measure::median;
use super::origin::Origin;
use super::peers::{self, Peer, Setup, Start, Which, start};
use super::server::{self, Running};
use super::table::{self, Cell, Row};
use super::{SERVER_CORE, pin_self, process, warn_if_busy};
use crate::args;
use crate::packages::{self, Package};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const OPENSSL: Package = Package { name: "openssl", program: "openssl", purpose: "makes the certificate" };
const HAPROXY: Package = Package { name: "haproxy", program: "haproxy", purpose: "a peer" };
const H2O: Package = Package { name: "h2o", program: "h2o", purpose: "a peer" };

/// A hit of 1 KiB over TLS, of what it costs this proxy without TLS.
const SMALL: f64 = 1.25;
/// A handshake with one request, of what it costs nginx.
const HANDSHAKE: f64 = 0.6;
/// A hit of 1 MiB, of what it costs h2o.
const LARGE: f64 = 0.6;

const PLAIN: &str = "larder, plain";
const LARDER: &str = "larder";

const ENTRANTS: [Peer; 5] = [
    Peer::apart(PLAIN, Which::Larder, None, |setup| larder(setup, &["--listen"])),
    Peer::apart(LARDER, Which::Larder, None, |setup| {
        larder(setup, &["--listen", "127.0.0.1:0", "--listen-tls"])
    }),
    Peer::apart("nginx", Which::Installed, Some(peers::NGINX), nginx),
    Peer::apart("haproxy", Which::Installed, Some(HAPROXY), haproxy),
    Peer::apart("h2o", Which::Installed, Some(H2O), h2o),
];

/// What is asked for.
struct Case {
    name: &'static str,
    path: &'static str,
    connections: u32,
    /// Each request has a connection, and a handshake, of its own.
    handshakes: bool,
}

const CASES: [Case; 3] = [
    Case { name: "1k", path: "/1k", connections: 64, handshakes: false },
    Case { name: "1m", path: "/1m", connections: 16, handshakes: false },
    Case { name: "handshake", path: "/1k", connections: 16, handshakes: true },
];

/// What a `cargo x bench tls` command line means.
pub(crate) struct Options {
    duration: Duration,
    rounds: u32,
    larder: Option<PathBuf>,
    json: Option<PathBuf>,
    install: bool,
}

impl Options {
    /// Reads the words after `bench tls`.
    ///
    /// # Errors
    /// Names the word that is not known, or the value that makes no sense.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let known = [
            ("--quick", false),
            ("--seconds", true),
            ("--rounds", true),
            ("--larder", true),
            ("--json", true),
            ("--install", false),
        ];
        let words = args::parse(words, &known)?;
        let [seconds, rounds] = if words.has("--quick") { [1, 2] } else { [3, 5] };
        Ok(Self {
            duration: words.seconds("--seconds", seconds)?,
            rounds: words.number("--rounds", rounds)?,
            larder: words.path("--larder"),
            json: words.path("--json"),
            install: words.has("--install"),
        })
    }
}

/// Where the certificate and its key are, in the folder of a server.
fn files(folder: &Path) -> [String; 3] {
    ["cert.pem", "key.pem", "both.pem"].map(|name| folder.join(name).display().to_string())
}

/// Makes a certificate in the server's folder.
fn certify(folder: &Path) -> Result<[String; 3]> {
    let [cert, key, both] = files(folder);
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "30",
    ]);
    openssl.args(["-subj", "/CN=localhost", "-keyout", &key, "-out", &cert]);
    let output = openssl.output().context("cannot start openssl")?;
    if !output.status.success() {
        bail!("openssl: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(&cert)? + &std::fs::read_to_string(&key)?;
    std::fs::write(&both, text)?;
    Ok([cert, key, both])
}

fn larder(setup: &Setup, listen: &[&str]) -> Result<Start> {
    let [cert, key, _] = certify(setup.folder)?;
    let (port, origin) = (format!("127.0.0.1:{}", setup.port), format!("http://127.0.0.1:{}", setup.origin));
    let common = ["serve", "--origin", &origin, "--admin", "off", "--threads", "1", "--stats", "none"];
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let tls = if listen.contains(&"--listen-tls") { &tls[..] } else { &[] };
    Ok(start(&[&common[..], tls, listen, &[&port]].concat()))
}

fn nginx(setup: &Setup) -> Result<Start> {
    let [cert, key, _] = certify(setup.folder)?;
    let template = include_str!("peers/nginx.conf")
        .replace("listen 127.0.0.1:@PORT@;", &format!("listen 127.0.0.1:@PORT@ ssl; ssl_certificate {cert}; ssl_certificate_key {key}; ssl_session_cache off;"))
        .replace("@SIZE@", "1g")
        .replace("@MORE@", "");
    let config = peers::write(setup, "nginx.conf", &template)?;
    let folder = setup.folder.to_string_lossy();
    Ok(start(&["-c", &config, "-p", &folder, "-e", &format!("{folder}/error.log")]))
}

fn haproxy(setup: &Setup) -> Result<Start> {
    let [_, _, both] = certify(setup.folder)?;
    let template = include_str!("peers/haproxy.cfg")
        .replace("bind 127.0.0.1:@PORT@", &format!("bind 127.0.0.1:@PORT@ ssl crt {both}"));
    Ok(start(&["-db", "-f", &peers::write(setup, "haproxy.cfg", &template)?]))
}

/// It has no cache in front of an origin: it serves files of the same sizes.
fn h2o(setup: &Setup) -> Result<Start> {
    let [cert, key, _] = certify(setup.folder)?;
    let files = setup.folder.join("files");
    std::fs::create_dir(&files)?;
    std::fs::write(files.join("1k"), [b'x'; 1 << 10])?;
    std::fs::write(files.join("1m"), vec![b'x'; 1 << 20])?;
    let template = include_str!("peers/h2o.conf").replace("@CERT@", &cert).replace("@KEY@", &key);
    Ok(start(&["-c", &peers::write(setup, "h2o.conf", &template)?]))
}

/// A server that takes part, and the CPU microseconds of a request in each round.
struct Measured {
    server: Running,
    samples: Vec<f64>,
}

impl Measured {
    fn url(&self, path: &str) -> String {
        let scheme = if self.server.name == PLAIN { "http" } else { "https" };
        format!("{scheme}://127.0.0.1:{}{path}", self.server.port)
    }

    /// The median of the ratios to another server, round by round.
    fn ratio(&self, other: &Self) -> f64 {
        median(self.samples.iter().zip(&other.samples).map(|(own, other)| own / other).collect())
    }
}

/// Runs the bench, prints its table and goals, and gives the goals.
///
/// # Errors
/// When wrk is missing, a build fails, or a server does not answer to the end.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let wanted = [&packages::WRK, &OPENSSL, &peers::NGINX, &HAPROXY, &H2O];
    let mut missing = packages::missing(wanted);
    if options.install {
        packages::install(&missing)?;
        missing.clear();
    }
    if missing.contains(&&packages::WRK) || missing.contains(&&OPENSSL) {
        bail!("wrk and openssl are needed; run: {}", packages::command_line(&[&packages::WRK, &OPENSSL]));
    }
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|package| package.name).collect();
        println!(
            "not installed: {} (add --install, or run: {})",
            names.join(", "),
            packages::command_line(&missing)
        );
    }
    let programs = peers::Programs::given(&peers::program(options.larder.as_deref())?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    pin_self(cores)?;
    println!("{cores} cores; server on core {SERVER_CORE}");
    warn_if_busy();
    server::remove_leftovers(&server::in_memory());
    let origin = Origin::start()?;
    let here = |peer: &&Peer| peer.package.as_ref().is_none_or(|package| !missing.contains(&package));
    let begin =
        |peer| Ok(Measured { server: Running::start(peer, &programs, &origin)?, samples: Vec::new() });
    let mut measured = ENTRANTS.iter().filter(here).map(begin).collect::<Result<Vec<_>>>()?;
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for case in &CASES {
        measure(options, case, &mut measured)?;
        rows.extend(table_of(case, &measured));
        goals.extend(goals_of(case, &measured));
    }
    table::print(&rows);
    super::goal::print(&goals);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(goals)
}

fn measure(options: &Options, case: &Case, measured: &mut [Measured]) -> Result<()> {
    let script = Script::one()?;
    let fields: &[&str] = if case.handshakes { &["Connection: close"] } else { &[] };
    for one in measured.iter_mut() {
        one.samples.clear();
        load::run_at(&script, &one.url(case.path), 4, Duration::from_secs(1), fields)
            .with_context(|| format!("{} at {}", one.server.name, case.name))?;
    }
    for round in 1..=options.rounds {
        eprintln!("{} round {round} of {}", case.name, options.rounds);
        for one in measured.iter_mut() {
            let processes = one.server.processes()?;
            let before = process::cpu_time(&processes)?;
            let load =
                load::run_at(&script, &one.url(case.path), case.connections, options.duration, fields)?;
            let used = process::cpu_time(&processes)?.saturating_sub(before);
            one.samples.push(used.as_secs_f64() * 1e6 / load.requests as f64);
        }
    }
    Ok(())
}

/// A row a server, by medians; ratios are to this proxy without TLS in the same round.
fn table_of(case: &Case, measured: &[Measured]) -> Vec<Row> {
    let plain = measured.iter().find(|one| one.server.name == PLAIN);
    let row = |one: &Measured| {
        vec![
            ("case", Cell::word(case.name)),
            ("server", Cell::word(one.server.name)),
            ("CPU us/request", Cell::number(median(one.samples.clone()), 2)),
            ("x plain", Cell::number(plain.map_or(f64::NAN, |plain| one.ratio(plain)), 2)),
        ]
    };
    measured.iter().map(row).collect()
}

fn goals_of(case: &Case, measured: &[Measured]) -> Option<Goal> {
    let (other, most) = match case.name {
        "1k" => (PLAIN, SMALL),
        "1m" => ("h2o", LARGE),
        _ => ("nginx", HANDSHAKE),
    };
    let find = |name: &str| measured.iter().find(|one| one.server.name == name);
    let ratio = find(LARDER)?.ratio(find(other)?);
    Some(Goal::new(format!("CPU of {} over TLS / {other}'s", case.name), most, ratio))
}
