//! `cargo x bench`: compares servers in one run, by the CPU time that a request costs each of them.
//!
//! The measure is CPU time and not requests per second, because one core of load generator is slower than some of
//! the servers. Machines are noisy: rounds are interleaved, and ratios compare measurements of the same round.

mod all;
mod before;
mod client;
mod cluster;
mod control;
mod disk;
mod doors;
mod fill;
mod goal;
mod h2;
mod handshakes;
mod lap;
mod learn;
mod load;
mod measure;
mod observe;
mod options;
mod origin;
mod pace;
mod page;
mod peers;
mod process;
mod purge;
mod replay;
mod rules;
mod server;
mod table;
mod tls;
mod tls_load;

use crate::{args, packages};
use anyhow::{Context, Result, bail};
use goal::Goal;
use peers::{Peer, Which};
use server::Running;
use std::path::PathBuf;
use std::time::Duration;
pub(crate) use tls::certify;

/// The core of the server under test, and that of all other processes.
const SERVER_CORE: usize = 0;
const LOAD_CORE: usize = 1;

/// The load average over the last minute, before the bench adds its own load, from which figures are doubtful.
const BUSY: f64 = 1.0;

/// The measured subject.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Hits,
    Misses,
    Memory,
}

const SUBJECTS: &[(&str, Subject)] =
    &[("hits", Subject::Hits), ("misses", Subject::Misses), ("memory", Subject::Memory)];

/// The benches with separate options.
const CLUSTER: &str = "cluster";
const CONTROL: &str = "control";
const DOORS: &str = "doors";
const DISK: &str = "disk";
const LEARN: &str = "learn";
const OBSERVE: &str = "observe";
const PURGE: &str = "purge";
const REPLAY: &str = "replay";
const RULES: &str = "rules";
const TLS: &str = "tls";
const H2: &str = "h2";

/// The name for all benches in sequence, and their names.
const ALL: &str = "all";
const NAMES: &[&str] = &[
    "hits", "misses", "memory", TLS, H2, CLUSTER, CONTROL, DOORS, DISK, OBSERVE, PURGE, REPLAY, RULES, LEARN,
];

/// The number of connections of a load, except for very large objects.
const CONNECTIONS: u32 = 64;

/// The object of a load.
#[derive(Clone, Copy)]
struct Object {
    name: &'static str,
    path: &'static str,
    length: u64,
    /// The number of connections of the load.
    connections: u32,
}

/// The objects of `hits`.
const OBJECTS: &[Object] = &[
    Object { name: "1k", path: "/1k", length: 1024, connections: CONNECTIONS },
    Object { name: "1m", path: "/1m", length: 1024 * 1024, connections: CONNECTIONS },
];

/// The bench of a `cargo x bench` command line.
pub(crate) enum Bench {
    /// Servers in comparison.
    Servers(Options),
    /// Nodes that serve as one cache.
    Cluster(options::Options),
    /// The doors of one server.
    Doors(doors::Options),
    /// Data that changes.
    Control(control::Options),
    /// The disk tier.
    Disk(disk::Options),
    /// The misses of the policy that learns.
    Learn(learn::Options),
    /// The statistics database.
    Observe(observe::Options),
    /// Purges.
    Purge(purge::Options),
    /// Traces, without a server.
    Replay(replay::Options),
    /// Rules of a site.
    Rules(options::Options),
    /// Listeners with TLS.
    Tls(options::Options),
    /// Listeners with HTTP/2.
    H2(options::Options),
    /// A page in a browser.
    Page(options::Options),
    /// A bench with an earlier build and the current one.
    Before(before::Options),
    /// Every bench.
    All(all::Options),
}

impl Bench {
    /// Reads the words after `bench`.
    ///
    /// # Errors
    /// An unknown word, or an invalid value; the error names it.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        if words.iter().any(|word| word == "--before") {
            return before::Options::parse(words).map(Self::Before);
        }
        match words.split_first() {
            Some((word, rest)) if word == DOORS => doors::Options::parse(rest).map(Self::Doors),
            Some((word, rest)) if word == CLUSTER => cluster::parse(rest).map(Self::Cluster),
            Some((word, rest)) if word == CONTROL => control::Options::parse(rest).map(Self::Control),
            Some((word, rest)) if word == DISK => disk::Options::parse(rest).map(Self::Disk),
            Some((word, rest)) if word == LEARN => learn::Options::parse(rest).map(Self::Learn),
            Some((word, rest)) if word == OBSERVE => observe::Options::parse(rest).map(Self::Observe),
            Some((word, rest)) if word == PURGE => purge::Options::parse(rest).map(Self::Purge),
            Some((word, rest)) if word == REPLAY => replay::Options::parse(rest).map(Self::Replay),
            Some((word, rest)) if word == RULES => rules::parse(rest).map(Self::Rules),
            Some((word, rest)) if word == TLS => tls::parse(rest).map(Self::Tls),
            Some((word, rest)) if word == H2 && rest.iter().any(|word| word == page::WORD) => {
                page::parse(rest).map(Self::Page)
            }
            Some((word, rest)) if word == H2 => h2::parse(rest).map(Self::H2),
            Some((word, rest)) if word == ALL => all::Options::parse(rest).map(Self::All),
            _ => Options::parse(words).map(Self::Servers),
        }
    }

    /// Runs the bench and prints its tables.
    ///
    /// # Errors
    /// If a build fails, a server did not take part to the end, or a goal is missed.
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Self::All(options) => all::run(options),
            one => goal::judge(&one.measure()?),
        }
    }

    /// Runs the bench, prints its tables, and returns its goals.
    fn measure(&self) -> Result<Vec<Goal>> {
        match self {
            Self::Servers(options) => run(options),
            Self::Doors(options) => doors::run(options),
            Self::Cluster(options) => cluster::run(options),
            Self::Control(options) => control::run(options),
            Self::Disk(options) => disk::run(options),
            Self::Learn(options) => learn::run(options),
            Self::Observe(options) => observe::run(options),
            Self::Purge(options) => purge::run(options),
            Self::Replay(options) => replay::run(options),
            Self::Rules(options) => rules::run(options),
            Self::Tls(options) => tls::run(options),
            Self::H2(options) => h2::run(options),
            Self::Page(options) => page::run(options),
            Self::Before(options) => before::run(options),
            Self::All(options) => all::run(options).map(|()| Vec::new()),
        }
    }
}

/// The options of a command line about servers.
pub(crate) struct Options {
    subject: Subject,
    duration: Duration,
    rounds: u32,
    peers: Vec<&'static Peer>,
    objects: Vec<Object>,
    larder: Option<PathBuf>,
    json: Option<PathBuf>,
    install: bool,
}

impl Options {
    /// Reads the words after `bench`.
    ///
    /// # Errors
    /// An unknown word, or an invalid value; the error names it.
    fn parse(words: &[String]) -> Result<Self> {
        let names = [NAMES, &[ALL]].concat();
        let Some((word, rest)) = words.split_first() else {
            bail!("bench what? known are: {}", names.join(", "));
        };
        let Some((_, subject)) = SUBJECTS.iter().find(|(name, _)| name == word) else {
            return Err(args::unknown("bench", word, &names));
        };
        let known = [
            ("--quick", false),
            ("--seconds", true),
            ("--rounds", true),
            ("--only", true),
            ("--size", true),
            ("--larder", true),
            ("--json", true),
            ("--install", false),
        ];
        let words = args::parse(rest, &known)?;
        let [seconds, rounds] = if words.has("--quick") { [1, 2] } else { [5, 3] };
        Ok(Self {
            subject: *subject,
            duration: words.seconds("--seconds", seconds)?,
            rounds: words.number("--rounds", rounds)?,
            peers: choose_peers(*subject, words.get("--only"))?,
            objects: choose_objects(words.get("--size").unwrap_or("1k,1m"))?,
            larder: words.path("--larder"),
            json: words.path("--json"),
            install: words.has("--install"),
        })
    }
}

fn choose_objects(sizes: &str) -> Result<Vec<Object>> {
    let names: Vec<_> = OBJECTS.iter().map(|object| object.name).collect();
    let pick = |size: &str| OBJECTS.iter().copied().find(|object| object.name == size);
    sizes.split(',').map(|size| pick(size).ok_or_else(|| args::unknown("size", size, &names))).collect()
}

/// Returns the peers that take part: the requested ones, or the subject's default. For hits, the floor always takes
/// part.
fn choose_peers(subject: Subject, only: Option<&str>) -> Result<Vec<&'static Peer>> {
    let able: Vec<&Peer> = peers::ALL.iter().filter(|peer| (peer.suits)(subject)).collect();
    let names: Vec<_> = able.iter().map(|peer| peer.name).collect();
    let mut chosen = match only {
        None => {
            able.iter().copied().filter(|peer| subject != Subject::Misses || peer.usual_for_misses).collect()
        }
        Some(words) => words
            .split(',')
            .map(|word| {
                let found = able.iter().copied().find(|peer| peer.name == word);
                found.ok_or_else(|| args::unknown("server", word, &names))
            })
            .collect::<Result<Vec<_>>>()?,
    };
    if subject == Subject::Hits {
        chosen.retain(|peer| peer.which != Which::Floor);
        chosen.insert(0, &peers::FLOOR);
    }
    Ok(chosen)
}

/// Measures servers, prints their table and goals, and returns the goals. Fails if wrk is missing, a build fails, or
/// any server did not take part to the end; the table of the others is printed first.
fn run(options: &Options) -> Result<Vec<Goal>> {
    let chosen = present(options)?;
    let programs = peers::build(&chosen, options.larder.as_deref())?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    pin_self(cores)?;
    println!("{cores} cores; server on core {SERVER_CORE}, load on core {}", LOAD_CORE.min(cores - 1));
    warn_if_busy();
    server::remove_leftovers(&server::in_memory());
    let origin = origin::Origin::start();
    let mut failures = Vec::new();
    let mut servers = Vec::new();
    for peer in chosen {
        match Running::start(peer, &programs, &origin) {
            Ok(server) => servers.push(server),
            Err(error) => failures.push(format!("{}: {error:#}", peer.name)),
        }
    }
    let (rows, goals) = match options.subject {
        Subject::Hits => measure::hits(options, &servers, &origin, &mut failures)?,
        Subject::Misses => measure::misses(options, &servers, &origin, &mut failures)?,
        Subject::Memory => fill::memory(&servers, &origin, &mut failures),
    };
    table::print(&rows);
    goal::print(&goals);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    for failure in &failures {
        println!("left out: {failure}");
    }
    match failures.len() {
        0 => Ok(goals),
        count => bail!("{count} of the servers could not be measured"),
    }
}

/// Returns the chosen peers that are installed. Prints the names of the others with the way to install them, or
/// installs them.
fn present(options: &Options) -> Result<Vec<&'static Peer>> {
    let wanted: Vec<_> = options.peers.iter().filter_map(|peer| peer.package.as_ref()).collect();
    let mut missing = packages::missing(wanted.into_iter().chain([&packages::WRK]));
    if options.install {
        packages::install(&missing)?;
        missing.clear();
    }
    if missing.contains(&&packages::WRK) {
        bail!("wrk makes the load and is not installed; run: {}", packages::command_line(&[&packages::WRK]));
    }
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|package| package.name).collect();
        let command = packages::command_line(&missing);
        println!("not installed: {} (add --install, or run: {command})", names.join(", "));
    }
    let here = |peer: &&Peer| peer.package.as_ref().is_none_or(|package| !missing.contains(&package));
    Ok(options.peers.iter().copied().filter(here).collect())
}

/// Warns if other processes use the machine: servers with several threads suffer more from that than the floor does.
fn warn_if_busy() {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    if let Some(load) = load.filter(|load| *load > BUSY) {
        println!("the load average is {load}: others use this machine, so expect ratios to be off");
    }
}

/// Keeps this process, and the load generator that it starts, off the server's core.
fn pin_self(cores: usize) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(LOAD_CORE.min(cores - 1));
    rustix::thread::sched_setaffinity(None, &set).context("cannot choose a core")
}

#[cfg(test)]
mod tests {
    use super::{Options, Subject};

    fn parse(line: &str) -> anyhow::Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn names(line: &str) -> Vec<&'static str> {
        parse(line).unwrap().peers.iter().map(|peer| peer.name).collect()
    }

    #[test]
    fn hits_always_have_their_floor() {
        assert_eq!(names("hits --only larder,nginx"), ["floor", "larder", "nginx"]);
        assert_eq!(names("hits --only nginx,floor"), ["floor", "nginx"]);
    }

    #[test]
    fn each_subject_has_its_usual_servers() {
        assert_eq!(names("hits"), ["floor", "larder", "nginx", "varnish", "haproxy", "trafficserver"]);
        assert_eq!(names("misses"), ["larder", "nginx"]);
        assert_eq!(names("misses --only haproxy"), ["haproxy"]);
        assert_eq!(names("memory"), ["larder", "varnish"]);
    }

    #[test]
    fn defaults_and_values() {
        let options = parse("hits --size 1m --rounds 7").unwrap();
        assert!(options.subject == Subject::Hits && options.rounds == 7 && options.duration.as_secs() == 5);
        assert_eq!(options.objects.len(), 1);
        assert_eq!(options.objects[0].length, 1 << 20);
        let quick = parse("misses --quick --rounds 4").unwrap();
        assert!(quick.rounds == 4 && quick.duration.as_secs() == 1);
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, complaint) in [
            (
                "",
                "bench what? known are: hits, misses, memory, tls, h2, cluster, control, doors, disk, observe, purge, replay, rules, learn, all",
            ),
            ("reply", "unknown bench `reply`; did you mean `replay`?"),
            ("hit", "unknown bench `hit`; did you mean `hits`?"),
            ("hits --only ngnix", "unknown server `ngnix`; did you mean `nginx`?"),
            ("hits --size 1g", "unknown size `1g`; did you mean `1k`?"),
            ("hits --rounds 0", "option `--rounds` needs a whole number above 0, but got `0`"),
        ] {
            assert_eq!(parse(line).err().unwrap().to_string(), complaint, "{line}");
        }
    }
}
