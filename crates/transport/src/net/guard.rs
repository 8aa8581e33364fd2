//! Keeps a forward proxy's clients out of the proxy's own network (server-side request forgery).
//!
//! A name is resolved once, and the connection goes to one of the checked addresses. So a second, different answer of
//! the name server has no effect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether `address` is reachable from the public internet.
///
/// Refused: loopback, link-local (cloud metadata included), private, shared, benchmarking,
/// documentation, identifier, multicast, reserved and unspecified ranges (IANA special-purpose registries), the one
/// public address at which Azure serves its machines' metadata, and every IPv6 form that embeds such an IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The host of a machine in Azure, as the machine sees it: it gives out secrets of the machine, and is of no use to others.
const AZURE_HOST: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || address.is_unspecified()
        || a == 0
        || a >= 240
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        // 6to4 relays, which are deprecated.
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && b & 0xfe == 18)
        || address == AZURE_HOST;
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // IPv4-mapped, IPv4-compatible, NAT64 and its local-use prefix, 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 1, ..] => false,
        [0x2002, high, low, ..] => v4(high, low),
        // Teredo, benchmarking, ORCHID, ORCHIDv2 and drone identifiers; documentation.
        [0x2001, 0 | 0xdb8, ..] | [0x2001, 2, 0, ..] => false,
        [0x2001, 0x10..=0x3f, ..] => false,
        [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast is 2000::/3; all other addresses are local, multicast or reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_recognised_in_every_form() {
        let refused = [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2001::1",
            "2001:db8::1",
            "2001:2::1",
            "2001:10::1",
            "2001:1f:ffff::1",
            "2001:20::1",
            "2001:2f::1",
            "2001:3f::1",
            "3fff::1",
            "3fff:fff:ffff::1",
            "192.88.99.1",
            "168.63.129.16",
            "::ffff:168.63.129.16",
        ];
        for address in refused {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "2001:2:1::1",
            "2001:40::1",
            "3fff:1000::1",
            "192.88.98.1",
            "168.63.129.17",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
