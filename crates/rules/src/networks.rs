//! A set of networks: sorted ranges of addresses, with binary search.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

/// Addresses as numbers: those of IPv4 in their IPv6 form (`::ffff:a.b.c.d`), so that both forms of one
/// address are equal. Copies share one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// First and last address, sorted, without overlaps.
    ranges: Arc<[(u128, u128)]>,
    /// The networks as written.
    written: Arc<[IpNet]>,
    /// The files that some networks were read from.
    files: Arc<[Box<str>]>,
}

impl Networks {
    /// Whether `address` is in one of the networks.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        !self.ranges.is_empty() && self.has(number(address))
    }

    fn has(&self, number: u128) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= number);
        after.checked_sub(1).is_some_and(|at| number <= self.ranges[at].1)
    }

    /// Returns the same networks with the names of the files that some were read from.
    #[must_use]
    pub fn from_files(self, files: impl IntoIterator<Item = Box<str>>) -> Self {
        Self { files: files.into_iter().collect(), ..self }
    }

    /// Iterates over the files that some networks were read from.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &**file)
    }

    /// Iterates over the networks as written.
    pub fn iter(&self) -> impl Iterator<Item = &IpNet> {
        self.written.iter()
    }

    /// Whether neither networks nor files of networks are named. A file without networks is no lack of a condition.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.files.is_empty()
    }
}

impl FromIterator<IpNet> for Networks {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        let written: Arc<[IpNet]> = networks.into_iter().collect();
        let mut sorted: Vec<_> =
            written.iter().map(|network| (number(network.network()), number(network.broadcast()))).collect();
        sorted.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match ranges.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges: ranges.into(), written, files: Arc::default() }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ipnet::Ipv4Net;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_without_networks_is_named_but_contains_nobody() {
        let emptied = Networks::default().from_files(["office.txt".into()]);
        assert!(!emptied.is_empty() && !emptied.contains(IpAddr::from([10, 0, 0, 1])));
        assert!(Networks::default().is_empty());
    }

    #[test]
    fn both_forms_of_an_address_are_equal() {
        let networks: Networks =
            ["10.0.0.0/8", "2001:db8::/32"].map(|net| net.parse().unwrap()).into_iter().collect();
        for (address, expected) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("11.0.0.0", false),
            ("2001:db8::1", true),
            ("::1", false),
        ] {
            assert_eq!(networks.contains(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_copy_takes_no_memory_of_its_own() {
        let networks: Networks = ["10.0.0.0/8".parse().unwrap()].into_iter().collect();
        let copy = networks.clone();
        assert!(Arc::ptr_eq(&networks.ranges, &copy.ranges) && Arc::ptr_eq(&networks.written, &copy.written));
    }

    proptest! {
        #[test]
        fn a_set_contains_what_one_of_its_networks_contains(
            networks in prop::collection::vec((any::<u32>(), 0u8..=32), 0..20), address: u32,
        ) {
            let networks: Vec<IpNet> = networks
                .into_iter()
                .map(|(bits, length)| Ipv4Net::new(Ipv4Addr::from_bits(bits), length).unwrap().trunc().into())
                .collect();
            let address = IpAddr::V4(Ipv4Addr::from_bits(address));
            let expected = networks.iter().any(|network| network.contains(&address));
            prop_assert_eq!(Networks::from_iter(networks).contains(address), expected);
        }
    }
}
