//! `larder run`: runs a command behind a private forward proxy, which caches what the command downloads for later runs.
//!
//! The proxy is a part of this process and ends with the command. The command inherits the terminal, and its exit code is
//! that of this program.

mod cache;
mod child;
pub(super) mod environment;
mod proxy;
mod registries;
mod report;
mod truststore;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use self::cache::Cache;
use self::environment::Environment;
use self::proxy::Proxy;
use self::report::Report;
use crate::cli::files::unwritten;
use crate::cli::{Failure, WatchAllocator, units};
use crate::commands::serve::logging;
use crate::config::{authority, names};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder run -- npm ci
      downloads from public registries, and from those of .npmrc, come from the cache the next time
  larder run --host '*.packages.example' -- pip install -r requirements.txt
  larder run --offline -- cargo build
      what is not in the cache is an error
  larder run --min-age 7d -- npm update
      no version that is younger than a week
  larder run --require --report run.json -- make
      exit code 1 if no request came through the proxy

The command's exit code is that of larder. A daemon that runs already does not see the environment of the command:
docker build, and a Gradle daemon. larder env docker prints settings for it.";

/// The arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Also cache downloads over https from this host, such as *.packages.example; repeatable
    #[arg(long, value_name = "HOST", value_parser = names::intercepted)]
    host: Vec<String>,
    /// Cache downloads from all hosts
    #[arg(long)]
    all: bool,
    /// Answer from the cache only
    #[arg(long)]
    offline: bool,
    /// Ask again for responses that are older than this, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, conflicts_with = "offline")]
    max_age: Option<Duration>,
    /// Hide versions of packages that are younger than this, such as 7d, and refuse their files
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    min_age: Option<Duration>,
    /// Fail if no request came through the proxy
    #[arg(long)]
    require: bool,
    /// Write a report in JSON to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// List each request with its decision at the end
    #[arg(long, short)]
    verbose: bool,
    /// Directory of the cache [default: larder in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR", value_parser = names::directory)]
    cache: Option<PathBuf>,
    /// Size of the cache on disk [default: 10GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    size: Option<u64>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command, and tells what the proxy has saved.
pub(crate) fn run(args: &RunArgs, watch_allocator: WatchAllocator) -> Result<(), Failure> {
    logging::start("error").map_err(Failure::Refused)?;
    let place = authority::files(None, "run").map_err(Failure::Failed)?;
    let authority = authority::provide(&place).map_err(Failure::Failed)?;
    let cache = Cache::open(args.cache.as_deref()).map_err(Failure::Failed)?;
    let proxy = Proxy::start(args, &cache, watch_allocator)?;
    let environment = Environment::new(proxy.address, &authority, |name| std::env::var_os(name));
    let environment = environment
        .map_err(|error| Failure::Failed(format!("cannot write the certificates: {}", unwritten(&error))))?;
    let begun = Instant::now();
    let ended = child::run(&args.command, &environment);
    let took = begun.elapsed();
    proxy.end();
    drop(environment);
    let ended = ended.map_err(|code| {
        let program = args.command[0].to_string_lossy().into_owned();
        tell(&match code {
            child::NOT_FOUND => format!("{program}: no such command"),
            _ => format!("{program}: it cannot be started"),
        });
        Failure::Ended(code)
    })?;
    let mut report = Report::of(&cache.requests(), cache.times());
    report.command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    (report.exit_code, report.seconds) = (ended, took.as_secs_f64());
    if let Err(error) = cache.keep_times(&report.times) {
        tell(&format!("cannot keep the durations of requests: {}", unwritten(&error)));
    }
    conclude(args, &report)
}

/// Prints and writes the report, and returns the exit code of the command.
fn conclude(args: &RunArgs, report: &Report) -> Result<(), Failure> {
    if args.verbose {
        report.decisions().iter().for_each(|line| tell(line));
    }
    report.summary().iter().for_each(|line| tell(line));
    if let Some(path) = &args.report {
        std::fs::write(path, report.json()).map_err(|error| {
            Failure::Failed(format!("cannot write {}: {}", path.display(), unwritten(&error)))
        })?;
    }
    match report.exit_code {
        0 if args.require && report.requests == 0 => {
            Err(Failure::Failed("--require: no request came through the proxy".to_owned()))
        }
        0 => Ok(()),
        code => Err(Failure::Ended(code)),
    }
}

/// Prints a line to standard error, beside those of the command.
fn tell(line: &str) {
    // Without standard error, nobody reads it.
    let _ = writeln!(io::stderr(), "larder: {line}");
}

/// Returns the hosts that are intercepted.
fn hosts(args: &RunArgs) -> Vec<String> {
    if args.all {
        return vec!["*".to_owned()];
    }
    let mut hosts = args.host.clone();
    hosts.push(crate::config::registries::WORD.to_owned());
    hosts.extend(registries::of_tools());
    hosts
}
