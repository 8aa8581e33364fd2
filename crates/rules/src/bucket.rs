//! Buckets: parts of the clients, as for tests of two versions of a site. A client stays in its bucket.

use std::net::IpAddr;
use std::sync::Arc;

use larder_semantics::fields::Fields;

/// A division of all clients into buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The cookie with the name of the client's bucket. Without one, the client's address decides.
    pub cookie: Option<Box<str>>,
    /// The names of the buckets, with the weights by which clients without the cookie are divided. Not all are 0.
    pub buckets: Vec<(Box<str>, u32)>,
    /// The name of the division: others divide the same addresses in another way.
    pub name: Box<str>,
}

/// The clients of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The division.
    pub split: Arc<Split>,
    /// Its place among the buckets of the division.
    pub at: usize,
    /// Whether it has only those clients that have no cookie yet.
    pub is_new: bool,
}

impl Bucket {
    /// Whether the client at this address that sends these fields is in the bucket.
    pub(crate) fn has(&self, client: IpAddr, fields: &impl Fields) -> bool {
        match self.split.named(fields) {
            Some(at) => at == self.at && !self.is_new,
            None => self.split.drawn(client) == Some(self.at),
        }
    }
}

impl Split {
    /// Returns the bucket that a cookie names.
    fn named(&self, fields: &impl Fields) -> Option<usize> {
        let name = self.cookie.as_ref()?;
        let parts = fields.lines("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
        let mut values =
            parts.filter_map(|part| part.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        values.find_map(|value| self.buckets.iter().position(|(bucket, _)| bucket.as_bytes() == value))
    }

    /// Returns the bucket of a client without a cookie.
    fn drawn(&self, client: IpAddr) -> Option<usize> {
        let sum: u64 = self.buckets.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut place = number(&self.name, client).checked_rem(sum)?;
        self.buckets.iter().position(|(_, weight)| {
            let is_here = place < u64::from(*weight);
            place = place.wrapping_sub(u64::from(*weight));
            is_here
        })
    }
}

/// Returns a number for a client, an address or an IPv6 /64, which is the same in all processes: FNV-1a with the last
/// steps of MurmurHash3, which spread it over all bits.
fn number(name: &str, client: IpAddr) -> u64 {
    let bytes = match client.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    };
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes().chain(bytes.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use http::{HeaderMap, HeaderValue, header};
    use proptest::prelude::*;

    use super::*;

    fn split(weights: &[u32]) -> Arc<Split> {
        let names = ["stable", "canary", "third"].map(Box::from);
        let buckets = names.into_iter().zip(weights.iter().copied()).collect();
        Arc::new(Split { cookie: Some("bucket".into()), buckets, name: "x-bucket".into() })
    }

    /// Returns the buckets that have a client at `client` with this `Cookie`.
    fn buckets(split: &Arc<Split>, client: u32, cookie: &str, is_new: bool) -> Vec<usize> {
        let mut fields = HeaderMap::new();
        fields.insert(header::COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).unwrap());
        let client = Ipv4Addr::from_bits(client).into();
        let has = |at: &usize| Bucket { split: Arc::clone(split), at: *at, is_new }.has(client, &fields);
        (0..split.buckets.len()).filter(has).collect()
    }

    proptest! {
        #[test]
        fn each_client_is_in_one_bucket_and_its_cookie_decides(
            weights in prop::collection::vec(0..9_u32, 1..4), client: u32, cookie in "[ -:<-~]{0,20}",
        ) {
            prop_assume!(weights.iter().any(|weight| *weight > 0));
            let split = split(&weights);
            let drawn = buckets(&split, client, &cookie, false);
            prop_assert_eq!(drawn.len(), 1);
            prop_assert!(weights[drawn[0]] > 0);
            for (at, (name, _)) in split.buckets.iter().enumerate() {
                let named = format!("a={cookie}; bucket={name}");
                prop_assert_eq!(buckets(&split, client, &named, false), [at]);
                prop_assert_eq!(buckets(&split, client, &named, true), Vec::<usize>::new());
            }
            let unknown = format!("bucket=x{cookie}");
            prop_assert_eq!(buckets(&split, client, &unknown, true), drawn);
        }
    }

    /// Each of n addresses is in the bucket of the share p with the probability p, as far as the numbers are random. By
    /// Hoeffding's inequality, the measured share differs by more than 0.01 with a probability of at most
    /// 2 exp(-2 * 100,000 * 0.01^2) < 10^-8.
    #[test]
    fn neighbouring_addresses_are_divided_by_the_weights() {
        let (split, count) = (split(&[90, 9, 1]), 100_000);
        let mut found = [0_u32; 3];
        for client in 0..count {
            found[split.drawn(Ipv4Addr::from_bits(0x0a00_0000 + client).into()).unwrap()] += 1;
        }
        for (found, expected) in found.into_iter().zip([0.9, 0.09, 0.01]) {
            let share = f64::from(found) / f64::from(count);
            assert!((share - expected).abs() < 0.01, "{share} and not {expected}");
        }
    }
}
