//! `larder run`: runs a command behind a private forward proxy, which caches what the command downloads for later runs.
//!
//! The proxy is another process of this program. The command inherits the terminal, and its exit code is that of this process.

mod args;
mod cache;
mod child;
pub(super) mod environment;
mod process;
mod proxy;
mod registries;
mod report;
mod truststore;

use std::time::Instant;

pub(crate) use self::args::RunArgs;
use self::environment::Environment;
use self::process::{EndedCommand, ProxyProcess};
use self::report::tell;
use crate::cli::files::unwritten;
use crate::cli::{Failure, WatchAllocator};
use crate::commands::serve::logging;
use crate::config::authority;

pub(super) const EXAMPLES: &str = "\
Examples:
  larder run -- npm ci
      downloads from public registries, and from those of .npmrc, come from the cache the next time
  larder run --host '*.packages.example' -- pip install -r requirements.txt
  larder run --offline -- cargo build
      what is not in the cache is an error
  larder run --min-age 7d -- npm update
      no version that is younger than a week
  larder run --require --report run.json -- make
      exit code 1 if no request came through the proxy

The command's exit code is that of larder. A daemon that runs already does not see the environment of the command:
docker build, and a Gradle daemon. larder env docker prints settings for it.";

/// What is logged: errors, content that is not what it should be, and a disk that is full.
const LOGGED: &str = "error,larder_proxy::flow::packages=warn,larder_proxy::features::maintenance=warn";

/// Runs the command, or the proxy for it.
pub(crate) fn run(args: &RunArgs, watch_allocator: WatchAllocator) -> Result<(), Failure> {
    logging::start(LOGGED).map_err(Failure::Refused)?;
    match process::is_proxy() {
        true => proxy::serve(args, watch_allocator),
        false => run_command(args),
    }
}

/// Runs the command behind a proxy, which then tells what it has saved.
fn run_command(args: &RunArgs) -> Result<(), Failure> {
    let place = authority::files(None, "run").map_err(Failure::Failed)?;
    let authority = authority::provide(&place).map_err(Failure::Failed)?;
    let unwritten = |error| Failure::Failed(format!("cannot write the certificates: {}", unwritten(&error)));
    let outside = |name: &str| std::env::var_os(name);
    let mut environment = Environment::new(outside).map_err(unwritten)?;
    let proxy = ProxyProcess::start(environment.of_proxy())?;
    environment.use_proxy(proxy.address, &authority, outside).map_err(unwritten)?;
    let begun = Instant::now();
    let ended = child::run(&args.command, &environment);
    let command = ended.ok().map(|exit_code| EndedCommand { exit_code, took: begun.elapsed() });
    let told = proxy.end(command);
    drop(environment);
    let exit_code = ended.map_err(|code| {
        let program = args.command[0].to_string_lossy();
        tell(&match code {
            child::NOT_FOUND => format!("{program}: no such command"),
            _ => format!("{program}: it cannot be started"),
        });
        Failure::Ended(code)
    })?;
    match told {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::Ended(code)),
        Err(signal) => {
            tell(&format!(
                "the proxy was ended by signal {signal} while the command ran: requests failed from then on, \
                 and nothing is known about those before"
            ));
            match exit_code {
                0 if args.require => {
                    Err(Failure::Failed("--require: the proxy did not live to the end".to_owned()))
                }
                0 => Ok(()),
                code => Err(Failure::Ended(code)),
            }
        }
    }
}
