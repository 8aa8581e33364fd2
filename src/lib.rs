//! The `larder` program: reads the command line and runs the command.
//!
//! Exit codes: 0 success, 1 failure, 2 invalid arguments or config.

mod cli;
mod commands;
mod config;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::cli::exit_with_parent::exit_with_parent;
use crate::cli::{Failure, WatchAllocator};
use crate::commands::CommandLine;
pub use crate::config::problems;

/// Runs the command line of this process. A command that serves requests calls `watch` with its store.
pub fn run(watch: WatchAllocator) -> ExitCode {
    larder_proxy::net::tls::install();
    let line = match CommandLine::read(std::env::args_os()) {
        Ok(line) => line,
        Err(said)
            if said.exit_code() == 0
                || said.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            said.exit()
        }
        Err(wrong) => return fail(2, &in_one_line(&wrong.render().to_string())),
    };
    let watched = if line.exit_with_parent { exit_with_parent() } else { Ok(()) };
    match watched.and_then(|()| commands::run(line.command, watch)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(lines)) => fail(1, &lines),
        Err(Failure::Refused(lines)) => fail(2, &lines),
    }
}

fn fail(code: u8, lines: &str) -> ExitCode {
    for line in lines.lines() {
        // When standard error is gone, there is no way to report it.
        let _ = writeln!(io::stderr(), "larder: {line}");
    }
    ExitCode::from(code)
}

/// Returns the error in the arguments without the usage that follows, which `--help` shows.
fn in_one_line(error: &str) -> String {
    let lines = error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let told = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let line = told.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let word = line.strip_prefix("unexpected argument '").and_then(|rest| rest.strip_suffix("' found"));
    match word.filter(|word| word.ends_with(".toml")) {
        Some(file) => format!("{line}; tip: write --config {file}"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::CommandLine;

    #[test]
    fn wrong_words_are_reported_in_one_line() {
        let told = |line: &str| {
            let error = CommandLine::read(line.split(' ')).unwrap_err();
            super::in_one_line(&error.render().to_string())
        };
        for (line, expected) in [
            ("larder serv", "unrecognized subcommand 'serv'; tip: a similar subcommand exists: 'serve'"),
            (
                "larder serve --memoy 1",
                "unexpected argument '--memoy' found; tip: a similar argument exists: '--memory'",
            ),
            (
                "larder serve larder.toml",
                "unexpected argument 'larder.toml' found; tip: write --config larder.toml",
            ),
            ("larder why", "the following required arguments were not provided: <URL>"),
        ] {
            assert_eq!(told(line), expected);
        }
    }
}
