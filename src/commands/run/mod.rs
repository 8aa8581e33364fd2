//! `larder run`: runs a command behind a private forward proxy, which caches what the command downloads for later runs.
//!
//! The proxy is another process of this program. The command inherits the terminal, and its exit code is that of this process.

mod args;
mod cache;
mod child;
pub(super) mod environment;
mod left;
mod lingering;
mod process;
mod proxy;
mod registries;
mod report;
mod truststore;

use std::env;
use std::time::Instant;

use signal_hook::consts::SIGXFSZ;
use signal_hook::iterator::Signals;

pub(crate) use self::args::RunArgs;
use self::environment::Environment;
use self::process::{EndedCommand, ProxyProcess, Role};
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
docker build, and a Gradle daemon. larder env docker prints settings for it. For daemons that the command starts,
the proxy stays until they end.";

/// What is logged: errors, content that is not what it should be, clients that do not trust the authority, and a disk that is full.
const LOGGED: &str = "error,larder_proxy::flow::packages=warn,larder_proxy::flow::interceptor=warn,\
    larder_proxy::features::maintenance=warn";

/// Runs the command, or the proxy for it.
pub(crate) fn run(args: &RunArgs, watch_allocator: WatchAllocator) -> Result<(), Failure> {
    // A file of more than the permitted size is an error.
    let _outlived = Signals::new([SIGXFSZ]);
    // RUST_LOG is for the command.
    logging::start(LOGGED, &["LARDER_LOG"]).map_err(Failure::Refused)?;
    match Role::of_this_process() {
        Role::Command => run_command(args),
        Role::Proxy => proxy::serve(args, watch_allocator),
        Role::Lingering(port, folder) => lingering::serve(args, (port, folder), watch_allocator),
    }
}

/// Runs the command behind a proxy, which then tells what it has saved.
fn run_command(args: &RunArgs) -> Result<(), Failure> {
    let place = authority::files(None, "run").map_err(Failure::Failed)?;
    let authority = authority::provide(&place).map_err(Failure::Failed)?;
    let unwritten = |error| {
        let (folder, why) = (env::temp_dir(), unwritten(&error));
        Failure::Failed(format!(
            "cannot write the certificates in {}: {why}; TMPDIR may name another directory",
            folder.display()
        ))
    };
    let outside = |name: &str| env::var_os(name);
    let trusted = environment::trusted(outside);
    let proxy = ProxyProcess::start(trusted.as_deref())?;
    let address = proxy.address;
    let environment = Environment::new(address, &authority, outside).map_err(unwritten)?;
    let begun = Instant::now();
    let ended = child::run(&args.command, &environment);
    let left = environment.leave();
    let command = ended.as_ref().ok();
    let command =
        command.map(|status| EndedCommand { exit_code: child::exit_code(*status), took: begun.elapsed() });
    let told = proxy.end(command);
    // Also those of an earlier run, if this command has not started.
    if !left.is_empty() {
        tell(&left.told());
        if let Err(error) = process::linger(address.port(), &left.folder, left.run(), trusted.as_deref()) {
            tell(&format!("cannot start a proxy for them: {error}"));
        }
    }
    let status = ended.map_err(|error| {
        let (code, why) = child::unstarted(&args.command[0], &error);
        tell(&format!("{}: {why}", args.command[0].to_string_lossy()));
        Failure::Ended(code)
    })?;
    if told.is_ok() {
        child::end_as(status);
    }
    match told {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::Ended(code)),
        Err(signal) => {
            tell(&format!(
                "the proxy was ended by signal {signal} while the command ran: requests failed from then on, \
                 and nothing is known about those before"
            ));
            child::end_as(status);
            match child::exit_code(status) {
                0 if args.require => {
                    Err(Failure::Failed("--require: the proxy did not live to the end".to_owned()))
                }
                0 => Ok(()),
                code => Err(Failure::Ended(code)),
            }
        }
    }
}
