//! The arguments of `larder run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::registries;
use crate::cli::units;
use crate::config::names;
use crate::config::registries::WORD;

/// The arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Also cache downloads over https from this host, such as *.packages.example; repeatable
    #[arg(long, value_name = "HOST", value_parser = names::intercepted)]
    pub(super) host: Vec<String>,
    /// Cache downloads from all hosts
    #[arg(long)]
    pub(super) all: bool,
    /// Answer from the cache only
    #[arg(long)]
    pub(super) offline: bool,
    /// Ask again for responses that are older than this, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, conflicts_with = "offline")]
    pub(super) max_age: Option<Duration>,
    /// Hide versions of packages that are younger than this, such as 7d, and refuse their files
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub(super) min_age: Option<Duration>,
    /// Fail if no request came through the proxy
    #[arg(long)]
    pub(super) require: bool,
    /// Write a report in JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// List each request with its decision at the end
    #[arg(long, short)]
    pub(super) verbose: bool,
    /// Directory of the cache [default: larder in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR", value_parser = names::directory)]
    pub(super) cache: Option<PathBuf>,
    /// Size of the cache on disk [default: 10GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub(super) size: Option<u64>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

impl RunArgs {
    /// Returns the hosts that are intercepted.
    pub(super) fn hosts(&self) -> Vec<String> {
        if self.all {
            return vec!["*".to_owned()];
        }
        let mut hosts = self.host.clone();
        hosts.push(WORD.to_owned());
        hosts.extend(registries::of_tools());
        hosts
    }
}
