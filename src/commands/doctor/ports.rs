//! Listeners: whether their addresses are free, or which process has them.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use larder_proxy::Settings;
use larder_proxy::settings::Door;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};

use super::finding::Finding;
use crate::cli::tcp_sockets::{self, canonical};

const PORT: &str = "port";

/// Examines the addresses and Unix sockets of all listeners.
pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let http = settings.listen.iter().map(|listener| listener.address);
    let doors = settings.doors.listen.iter().map(|(_, address)| *address);
    let peers = settings.cluster.iter().map(|cluster| cluster.listen);
    let streams = http.chain(doors).chain(peers).chain(settings.admin).map(stream);
    let datagrams = settings
        .doors
        .listen
        .iter()
        .filter(|(door, address)| *door == Door::Onc && settings.doors.takes_datagrams(address.ip()));
    let datagrams = datagrams.map(|(_, address)| datagram(*address));
    streams.chain(datagrams).chain(settings.sockets.paths.iter().map(|path| unix(path))).collect()
}

/// Examines an address of TCP. The socket does not listen, so that it takes no connection from anyone.
fn stream(address: SocketAddr) -> Finding {
    let attempt = || {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket(family, SocketType::STREAM, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)
    };
    let name = address.to_string();
    match attempt() {
        Err(Errno::ADDRINUSE) => taken(&name, owner(address)),
        outcome => judge(&name, outcome),
    }
}

fn datagram(address: SocketAddr) -> Finding {
    let outcome = UdpSocket::bind(address).map(drop);
    let errno = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    judge(&format!("{address} (UDP)"), outcome.map_err(errno))
}

fn judge(name: &str, outcome: Result<(), Errno>) -> Finding {
    let problem = |found: &str, advice: &str| Finding::problem(PORT, format!("{name}: {found}"), advice);
    match outcome {
        Ok(()) => Finding::ok(PORT, format!("{name} is free")),
        Err(Errno::ADDRINUSE) => taken(name, None),
        Err(Errno::ACCESS) => problem(
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE",
            "add AmbientCapabilities=CAP_NET_BIND_SERVICE to the unit, or write a port from 1024",
        ),
        Err(Errno::ADDRNOTAVAIL) => problem(
            "this machine has no such address",
            "write one that `ip address` shows, or 0.0.0.0 for all",
        ),
        Err(error) => problem(&error.to_string(), "write an address where this machine can listen"),
    }
}

/// A program that listens.
struct Owner {
    process: u32,
    name: String,
}

/// Returns the finding about an address that `owner` has.
fn taken(name: &str, owner: Option<Owner>) -> Finding {
    match owner {
        Some(Owner { process, name: program }) if program == "larder" => Finding::warning(
            PORT,
            format!("{name} is taken by larder, process {process}"),
            "if that is the larder of this config, all is well; a second one cannot start",
        ),
        Some(Owner { process, name: program }) => Finding::problem(
            PORT,
            format!("{name} is taken by {program}, process {process}"),
            "end that program, or write another port",
        ),
        None => Finding::problem(
            PORT,
            format!("{name} is taken by a program of another user"),
            "run this as root to learn which one, or write another port",
        ),
    }
}

/// Returns the program that listens at `address`, as far as this user may know it.
fn owner(address: SocketAddr) -> Option<Owner> {
    let (wanted, any) = (canonical(address), canonical(address).ip().is_unspecified());
    let sockets = tcp_sockets::all();
    let of_port = sockets.iter().filter(|socket| socket.listens && socket.local.port() == wanted.port());
    let links: Vec<_> = of_port
        .filter(|socket| any || socket.local.ip() == wanted.ip() || socket.local.ip().is_unspecified())
        .map(|socket| PathBuf::from(format!("socket:[{}]", socket.inode)))
        .collect();
    let has = |process: &u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| links.contains(&link))
    };
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let process = processes.find(has)?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?.trim().to_owned();
    Some(Owner { process, name })
}

/// Examines the directory of a Unix socket.
fn unix(path: &Path) -> Finding {
    let name = format!("unix:{}", path.display());
    let directory = path.parent().unwrap_or(Path::new("/"));
    match access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(PORT, format!("{name} can be made")),
        Err(error) => {
            let user = fs::metadata(directory)
                .map_or_else(|_| String::new(), |found| format!(", which belongs to user {}", found.uid()));
            Finding::problem(
                PORT,
                format!("{name}: {}{user}: {error}", directory.display()),
                "make its directory writable for the user of the service, as RuntimeDirectory= in the unit does",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_port_of_another_program_is_reported_with_that_program() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let Owner { process, .. } = owner(address).unwrap();
        assert_eq!(process, std::process::id());
        let found = stream(address);
        assert_eq!(found.level, Level::Problem);
        assert!(found.found.ends_with(&format!(", process {process}")), "{}", found.found);
        drop(listener);
        assert_eq!(stream(address).level, Level::Ok);
    }

    #[test]
    fn ports_that_need_rights_and_foreign_addresses_are_problems() {
        let found = judge("0.0.0.0:80", Err(Errno::ACCESS));
        assert!(found.found.contains("CAP_NET_BIND_SERVICE"), "{}", found.found);
        assert_eq!(found.level, Level::Problem);
        let foreign = stream("192.0.2.1:8080".parse().unwrap());
        assert_eq!(foreign.found, "192.0.2.1:8080: this machine has no such address");
        assert_eq!(taken("a", Some(Owner { process: 1, name: "larder".to_owned() })).level, Level::Warning);
    }

    #[test]
    fn a_unix_socket_needs_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(unix(&folder.path().join("larder.sock")).level, Level::Ok);
        assert_eq!(unix(&folder.path().join("none/larder.sock")).level, Level::Problem);
    }
}
