//! `larder check`: whether `larder serve` would accept the same arguments, and what it would run.

use clap::{Args, ValueEnum};

use crate::cli::{Failure, say};
use crate::config::flags::Run;
use crate::config::{self, docs};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder check --config larder.toml
  larder check --origin http://127.0.0.1:3000 --memory 4GiB
  larder check --example > larder.toml";

/// What `check` validates, or prints instead.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print a config file with every key and its default
    #[arg(long, exclusive = true)]
    example: bool,
    /// Print a reference in Markdown: of the config's keys, or of the metrics
    #[arg(long, value_name = "PAGE", num_args = 0..=1, default_missing_value = "config", exclusive = true)]
    reference: Option<Reference>,
    /// What would run.
    #[command(flatten)]
    run: Run,
}

/// A reference that the program prints.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reference {
    Config,
    Metrics,
}

/// Prints `ok` and a summary, or refuses with all that is wrong.
pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    if check.example {
        say(docs::example().trim_end());
        return Ok(());
    }
    if let Some(reference) = check.reference {
        let page = match reference {
            Reference::Config => docs::reference(),
            Reference::Metrics => larder_proxy::metrics_reference(),
        };
        say(page.trim_end());
        return Ok(());
    }
    let (path, flags) = (check.run.config.as_deref(), &check.run.flags);
    let settings = config::load(path, flags).map_err(|error| Failure::Refused(error.to_string()))?;
    say("ok");
    for (what, value) in config::summary(&settings) {
        say(&format!("{what:<8} {value}"));
    }
    Ok(())
}
