//! The `larder` program: reads the command line and runs the command.

mod cli;
mod commands;
mod config;

use std::process::ExitCode;

use larder_cli::{Failure, Program, exit_with_parent};
use larder_server::Predecessor;

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
