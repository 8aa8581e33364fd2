//! `larder config diff`: the config of a running proxy, compared with its file.
//!
//! The proxy makes the comparison: it has the flags and the environment in which the file is read.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::admin::AdminListener;
use crate::cli::json::Parts;
use crate::cli::tables::aligned;
use crate::cli::units::counted;
use crate::cli::words::printable;
use crate::cli::{Failure, say};

const DIFF_EXAMPLES: &str = "\
Examples:
  larder config diff
      the keys that have other values in the file than in the larder with its admin listener on 127.0.0.1:9145
  larder config diff && echo up to date
  larder config diff --json | jq '.differences[] | select(.needs_restart).key'

The exit code is 1 if there are differences, or if the file has errors.";

/// The arguments of `config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// List the keys whose values in the file are not those in force, and what a change needs
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Diff),
}

#[derive(Debug, Args)]
struct Diff {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    let ConfigCommand::Diff(diff) = &args.command;
    let client = diff.listener.client()?;
    let report: Value = client.get("config", &[])?;
    if diff.json {
        say(&report.to_string());
    }
    let problems: Vec<_> = report.list("problems").iter().map(text).collect();
    if !problems.is_empty() {
        return Err(Failure::Failed(problems.join("\n")));
    }
    let differences = report.list("differences");
    match (differences.len() as u64, report["file"].as_str()) {
        (0, Some(_)) => Ok(()),
        (0, None) => Err(Failure::Failed("it was started without a config file".to_owned())),
        (count, _) => {
            if !diff.json {
                lines(differences).iter().for_each(|line| say(line));
            }
            Err(Failure::Failed(counted(count, "key differs", "keys differ")))
        }
    }
}

/// Formats the differences for people.
fn lines(differences: &[Value]) -> Vec<String> {
    let heading = ["KEY", "RUNNING", "FILE", "APPLIES AFTER A"].map(str::to_owned).to_vec();
    let row = |difference: &Value| {
        let shown = |side: &str| match (&difference["is_secret"], &difference[side]) {
            (Value::Bool(true), _) => "differs".to_owned(),
            (_, Value::Null) => "default".to_owned(),
            (_, value) => text(value),
        };
        let needed = if difference["needs_restart"] == true { "restart" } else { "reload" };
        vec![difference.word("key"), shown("running"), shown("file"), needed.to_owned()]
    };
    let rows: Vec<_> = [heading].into_iter().chain(differences.iter().map(row)).collect();
    aligned(&rows, 4, "  ")
}

fn text(value: &Value) -> String {
    value.as_str().map(printable).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_rows_and_secrets_are_not_shown() {
        let differences = [
            json!({ "key": "admin_token", "running": "(not shown)", "file": null, "is_secret": true, "needs_restart": false }),
            json!({ "key": "threads", "running": null, "file": "4", "is_secret": false, "needs_restart": true }),
        ];
        assert_eq!(
            lines(&differences),
            [
                "KEY          RUNNING  FILE     APPLIES AFTER A",
                "admin_token  differs  differs  reload",
                "threads      default  4        restart",
            ]
        );
    }
}
