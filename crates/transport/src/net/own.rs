//! The addresses of this process and of this machine. Connections on behalf of clients must not lead back to them.
//!
//! A connection through this proxy to one of its own listeners would come from a loopback address, with the rights of
//! an administrator. A site whose origin is its own listener would send requests to itself in an endless loop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;
use std::sync::Arc;

/// All listeners of this process.
#[derive(Clone, Debug, Default)]
pub struct OwnListeners(Arc<[SocketAddr]>);

impl OwnListeners {
    /// Creates the set of listeners bound to `addresses`.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self(addresses.into_iter().map(canonical).collect())
    }

    /// Returns the addresses, in order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }

    /// Whether a connection to `address` would arrive at one of the listeners.
    pub fn have(&self, address: SocketAddr) -> bool {
        let (whole, address) = (address, target(address));
        let arrives = |listener: &SocketAddr| match listener.ip() {
            // A listener for all IPv6 addresses accepts IPv4 connections, too.
            IpAddr::V4(ip) if ip.is_unspecified() => address.is_ipv4() && is_of_this_machine(whole),
            IpAddr::V6(ip) if ip.is_unspecified() => is_of_this_machine(whole),
            ip => ip == address.ip(),
        };
        self.0.iter().any(|listener| listener.port() == address.port() && arrives(listener))
    }
}

/// Whether `address` belongs to any interface of this machine.
pub(crate) fn is_of_this_machine(address: SocketAddr) -> bool {
    let ip = target(address).ip();
    if ip.is_loopback() {
        return true;
    }
    // Sockets can be bound to the machine's own addresses only, unless the system is configured otherwise.
    let mut own = address;
    own.set_port(0);
    let is_own = match UdpSocket::bind(own) {
        Ok(_) => true,
        // Any other error, such as exhausted file descriptors, proves nothing: the address counts as the machine's own.
        Err(error) => !matches!(
            Errno::from_io_error(&error),
            Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::INVAL)
        ),
    };
    is_own && (!binds_to_others(ip) || is_listed(ip))
}

/// Whether this system lets sockets bind to addresses that the machine does not have.
fn binds_to_others(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    let setting = std::fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind"));
    setting.is_ok_and(|setting| setting.trim() != "0")
}

/// Whether the kernel's tables list `ip` among the machine's own addresses.
fn is_listed(ip: IpAddr) -> bool {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    match ip {
        IpAddr::V4(ip) => is_in_trie(&read("/proc/net/fib_trie"), ip),
        IpAddr::V6(ip) => is_in_inet6(&read("/proc/net/if_inet6"), ip),
    }
}

/// Whether `/proc/net/fib_trie` lists `ip` as local: a leaf, then a line for each of its routes.
fn is_in_trie(trie: &str, ip: Ipv4Addr) -> bool {
    let (leaf, mut is_below) = (format!("|-- {ip}"), false);
    trie.lines().any(|line| {
        let line = line.trim();
        if !line.starts_with('/') {
            is_below = line == leaf;
        }
        is_below && line.ends_with("LOCAL")
    })
}

/// Whether `/proc/net/if_inet6` lists `ip`, as 32 hexadecimal digits at the beginning of a line.
fn is_in_inet6(table: &str, ip: Ipv6Addr) -> bool {
    let digits = format!("{:032x}", u128::from(ip));
    table.lines().any(|line| line.starts_with(&digits))
}

/// Returns the address that a connection to `address` reaches: kernels treat an unspecified address as loopback.
fn target(address: SocketAddr) -> SocketAddr {
    let address = canonical(address);
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Returns an IPv4 address that was accepted or written as one of IPv6 as what it is.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn connections_to_own_listeners_are_recognised_in_every_spelling() {
        let narrow = OwnListeners::new([at("127.0.0.1:9145")]);
        let four = OwnListeners::new([at("0.0.0.0:9145")]);
        let six = OwnListeners::new([at("[::]:9145")]);
        for (address, of_narrow, of_four, of_six) in [
            ("127.0.0.1:9145", true, true, true),
            ("[::ffff:127.0.0.1]:9145", true, true, true),
            ("0.0.0.0:9145", true, true, true),
            ("127.9.9.9:9145", false, true, true),
            ("[::1]:9145", false, false, true),
            ("[::]:9145", false, false, true),
            ("127.0.0.1:9146", false, false, false),
            ("192.0.2.1:9145", false, false, false),
            ("[2001:db8::1]:9145", false, false, false),
        ] {
            let all = [&narrow, &four, &six].map(|listeners| listeners.have(at(address)));
            assert_eq!(all, [of_narrow, of_four, of_six], "{address}");
        }
    }

    #[test]
    fn tables_of_the_system_name_own_addresses() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.0.4\n        /32 host LOCAL\n     |-- 10.1.0.0\n        \
                    /24 link UNICAST\n     |-- 10.1.0.255\n        /32 link BROADCAST\n     |-- 10.1.0.9\n        \
                    /32 link UNICAST\n     |-- 10.1.0.9\n        /32 host LOCAL\n";
        for (ip, expected) in [
            ("10.1.0.4", true),
            ("10.1.0.0", false),
            ("10.1.0.255", false),
            ("10.1.0.9", true),
            ("10.1.0.40", false),
        ] {
            assert_eq!(is_in_trie(trie, ip.parse().unwrap()), expected, "{ip}");
        }
        let table = "20010db8000000000000000000000007 02 40 00 80     eth0\n";
        assert!(is_in_inet6(table, "2001:db8::7".parse().unwrap()));
        assert!(!is_in_inet6(table, "2001:db8::8".parse().unwrap()));
    }
}
