//! The proxy that stays for processes that outlive their command, as the servers of Gradle and Bazel.
//!
//! Their settings name the port and the files of the run that has started them. So another process of this program serves there until
//! the last of them has ended, or the next run takes its place.

use std::env;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::setsid;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use super::args::RunArgs;
use super::cache::Cache;
use super::left::LeftProcesses;
use super::proxy::{Proxy, outlive_signals};
use crate::cli::{Failure, WatchAllocator};

/// The time between two looks at the processes.
const BETWEEN: Duration = Duration::from_secs(2);

/// Serves at `port` for as long as a process uses the files in `folder`. Errors: the proxy cannot serve.
pub(super) fn serve(
    args: &RunArgs,
    (port, folder): (u16, PathBuf),
    watch_allocator: WatchAllocator,
) -> Result<(), Failure> {
    let _outlived = outlive_signals();
    let signals = Signals::new([SIGTERM]);
    let mut signals = signals.map_err(|error| Failure::Failed(format!("cannot receive signals: {error}")))?;
    let cache = Cache::linger(args.cache.as_deref(), port).map_err(Failure::Failed)?;
    let proxy = Proxy::start(args, &cache, None, watch_allocator)?;
    if proxy.address.port() != port {
        // Another program has taken the port.
        proxy.end();
        cache.linger_no_more();
        return Ok(());
    }
    // Neither the end of the terminal nor a directory that is to be removed waits for it.
    let _ = setsid();
    let _ = env::set_current_dir("/");
    let (sender, next_run) = mpsc::channel();
    let wait = move || signals.forever().next().map(|_| sender.send(()));
    let _waiting = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    let mut left = LeftProcesses::of(folder);
    while !left.is_empty() && next_run.recv_timeout(BETWEEN).is_err() {
        left = LeftProcesses::of(left.folder);
    }
    proxy.end();
    if left.is_empty() {
        left.remove_files();
    }
    cache.linger_no_more();
    Ok(())
}
