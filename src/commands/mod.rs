//! The commands: a module each, and the command line that selects one.

mod advise;
mod ca;
mod cache;
mod check;
mod cluster;
mod completions;
mod config;
mod debug;
mod describe;
mod doctor;
mod env;
mod fetch;
mod log;
mod man;
mod passwd;
mod purge;
mod run;
mod serve;
mod simulate;
mod stats;
mod top;
mod upgrade;
mod version;
mod why;
mod workload;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use larder_server::Predecessor;

use crate::cli::{Failure, WatchAllocator, say};
use crate::config::flags::Run;

const EXAMPLES: &str = "\
Examples:
  larder serve
  larder serve --origin http://127.0.0.1:3000
  larder stats
  larder why http://127.0.0.1:8080/";

const VERSION_EXAMPLES: &str = "\
Examples:
  larder version";

/// A caching web proxy, with a laboratory that simulates caches.
#[derive(Debug, Parser)]
#[command(name = "larder", version = version::line(), after_help = EXAMPLES)]
pub(crate) struct CommandLine {
    /// End when standard input is closed, as happens when the parent process ends
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the proxy
    #[command(after_help = serve::EXAMPLES)]
    Serve(Run),
    /// Run a command behind a private proxy that caches its downloads, also over https
    #[command(after_help = run::EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Print the settings by which other programs use a proxy that intercepts
    #[command(after_help = env::EXAMPLES)]
    Env(env::EnvArgs),
    /// Make, show or export the authority that signs certificates for intercepted hosts
    Ca(ca::CaArgs),
    /// Validate a config and show what would run
    #[command(after_help = check::EXAMPLES)]
    Check(check::Check),
    /// Compare the config of a running proxy with its file
    Config(config::ConfigArgs),
    /// Find what keeps this machine from serving well, and what to change
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(Box<doctor::Doctor>),
    /// Collect what a report of an error needs
    Debug(debug::DebugArgs),
    /// Show the counters of a running proxy, or query the statistics database
    #[command(after_help = stats::EXAMPLES)]
    Stats(stats::Stats),
    /// Explain the decision of the cache about a request
    #[command(after_help = why::EXAMPLES)]
    Why(why::Why),
    /// Show what another policy or size of the cache would bring
    #[command(after_help = advise::EXAMPLES)]
    Advise(advise::Advise),
    /// Watch requests as they end
    #[command(after_help = log::EXAMPLES)]
    Log(log::Log),
    /// Watch the most requested URLs
    #[command(after_help = top::EXAMPLES)]
    Top(top::Top),
    /// Replace a running proxy by the program in its file, without a lost connection
    #[command(after_help = upgrade::EXAMPLES)]
    Upgrade(upgrade::Upgrade),
    /// Invalidate or remove stored responses
    #[command(after_help = purge::EXAMPLES)]
    Purge(purge::Purge),
    /// Set the password of a user for rules
    #[command(after_help = passwd::EXAMPLES)]
    Passwd(passwd::Passwd),
    /// Show cluster nodes and their state
    #[command(after_help = cluster::EXAMPLES)]
    Cluster(cluster::ClusterArgs),
    /// List, print or verify stored responses
    Cache(cache::CacheArgs),
    /// Fetch pages through a proxy, or send a workload to it
    #[command(after_help = fetch::EXAMPLES)]
    Fetch(Box<fetch::Fetch>),
    /// Replay traces under policies and cache sizes
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(Box<simulate::Simulate>),
    /// Show statistics of traces
    #[command(after_help = describe::EXAMPLES)]
    Describe(describe::Describe),
    /// Generate a workload
    Workload(workload::WorkloadArgs),
    /// Name the program that runs experiments
    #[command(hide = true, disable_help_flag = true)]
    Experiment {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Print a script that completes commands and options in a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::Completions),
    /// Write the manual pages
    #[command(after_help = man::EXAMPLES)]
    Man(man::ManArgs),
    /// Print the version
    #[command(after_help = VERSION_EXAMPLES)]
    Version,
}

/// Runs the command. `predecessor` is a process that hands over to this one.
pub(crate) fn run(
    command: Command,
    predecessor: Option<Predecessor>,
    watch: WatchAllocator,
) -> Result<(), Failure> {
    match command {
        Command::Serve(run) => serve::run(&run, predecessor, watch),
        Command::Run(args) => run::run(&args, watch),
        Command::Env(args) => env::run(&args),
        Command::Ca(args) => ca::run(&args),
        Command::Check(check) => check::run(&check),
        Command::Config(args) => config::run(&args),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Debug(args) => debug::run(&args),
        Command::Stats(stats) => stats::run(&stats),
        Command::Why(why) => why::run(&why),
        Command::Advise(advise) => advise::run(&advise),
        Command::Log(log) => log::run(&log),
        Command::Top(top) => top::run(&top),
        Command::Upgrade(upgrade) => upgrade::run(&upgrade),
        Command::Purge(purge) => purge::run(&purge),
        Command::Passwd(passwd) => passwd::run(&passwd),
        Command::Cluster(args) => cluster::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Fetch(fetch) => fetch::run(&fetch),
        Command::Simulate(simulate) => simulate::run(&simulate),
        Command::Describe(describe) => describe::run(&describe),
        Command::Workload(args) => workload::run(args),
        Command::Experiment { .. } => {
            Err(Failure::Refused("another program runs experiments: larder-lab experiment".to_owned()))
        }
        Command::Completions(completions) => completions::run(&completions, CommandLine::command()),
        Command::Man(args) => man::run(&args, CommandLine::command()),
        Command::Version => {
            say(&format!("larder {}", version::line()));
            Ok(())
        }
    }
}
