//! The TCP sockets of this machine, as the kernel lists them in `/proc/net/tcp` and `/proc/net/tcp6`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A TCP socket.
pub(crate) struct TcpSocket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) listens: bool,
    /// The user of the program that made it.
    pub(crate) uid: u32,
    /// The number in the links of the files of that program.
    pub(crate) inode: u64,
}

/// Returns the sockets of all programs.
pub(crate) fn all() -> Vec<TcpSocket> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| fs::read_to_string(file).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).filter_map(TcpSocket::of).collect()
}

impl TcpSocket {
    /// Parses a line of the kernel's list.
    pub(crate) fn of(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
        let listens = words.next()? == "0A";
        let uid = words.nth(3)?.parse().ok()?;
        let inode = words.nth(1)?.parse().ok()?;
        Some(Self { local, remote, listens, uid, inode })
    }
}

/// Parses an address: `0100007F:23B9` is 127.0.0.1:9145. Words of four bytes have the processor's byte order, in
/// hexadecimal digits.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(digits.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match digits.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words: Vec<_> = (0..4).map(|n| word(8 * n)).collect::<Option<_>>()?;
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?))
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
}

/// Returns the address with an IPv4 address in IPv6 as the former.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
