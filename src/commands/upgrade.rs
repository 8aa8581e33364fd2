//! `larder upgrade`: makes a running larder start its successor and hand over to it.

use std::path::{PathBuf, absolute};
use std::time::Duration;

use clap::Args;

use crate::cli::admin::{ADMIN, address};
use crate::cli::units::parse_duration;
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder upgrade
      after a new version was installed over the old one
  larder upgrade --binary ./larder
      to the program in this file
  larder upgrade --admin 127.0.0.1:9146
      the process with this admin listener

The running process starts the program with its own arguments, and hands its listening sockets over: no connection is
refused. It ends after the last requests on its connections (timeouts.drain). If the new process does not serve in time,
or its config has errors, the running one goes on as before. Only root and the user of the process may ask for it, on the
same machine. The signal USR2 does the same, and the log has the result.";

/// The arguments of `upgrade`.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Upgrade {
    /// The program [default: the file from which the running process was started]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Longest time until the new process serves
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,
    /// Address of the admin listener, which names the process
    #[arg(long, value_name = "ADDRESS", default_value = ADMIN, value_parser = address)]
    admin: String,
}

/// Asks for the upgrade, and prints what serves now.
pub(crate) fn run(upgrade: &Upgrade) -> Result<(), Failure> {
    if upgrade.timeout.is_zero() {
        return Err(Failure::Refused("--timeout 0s: no process serves in no time, write 60s".to_owned()));
    }
    let binary = upgrade.binary.as_ref().map(absolute).transpose();
    let binary = binary.map_err(|error| Failure::Refused(format!("--binary: {error}")))?;
    let admin = upgrade.admin.strip_prefix("https://").unwrap_or(&upgrade.admin);
    say(&larder_server::upgrade(admin, binary.as_deref(), upgrade.timeout).map_err(Failure::Failed)?);
    Ok(())
}
