//! The command line: commands, flags, and their help with examples.
//!
//! Values are parsed here, one by one; `config` combines them with the file and with each other.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use larder_evict::Spec;
use larder_proxy::settings::{AccessLog, Origin};

use crate::cache::args::Line as Cache;
use crate::cluster::{self, EXAMPLES as CLUSTER_EXAMPLES};
use crate::config::names::ACCESS_LOGS;
use crate::config::statistics::{self, Place};
use crate::config::{DISK, ENTRIES, MEMORY, THREADS, names};
use crate::experiment::EXAMPLES as EXPERIMENT_EXAMPLES;
use crate::fetch::args::{EXAMPLES as FETCH_EXAMPLES, Fetch};
use crate::findings::Findings;
use crate::lab_args::{DESCRIBE_EXAMPLES, Describe, SIMULATE_EXAMPLES, Simulate};
use crate::live::Live;
use crate::records::Asked;
use crate::remote::Listener;
use crate::watch_args::{LOG_EXAMPLES, Log, PURGE_EXAMPLES, Purge, TOP_EXAMPLES, Top, WHY_EXAMPLES, Why};
use crate::{experiment, units, workload};

/// Where the admin listener is unless told otherwise.
pub(crate) const ADMIN: &str = "127.0.0.1:9145";

const EXAMPLES: &str = "\
Examples:
  larder serve
  larder serve --origin http://127.0.0.1:3000
  larder stats
  larder why http://127.0.0.1:8080/";

const SERVE_EXAMPLES: &str = "\
Examples:
  larder serve
      a forward proxy on 127.0.0.1:3128; try: curl -x http://127.0.0.1:3128 http://example.com/
  larder serve --listen 127.0.0.1:8080 --origin http://127.0.0.1:3000
      a cache in front of a server
  larder serve --line 127.0.0.1:3130
      also a listener for the line protocol; try: echo http://example.com/ | nc 127.0.0.1 3130
  larder serve --config larder.toml --memory 4GiB
      the config in the file, with more memory

Signals: HUP reads the file again, TERM and INT finish the requests in progress, a second one stops at once.
LARDER_LOG=debug shows more on standard error.";

const CHECK_EXAMPLES: &str = "\
Examples:
  larder check --config larder.toml
  larder check --origin http://127.0.0.1:3000 --memory 4GiB
  larder check --example > larder.toml";

const STATS_EXAMPLES: &str = "\
Examples:
  larder stats
      a summary on one screen; --all shows every number, --watch repeats it every second
  larder stats --admin 127.0.0.1:9146 --json
  larder stats --validator
      hits that [validate] found stale
  larder stats --couplings
      writes that seem to change the responses of other paths
  larder stats --by route --since 1h
  larder stats --top misses --stats sqlite:statistics.db
  larder stats --sql 'SELECT url, status FROM transactions ORDER BY id DESC LIMIT 10'";

const VERSION_EXAMPLES: &str = "\
Examples:
  larder version";

/// A caching web proxy, and the laboratory that explains it.
#[derive(Debug, Parser)]
#[command(name = "larder", version, after_help = EXAMPLES)]
pub(crate) struct Line {
    /// End when standard input is closed, for parent processes
    #[arg(long, hide = true)]
    pub(crate) tethered: bool,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One command each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the proxy
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Run),
    /// Validate a config and show what would run
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Show the counters of a running proxy, or query the statistics database
    #[command(after_help = STATS_EXAMPLES)]
    Stats(Stats),
    /// Explain what the cache would do with a request, and why
    #[command(after_help = WHY_EXAMPLES)]
    Why(Why),
    /// Watch requests as they end
    #[command(after_help = LOG_EXAMPLES)]
    Log(Log),
    /// Watch the most requested URLs
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// Invalidate or remove stored responses
    #[command(after_help = PURGE_EXAMPLES)]
    Purge(Purge),
    /// Show cluster nodes and their state
    #[command(after_help = CLUSTER_EXAMPLES)]
    Cluster(cluster::Line),
    /// List, print or verify stored responses
    Cache(Cache),
    /// Fetch pages through a proxy, or replay a workload on it
    #[command(after_help = FETCH_EXAMPLES)]
    Fetch(Box<Fetch>),
    /// Replay traces through policies and sizes
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Box<Simulate>),
    /// Show statistics of traces
    #[command(after_help = DESCRIBE_EXAMPLES)]
    Describe(Describe),
    /// Generate a workload
    Workload(workload::Line),
    /// Run experiments on a live proxy and write a report
    #[command(after_help = EXPERIMENT_EXAMPLES)]
    Experiment(experiment::Line),
    /// Run a part of a live experiment
    #[command(subcommand, hide = true)]
    Live(Live),
    /// Print the version
    #[command(after_help = VERSION_EXAMPLES)]
    Version,
}

/// What `serve` runs and `check` validates.
#[derive(Clone, Debug, Args)]
pub(crate) struct Run {
    /// Read this file first; flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What overrides the file.
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// What `check` validates, or prints instead.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print a config file with every key and its default
    #[arg(long, exclusive = true)]
    pub(crate) example: bool,
    /// Print a reference in Markdown: of the config's keys, or of the metrics
    #[arg(long, value_name = "PAGE", num_args = 0..=1, default_missing_value = "config", exclusive = true)]
    pub(crate) reference: Option<Reference>,
    /// What would run.
    #[command(flatten)]
    pub(crate) run: Run,
}

/// Flags that override a config file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Flags {
    /// Serve sites at this address [default: 127.0.0.1:8080]; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Be a reverse proxy for this origin, instead of the file's sites; repeatable
    #[arg(long, value_name = "URL", value_parser = names::origin)]
    pub(crate) origin: Vec<Origin>,
    /// Be a forward proxy at this address [default: 127.0.0.1:3128 without an origin]; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) forward: Vec<SocketAddr>,
    /// Serve Thrift at this address; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) thrift: Vec<SocketAddr>,
    /// Serve ONC RPC at this address; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) onc: Vec<SocketAddr>,
    /// Serve the line protocol at this address; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) line: Vec<SocketAddr>,
    /// Memory for stored responses, such as 64MiB [default: 1GiB or a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = memory, conflicts_with = "entries")]
    pub(crate) memory: Option<u64>,
    /// Capacity of the memory in responses instead of bytes
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(ENTRIES))]
    pub(crate) entries: Option<u64>,
    /// Eviction policy, such as s3fifo or tinylfu+gdsf [default: adaptive]
    #[arg(long, value_name = "POLICY", value_parser = names::policy)]
    pub(crate) policy: Option<Spec>,
    /// Also store responses on disk in this directory; repeatable
    #[arg(long, value_name = "DIR", value_parser = names::directory)]
    pub(crate) disk: Vec<PathBuf>,
    /// Size of a disk directory [default: 10GiB]; once for all, or once for each
    #[arg(long, value_name = "SIZE", value_parser = disk_size, requires = "disk")]
    pub(crate) disk_size: Vec<u64>,
    /// Eviction policy of the disk, such as secondhit+lru [default: sieve]
    #[arg(long, value_name = "POLICY", value_parser = names::policy, requires = "disk")]
    pub(crate) disk_policy: Option<Spec>,
    /// Address of the admin listener, or off [default: 127.0.0.1:9145]
    #[arg(long, value_name = "ADDRESS", value_parser = admin)]
    pub(crate) admin: Option<Admin>,
    /// URL of the statistics database, or none [default: auto, a file in the state directory]
    #[arg(long, value_name = "URL", value_parser = statistics::parse)]
    pub(crate) stats: Option<Place>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "NUMBER", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Write an access log in this form [default: off]
    #[arg(long, value_name = "FORM", value_parser = access_log())]
    pub(crate) access_log: Option<AccessLog>,
    /// File of the access log [default: standard output]
    #[arg(long, value_name = "FILE", value_parser = names::directory)]
    pub(crate) access_log_file: Option<PathBuf>,
    /// Let forward clients reach loopback, link-local, private and metadata addresses
    #[arg(long)]
    pub(crate) allow_private: bool,
}

/// A reference that the program prints.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Reference {
    Config,
    Metrics,
}

/// What `stats` asks, and how it shows the answer.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The admin listener.
    #[command(flatten)]
    pub(crate) listener: Listener,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print every number instead of a summary
    #[arg(long, conflicts_with_all = ["json", "question", "validator", "couplings"])]
    pub(crate) all: bool,
    /// Print the numbers every second until interrupted
    #[arg(long, conflicts_with_all = ["question", "validator", "couplings"])]
    pub(crate) watch: bool,
    /// What it found out, instead of its numbers.
    #[command(flatten)]
    pub(crate) findings: Findings,
    /// What to ask the statistics database instead.
    #[command(flatten)]
    pub(crate) asked: Asked,
}

/// The admin listener's address; `None`: off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admin(pub(crate) Option<SocketAddr>);

fn admin(text: &str) -> Result<Admin, String> {
    names::admin(text).map(Admin)
}

fn access_log() -> impl TypedValueParser<Value = AccessLog> {
    let form = |word: String| ACCESS_LOGS.iter().find(|(known, _)| *known == word).map(|(_, form)| *form);
    let words = PossibleValuesParser::new(ACCESS_LOGS.iter().map(|(word, _)| *word));
    words.try_map(move |word| form(word).ok_or("no form"))
}

fn memory(text: &str) -> Result<u64, String> {
    size_within(text, &MEMORY)
}

fn disk_size(text: &str) -> Result<u64, String> {
    size_within(text, &DISK)
}

fn size_within(text: &str, bounds: &RangeInclusive<u64>) -> Result<u64, String> {
    let size = units::parse_size(text)?;
    let (least, most) = (units::show_size(*bounds.start()), units::show_size(*bounds.end()));
    if bounds.contains(&size) { Ok(size) } else { Err(format!("expected a size from {least} to {most}")) }
}

fn threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| THREADS.contains(number));
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("expected a number from {} to {}", THREADS.start(), THREADS.end()))
}
