//! `cargo x bench`: compares servers in one run, by the CPU time that a request costs each of them.
//!
//! The measure is CPU time and not requests per second, because one core of load generator is slower than some of
//! the servers. Machines are noisy: rounds are interleaved, and ratios compare measurements of the same round.

mod advise;
mod all;
mod before;
mod cluster;
mod control;
mod disk;
mod doors;
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
mod peers;
mod process;
mod purge;
mod replay;
mod rules;
mod run;
mod scale;
mod server;
mod servers;
mod slices;
mod table;
mod tls;
mod tls_load;
mod unstored;
mod upgrade;

pub(crate) use self::origin::Origin;
pub(crate) use self::rules::rules;
use crate::args;
use anyhow::{Context, Result, bail};
use goal::Goal;
use peers::Subject;

/// The core of the server under test, and that of all other processes.
const SERVER_CORE: usize = 0;
const LOAD_CORE: usize = 1;

/// The load average over the last minute, before the bench adds its own load, from which figures are doubtful.
const BUSY: f64 = 1.0;

/// The number of connections of a load, except for very large objects.
const CONNECTIONS: u32 = 64;

/// A bench whose options are read. It prints its tables, and returns its goals.
type Ready = Box<dyn Fn() -> Result<Vec<Goal>>>;

/// Reads the words after the name of a bench. Fails on an unknown word, or an invalid value; the error names it.
type Parse = fn(&[String]) -> Result<Ready>;

/// THE LIST of benches, in the order of `bench all`.
const BENCHES: &[(&str, Parse)] = &[
    ("hits", |words| ready(servers::Options::parse(Subject::Hits, words)?, servers::run)),
    ("misses", |words| ready(servers::Options::parse(Subject::Misses, words)?, servers::run)),
    ("memory", |words| ready(servers::Options::parse(Subject::Memory, words)?, servers::run)),
    ("tls", |words| ready(tls::parse(words)?, tls::run)),
    ("h2", |words| ready(h2::parse(words)?, h2::run)),
    ("cluster", |words| ready(cluster::parse(words)?, cluster::run)),
    ("control", |words| ready(control::parse(words)?, control::run)),
    ("doors", |words| ready(doors::Options::parse(words)?, doors::run)),
    ("disk", |words| ready(disk::Options::parse(words)?, disk::run)),
    ("observe", |words| ready(observe::Options::parse(words)?, observe::run)),
    ("purge", |words| ready(purge::parse(words)?, purge::run)),
    ("slices", |words| ready(slices::parse(words)?, slices::run)),
    ("upgrade", |words| ready(upgrade::parse(words)?, upgrade::run)),
    ("replay", |words| ready(replay::Options::parse(words)?, replay::run)),
    ("rules", |words| ready(rules::parse(words)?, rules::run)),
    ("advise", |words| ready(options::TraceOptions::parse(words)?, advise::run)),
    ("run", |words| ready(run::parse(words)?, run::run)),
    ("scale", |words| ready(scale::parse(words)?, scale::run)),
    ("learn", |words| ready(options::TraceOptions::parse(words)?, learn::run)),
];

/// The name for all benches in sequence.
const ALL: &str = "all";

fn ready<O: 'static>(options: O, run: fn(&O) -> Result<Vec<Goal>>) -> Result<Ready> {
    Ok(Box::new(move || run(&options)))
}

/// The bench of a `cargo x bench` command line.
pub(crate) struct Bench(Selection);

enum Selection {
    One(Ready),
    All(all::Options),
}

impl Bench {
    /// Reads the words after `bench`. Fails on an unknown word, or an invalid value; the error names it.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        if words.iter().any(|word| word == "--before") {
            return ready(before::Options::parse(words)?, before::run).map(Selection::One).map(Self);
        }
        let names: Vec<_> = BENCHES.iter().map(|(name, _)| *name).chain([ALL]).collect();
        let Some((word, rest)) = words.split_first() else {
            bail!("bench what? known are: {}", names.join(", "));
        };
        if word == ALL {
            return all::Options::parse(BENCHES, rest).map(Selection::All).map(Self);
        }
        match BENCHES.iter().find(|(name, _)| name == word) {
            Some((_, parse)) => parse(rest).map(Selection::One).map(Self),
            None => Err(args::unknown("bench", word, &names)),
        }
    }

    /// Runs the bench and prints its tables. Fails if a build fails, a server did not take part to the end, or a goal
    /// is missed.
    pub(crate) fn run(&self) -> Result<()> {
        match &self.0 {
            Selection::One(bench) => goal::judge(&bench()?),
            Selection::All(options) => all::run(options),
        }
    }
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
    use super::Bench;

    #[test]
    fn wrong_names_are_reported_with_the_known_ones() {
        for (line, complaint) in [
            (
                "",
                "bench what? known are: hits, misses, memory, tls, h2, cluster, control, doors, disk, observe, purge, slices, upgrade, replay, rules, advise, run, scale, learn, all",
            ),
            ("reply", "unknown bench `reply`; did you mean `replay`?"),
            ("hit", "unknown bench `hit`; did you mean `hits`?"),
            ("hits --rounds 0", "option `--rounds` needs a whole number above 0, but got `0`"),
        ] {
            let words = crate::args::words(line);
            assert_eq!(Bench::parse(&words).err().unwrap().to_string(), complaint, "{line}");
        }
    }
}
