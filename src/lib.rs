//! The `larder` program: reads the command line and runs the command.

mod cli;
mod commands;
mod config;

use std::process::ExitCode;

use larder_cli::{Failure, Program, exit_with_parent};
use larder_proxy::Predecessor;

use crate::cli::WatchAllocator;
use crate::commands::CommandLine;
pub use crate::config::problems;

const LARDER: Program = Program { name: "larder", toml: "--config" };

/// Runs the command line of this process. A command that serves requests calls `watch` with its store.
pub fn run(watch: WatchAllocator) -> ExitCode {
    larder_proxy::net::tls::install();
    LARDER.run(|line: CommandLine| {
        // A process that hands over to this one has given it a standard input that is not to be read.
        let predecessor = Predecessor::meet().map_err(|error| Failure::Failed(error.to_string()))?;
        if line.exit_with_parent {
            exit_with_parent()?;
        }
        commands::run(line.command, predecessor, watch)
    })
}

#[cfg(test)]
mod tests {
    use super::LARDER;
    use crate::commands::CommandLine;

    #[test]
    fn wrong_words_are_reported_in_one_line() {
        let told = |line: &str| {
            let error = larder_cli::parse::<CommandLine, _>(line.split(' ')).unwrap_err();
            LARDER.in_one_line(&error)
        };
        for (line, expected) in [
            ("larder servee", "unrecognized subcommand 'servee'; tip: a similar subcommand exists: 'serve'"),
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
