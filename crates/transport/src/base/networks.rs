//! Networks of clients, and hosts in authorities.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Returns the loopback, private and link-local networks.
pub fn near() -> Vec<IpNet> {
    let v4 = |a, b, prefix| Ipv4Net::new_assert(Ipv4Addr::new(a, b, 0, 0), prefix).into();
    let v6 = |first, last, prefix| {
        Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last), prefix).into()
    };
    vec![
        v4(127, 0, 8),
        v4(10, 0, 8),
        v4(172, 16, 12),
        v4(192, 168, 16),
        v4(169, 254, 16),
        v6(0, 1, 128),
        v6(0xfc00, 0, 7),
        v6(0xfe80, 0, 10),
    ]
}

/// Whether one of `networks` contains `ip`; an IPv4-mapped IPv6 address counts as its IPv4 address.
#[inline]
pub fn have(networks: &[IpNet], ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    networks.iter().any(|network| network.contains(&ip))
}

/// Returns the network of `client` with this prefix length in IPv4 and IPv6.
pub fn network(client: IpAddr, bits4: u32, bits6: u32) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> (32 - bits4) << (32 - bits4)).into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() >> (128 - bits6) << (128 - bits6)).into()
        }
    }
}

/// Returns `authority` without its port.
pub fn host_of(authority: &str) -> &str {
    // Behind a bracket there is no port.
    match authority.bytes().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(colon) if authority.as_bytes()[colon] == b':' => &authority[..colon],
        _ => authority,
    }
}

/// Returns the host of an authority, and its port, or else that of the scheme.
pub fn host_and_port(https: bool, authority: &str) -> (&str, u16) {
    let host = host_of(authority);
    let port = authority[host.len()..].strip_prefix(':').and_then(|port| port.parse().ok());
    (host, port.unwrap_or(if https { 443 } else { 80 }))
}

/// Returns a host without the brackets of an IPv6 address.
#[inline]
pub fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Whether a site's `pattern`, a name or `*` and the end of a name, matches `host`.
pub fn stands_for(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    match pattern.strip_prefix('*') {
        Some(suffix) => {
            let start = host.len().saturating_sub(suffix.len());
            start > 0 && host.is_char_boundary(start) && host[start..].eq_ignore_ascii_case(suffix)
        }
        None => host.eq_ignore_ascii_case(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_match_by_name_or_by_suffix() {
        let cases = [
            ("example.com", "EXAMPLE.com", true),
            ("example.com", "example.com.", true),
            ("example.com", "www.example.com", false),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "notexample.com", false),
        ];
        for (pattern, host, expected) in cases {
            assert_eq!(stands_for(pattern, host), expected, "{pattern} {host}");
        }
    }

    #[test]
    fn the_host_of_an_authority_has_no_port() {
        assert_eq!((host_of("a:80"), host_of("[::1]:80"), host_of("[::1]")), ("a", "[::1]", "[::1]"));
    }
}
