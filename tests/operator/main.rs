//! The operator's tools: the command line, `larder doctor`, `larder config diff`, `larder debug bundle`, the rules for
//! alerts, the Helm chart, the files of packages, and their unit under systemd.

mod alerts;
mod bundle;
mod chart;
mod cli;
mod config;
mod doctor;
mod packaging;
mod service;

use std::process::{Command, Output};

use larder_testkit::programs;

/// Returns the command `larder` with these words, and without a token of the environment.
fn larder(words: &[&str]) -> Command {
    let mut command = Command::new(programs::larder());
    command.args(words).env_remove("LARDER_TOKEN").env_remove("LARDER_LOG");
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("it runs")
}
