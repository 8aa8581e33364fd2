//! `larder doctor`: examines the machine and the config for what keeps `larder serve` from working, or from working well.
//!
//! It examines the limits, the control group and the rights of its own process. They are those of the service if the
//! service runs it. It changes nothing; each part is a file.

mod disks;
mod finding;
mod kernel;
mod limits;
mod memory;
mod ports;

use clap::Args;
use larder_proxy::Settings;

use self::finding::{Finding, Level};
use super::check;
use crate::cli::tables::aligned;
use crate::cli::terminal::{Tone, coloured};
use crate::cli::units::counted;
use crate::cli::{Failure, say};
use crate::config::flags::Run;
use crate::config::machine::Machine;
use crate::config::{self, ConfigError};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder doctor
  larder doctor --config /etc/larder/larder.toml
  larder doctor --config larder.toml --json | jq '.[] | select(.level != \"ok\")'

The exit code is 1 if there is a problem. Warnings do not change it.";

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The arguments of `serve`.
    #[command(flatten)]
    run: Run,
}

/// Prints the findings, and fails if one of them is a problem.
pub(crate) fn run(doctor: &Doctor) -> Result<(), Failure> {
    let findings = examine(&doctor.run, &Machine::here());
    match doctor.json {
        true => say(&serde_json::to_string(&findings).map_err(|error| Failure::Failed(error.to_string()))?),
        false => lines(&findings).iter().for_each(|line| say(line)),
    }
    match findings.iter().filter(|finding| finding.level == Level::Problem).count() {
        0 => Ok(()),
        count => Err(Failure::Failed(counted(count as u64, "problem", "problems"))),
    }
}

/// Returns the findings about `machine` and the config of `run`. Without a valid config, only the machine is examined.
pub(super) fn examine(run: &Run, machine: &Machine) -> Vec<Finding> {
    let settings = config::load(run.config.as_deref(), &run.flags);
    let mut findings = config(run, &settings);
    if let Ok(settings) = &settings {
        findings.push(limits::open_files(settings));
        findings.push(memory::capacity(settings, machine));
        findings.extend(settings.disks.iter().map(disks::space));
        findings.extend(ports::all(settings));
    }
    findings.extend([limits::file_size(), memory::huge_pages(machine), memory::overcommit(machine)]);
    findings.extend([kernel::memory_files(), kernel::queue(machine), kernel::clock(machine)]);
    findings
}

/// Returns the findings of `larder check`.
fn config(run: &Run, settings: &Result<Settings, ConfigError>) -> Vec<Finding> {
    const WHY: &str = "larder serve does not start with it, and does not reload it";
    let problem = |line: &str| Finding::problem("config", line, WHY);
    let settings = match settings {
        Ok(settings) => settings,
        Err(error) => return error.problems.iter().map(|line| problem(line)).collect(),
    };
    let warnings = match check::examine(settings) {
        Ok(findings) => findings.warnings,
        Err(problems) => return problems.lines().map(problem).collect(),
    };
    let name = match &run.config {
        Some(path) => format!("{} can be used", path.display()),
        None => "no file: the defaults and the flags".to_owned(),
    };
    let warning = |line| Finding::warning("config", line, "most likely, this is not what you want");
    std::iter::once(Finding::ok("config", name)).chain(warnings.into_iter().map(warning)).collect()
}

/// Formats the findings for people.
pub(super) fn lines(findings: &[Finding]) -> Vec<String> {
    let row = |finding: &Finding| {
        let advice = finding.advice.iter().map(|advice| format!(": {advice}")).collect::<String>();
        vec![finding.level.to_string(), finding.subject.to_owned(), format!("{}{advice}", finding.found)]
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    let tone = |finding: &Finding| match finding.level {
        Level::Ok => Tone::Good,
        Level::Warning => Tone::Fair,
        Level::Problem => Tone::Bad,
    };
    let line = |(line, finding): (String, &Finding)| {
        let (level, rest) = line.split_once(' ').unwrap_or((&line, ""));
        format!("{} {rest}", coloured(tone(finding), level))
    };
    aligned(&rows, 3, "  ").into_iter().zip(findings).map(line).collect()
}
