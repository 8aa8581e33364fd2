//! The `larder-lab` program: experiments on a live Larder, and their parts that are separate processes.

mod experiment;
mod live;
mod prices;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use larder_cli::{Program, exit_with_parent};

const LAB: Program = Program { name: "larder-lab", toml: "--prices" };

/// The allocator of `larder`, so that clients and services cost what they would cost there.
use larder_heap as _;

/// Experiments on a live Larder.
#[derive(Debug, Parser)]
#[command(name = "larder-lab", version)]
struct CommandLine {
    /// End when standard input is closed, as happens when the parent process ends
    #[arg(long, hide = true)]
    exit_with_parent: bool,
    /// The command.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run experiments on a live proxy and write a report
    #[command(after_help = experiment::EXAMPLES)]
    Experiment(experiment::ExperimentArgs),
    /// Run a part of an experiment
    #[command(subcommand, hide = true)]
    Live(live::Live),
}

fn main() -> ExitCode {
    LAB.run(|line: CommandLine| {
        if line.exit_with_parent {
            exit_with_parent()?;
        }
        match line.command {
            Command::Experiment(args) => experiment::run(&args),
            Command::Live(live) => live::run(&live),
        }
    })
}
