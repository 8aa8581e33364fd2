//! Messages to the service manager that started this process, as in sd_notify(3). Without `NOTIFY_SOCKET` in the
//! environment nobody listens, and nothing is sent.

use sd_notify::NotifyState;

/// Tells that requests are served, at the start and after a reload. `systemctl status` shows `status`.
pub fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells that the config is being read again; [`ready`] has to follow.
pub fn reloading() {
    // Without the time, a unit of Type=notify-reload could take an older READY for the next one.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(why) => tracing::warn!("cannot read the clock: {why}"),
    }
}

/// Tells that this process accepts no more connections.
pub fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Tells that the process `pid` serves from now on. A unit with NotifyAccess=main believes this from the process that
/// served until now, and then believes the other one alone.
pub fn main_pid(pid: u32) {
    send(&[NotifyState::MainPid(pid)]);
}

/// Tells that the process does its work: a ping for the watchdog.
pub fn alive() {
    send(&[NotifyState::Watchdog]);
}

fn send(message: &[NotifyState<'_>]) {
    if let Err(why) = sd_notify::notify(message) {
        tracing::warn!("cannot tell the service manager: {why}");
    }
}
