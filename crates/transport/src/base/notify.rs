//! Messages to the service manager that started this process, as in sd_notify(3). Without `NOTIFY_SOCKET` in the
//! environment nobody listens, and nothing is sent.

use std::env;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
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

/// Whether the service manager keeps descriptors over a restart. systemd sets `FDSTORE` itself since version 254.
pub fn keeps() -> bool {
    env::var("FDSTORE").is_ok_and(|most| most.parse().is_ok_and(|most: u32| most > 0))
}

/// Makes the service manager keep `descriptor`, and pass it to the next process of this service. Errors: the service
/// manager cannot be told.
pub fn keep(name: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(env::var_os("NOTIFY_SOCKET").unwrap_or_default())?;
    let (descriptors, mut space) = ([descriptor], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    let message = format!("FDSTORE=1\nFDNAME={name}\n");
    sendmsg(&socket, &[IoSlice::new(message.as_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Makes the service manager forget the descriptors with this name.
pub fn drop_kept(name: &str) {
    send(&[NotifyState::Custom("FDSTOREREMOVE=1"), NotifyState::Custom(&format!("FDNAME={name}"))]);
}

fn send(message: &[NotifyState<'_>]) {
    if let Err(why) = sd_notify::notify(message) {
        tracing::warn!("cannot tell the service manager: {why}");
    }
}
