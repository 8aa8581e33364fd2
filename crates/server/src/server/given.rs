//! Listening sockets that the service manager has opened, as in sd_listen_fds(3): a process without privileges then
//! serves ports below 1024, and connections wait while it restarts.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;

use listenfd::ListenFd;
use socket2::SockRef;

use crate::handover::restart;

/// The sockets of the service manager that no listener of the config has taken.
#[derive(Debug, Default)]
pub struct GivenSockets {
    streams: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
    unix: Vec<UnixListener>,
}

impl GivenSockets {
    /// Takes the sockets that the environment names (`LISTEN_FDS`, `LISTEN_PID`), and removes the names. Call it before
    /// other threads start.
    pub fn from_environment() -> Self {
        let mut named = ListenFd::from_env();
        let mut given = Self::default();
        for number in 0..named.len() {
            // A socket of another kind stays, and is tried as the next one.
            given.streams.extend(named.take_tcp_listener(number).ok().flatten());
            given.datagrams.extend(named.take_udp_socket(number).ok().flatten());
            given.unix.extend(named.take_unix_listener(number).ok().flatten());
        }
        given
    }

    pub(super) fn stream(&mut self, address: SocketAddr) -> io::Result<Option<TcpListener>> {
        let found = take(&mut self.streams, |socket| socket.local_addr().is_ok_and(|at| at == address));
        let Some(socket) = found else { return Ok(None) };
        socket.set_nonblocking(true)?;
        SockRef::from(&socket).set_tcp_nodelay(true)?;
        Ok(Some(socket))
    }

    pub(super) fn datagrams(&mut self, address: SocketAddr) -> io::Result<Option<UdpSocket>> {
        let found = take(&mut self.datagrams, |socket| socket.local_addr().is_ok_and(|at| at == address));
        found.map(|socket| socket.set_nonblocking(true).map(|()| socket)).transpose()
    }

    pub(super) fn unix(&mut self, path: &Path) -> io::Result<Option<UnixListener>> {
        let is_at =
            |socket: &UnixListener| socket.local_addr().is_ok_and(|at| at.as_pathname() == Some(path));
        let found = take(&mut self.unix, is_at);
        found.map(|socket| socket.set_nonblocking(true).map(|()| socket)).transpose()
    }

    /// Takes the socket in which the process before this one has left what it had in memory.
    pub(super) fn memory(&mut self) -> Option<UnixListener> {
        take(&mut self.unix, restart::is_it)
    }

    /// Logs the sockets that are left: connections to them are never accepted.
    pub(super) fn warn_of_rest(&self) {
        let streams = self.streams.iter().filter_map(|socket| Some(socket.local_addr().ok()?.to_string()));
        let datagrams =
            self.datagrams.iter().filter_map(|socket| Some(socket.local_addr().ok()?.to_string()));
        let path = |socket: &UnixListener| {
            Some(format!("unix:{}", socket.local_addr().ok()?.as_pathname()?.display()))
        };
        for address in streams.chain(datagrams).chain(self.unix.iter().filter_map(path)) {
            tracing::warn!("the service manager has opened {address}, which is no listener of the config");
        }
    }
}

fn take<T>(sockets: &mut Vec<T>, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
    sockets.iter().position(is_wanted).map(|at| sockets.swap_remove(at))
}
