//! Creates the listening sockets.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr, TcpListener as StdListener, UdpSocket as StdUdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

/// Maximum of connections that the kernel queues between two accepts.
const BACKLOG: i32 = 4096;

/// The file of a listening socket. Dropping this removes the file, unless another file has replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode number of the file; `None` if another process removes it.
    identity: Option<(u64, u64)>,
}

/// Binds a socket to `address`. `only_v6`: an IPv6 one leaves IPv4 to another socket with the same port.
pub(super) fn socket(address: SocketAddr, share: bool, only_v6: bool) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    if only_v6 {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    // Heads and bodies are written whole, so Nagle's algorithm would only delay them. Accepted sockets inherit this.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Fails if the `inherited` socket at `asked` serves IPv4, too, and a new one would not, or the other way round: a bound socket
/// cannot be changed.
pub(super) fn check_inherited(inherited: &impl AsFd, asked: SocketAddr, only_v6: bool) -> io::Result<()> {
    if asked.ip() != Ipv6Addr::UNSPECIFIED {
        return Ok(());
    }
    let is_usual = Socket::new(Domain::IPV6, Type::STREAM, None)?.only_v6()?;
    match (SockRef::from(inherited).only_v6()?, only_v6 || is_usual) {
        (true, false) => {
            Err(io::Error::other("the running process serves no IPv4 there; restart it instead"))
        }
        (false, true) => {
            Err(io::Error::other("the running process serves IPv4 there, too; restart it instead"))
        }
        _ => Ok(()),
    }
}

pub(super) fn datagram_socket(address: SocketAddr) -> io::Result<StdUdpSocket> {
    let socket = StdUdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

pub(super) fn explain(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there already".to_owned(),
        io::ErrorKind::PermissionDenied => "ports below 1024 need privileges".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    }
}

/// Creates a Unix socket at `path` whose file has the permissions `mode`. Errors: the reason of the failure, in one
/// line.
pub(super) fn unix_socket(path: &Path, mode: u32) -> Result<(StdUnixListener, SocketFile), String> {
    let address = SockAddr::unix(path).map_err(|error| error.to_string())?;
    remove_stale(path, &address)?;
    let bound = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address)?;
        // Clients can connect only after `listen`, so the permissions apply to all of them.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        let file = SocketFile { path: path.to_owned(), identity: Some(identity(path)?) };
        socket.listen(BACKLOG)?;
        Ok((socket.into(), file))
    };
    bound().map_err(|error: io::Error| match error.kind() {
        ErrorKind::NotFound => "its directory does not exist".to_owned(),
        ErrorKind::PermissionDenied => "its directory must be writable for this user".to_owned(),
        ErrorKind::AddrInUse => "another program has made it at the same time".to_owned(),
        _ => error.to_string(),
    })
}

/// Removes the socket file of an ended process; an error if a process listens there.
fn remove_stale(path: &Path, address: &SockAddr) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(found) if !found.file_type().is_socket() => {
            return Err("the file there is not a socket: remove it, or write another path".to_owned());
        }
        Ok(_) => {}
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|probe| {
        // The probe must not block on a listener whose queue is full.
        probe.set_nonblocking(true)?;
        probe.connect(address)
    });
    match probe {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|error| format!("cannot remove the socket of an ended process: {error}")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err("there is a socket that this user may not connect to".to_owned())
        }
        Ok(()) | Err(_) => Err("another program listens there already".to_owned()),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

impl SocketFile {
    /// Returns the file at `path` of a socket that another process has bound; `None` if there is none.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().filter(|found| found.file_type().is_socket())?;
        Some(Self { path: path.to_owned(), identity: Some(identity(path).ok()?) })
    }

    /// Leaves the file to another process.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }

    /// Returns the file of a socket that another process has opened and will remove.
    pub(super) fn of_another(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: None }
    }

    pub(super) fn is_of_another(&self) -> bool {
        self.identity.is_none()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| Some(found) == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!("cannot remove the socket {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_ipv4_and_of_ipv6_may_have_a_socket_each() {
        let v4 = socket("0.0.0.0:0".parse().unwrap(), false, false).unwrap();
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, v4.local_addr().unwrap().port()));
        match socket(v6, false, true) {
            Ok(socket_of_v6) => {
                assert_eq!(socket(v6, false, false).unwrap_err().kind(), ErrorKind::AddrInUse);
                let fits = |only_v6| check_inherited(&socket_of_v6, v6, only_v6).is_ok();
                assert_eq!([fits(true), fits(false)], [true, false]);
            }
            Err(error) => assert_ne!(error.kind(), ErrorKind::AddrInUse, "a system without IPv6"),
        }
    }
}
