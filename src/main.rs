//! The `larder` command: reads the command line and hands over to one module per command.
//!
//! Exit codes: 0 done, 1 it failed, 2 the words or the config were wrong.

mod args;
mod cache;
mod check;
mod columns;
mod config;
mod describe;
mod experiment;
mod fetch;
mod findings;
mod heap;
mod lab_args;
mod live;
mod log;
mod logs;
mod progress;
mod purge;
mod records;
mod remote;
mod serve;
mod simulate;
mod stats;
mod top;
mod units;
mod watch_args;
mod why;
mod words;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Command, Line};

/// Why a command did not do what it was asked, in lines for the user.
enum Failure {
    /// It was tried, and failed.
    Failed(String),
    /// The words or the config were wrong, so that nothing was tried.
    Refused(String),
}

fn main() -> ExitCode {
    let outcome = match Line::parse().command {
        Command::Serve(run) => serve::run(&run),
        Command::Check(run) => check::run(&run),
        Command::Stats(stats) => stats::run(&stats),
        Command::Why(why) => why::run(&why),
        Command::Log(log) => log::run(&log),
        Command::Top(top) => top::run(&top),
        Command::Purge(purge) => purge::run(&purge),
        Command::Cache(line) => cache::run(&line),
        Command::Fetch(fetch) => fetch::run(&fetch),
        Command::Simulate(simulate) => simulate::run(&simulate),
        Command::Describe(describe) => describe::run(&describe),
        Command::Workload(line) => workload::run(line),
        Command::Experiment(line) => experiment::run(&line),
        Command::Live(live) => live::run(&live),
        Command::Version => {
            say(&format!("larder {}", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
    };
    let (code, lines) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(lines)) => (1, lines),
        Err(Failure::Refused(lines)) => (2, lines),
    };
    for line in lines.lines() {
        // Nobody is left to tell when standard error is gone.
        let _ = writeln!(io::stderr(), "larder: {line}");
    }
    ExitCode::from(code)
}

/// Prints a line to standard output. A reader who has left, as `head` does, is no reason to fail.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
