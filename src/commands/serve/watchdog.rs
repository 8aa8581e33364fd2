//! The watchdog of the service manager: it restarts a process that sends no ping for some time.

use std::time::Duration;
use std::{env, io, thread};

use larder_proxy::base::notify;
use larder_server::Liveness;
use tracing::error;

/// Sends a ping in each quarter of the watchdog's limit, if there is a limit, as long as all threads serve. The first one
/// comes a quarter after they have begun: then a successor is the main process, from which alone pings are accepted.
/// Errors: the thread cannot be started.
pub(super) fn answer(liveness: Liveness) -> io::Result<()> {
    let Some(limit) = limit() else { return Ok(()) };
    let part = limit / 4;
    let ping = move || loop {
        let has_begun = liveness.has_begun();
        thread::sleep(part);
        if !has_begun {
            continue;
        }
        match liveness.is_alive(part) {
            true => notify::alive(),
            false => error!("a thread has not answered for {part:?}; the watchdog's limit is {limit:?}"),
        }
    };
    thread::Builder::new().name("watchdog".to_owned()).spawn(ping).map(drop)
}

/// Returns the time after which the service manager restarts a process without a ping. `WATCHDOG_PID` is not compared:
/// after an upgrade it still names the process before.
fn limit() -> Option<Duration> {
    let limit = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (limit > 0).then(|| Duration::from_micros(limit))
}
