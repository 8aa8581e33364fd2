//! The `larder` command: reads the command line and calls one module for each command.
//!
//! Exit codes: 0 success, 1 failure, 2 invalid arguments or config.

mod args;
mod cache;
mod check;
mod cluster;
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
mod prices;
mod progress;
mod purge;
mod records;
mod remote;
mod secret;
mod serve;
mod simulate;
mod stats;
mod summary;
mod tether;
mod top;
mod units;
mod watch_args;
mod why;
mod words;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Command, Line};

/// Why a command did not do what it was asked, in lines for the user.
enum Failure {
    /// It was tried, and failed.
    Failed(String),
    /// The words or the config were wrong, so that nothing was tried.
    Refused(String),
}

fn main() -> ExitCode {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(said)
            if said.exit_code() == 0
                || said.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            said.exit()
        }
        Err(wrong) => return fail(2, &in_one_line(&wrong.render().to_string())),
    };
    let tied = if line.tethered { tether::tether() } else { Ok(()) };
    match tied.and_then(|()| run(line.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(lines)) => fail(1, &lines),
        Err(Failure::Refused(lines)) => fail(2, &lines),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(run) => serve::run(&run),
        Command::Check(run) => check::run(&run),
        Command::Stats(stats) => stats::run(&stats),
        Command::Why(why) => why::run(&why),
        Command::Log(log) => log::run(&log),
        Command::Top(top) => top::run(&top),
        Command::Purge(purge) => purge::run(&purge),
        Command::Cluster(line) => cluster::run(&line),
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
    }
}

fn fail(code: u8, lines: &str) -> ExitCode {
    for line in lines.lines() {
        // Nobody is left to tell when standard error is gone.
        let _ = writeln!(io::stderr(), "larder: {line}");
    }
    ExitCode::from(code)
}

/// What was wrong with the words, without the usage that follows: `--help` has that.
fn in_one_line(error: &str) -> String {
    let lines = error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let told = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let line = told.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// Prints a line to standard output. A reader that has closed the pipe, as `head` does, is no failure.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Line;

    #[test]
    fn wrong_words_are_told_in_one_line() {
        let told = |line: &str| {
            let error = Line::try_parse_from(line.split(' ')).unwrap_err();
            super::in_one_line(&error.render().to_string())
        };
        for (line, expected) in [
            ("larder serv", "unrecognized subcommand 'serv'; tip: a similar subcommand exists: 'serve'"),
            (
                "larder serve --memoy 1",
                "unexpected argument '--memoy' found; tip: a similar argument exists: '--memory'",
            ),
            ("larder why", "the following required arguments were not provided: <URL>"),
        ] {
            assert_eq!(told(line), expected);
        }
    }
}
