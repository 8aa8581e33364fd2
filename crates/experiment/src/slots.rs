//! The assignment of keys to several caches: the microservice report's pool. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// The number of places in the pool, as in the report.
const SLOTS: usize = 50;

/// The addresses of several caches, assigned in turn to fixed places. The hash of a path selects the place, and so the
/// cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots(Vec<SocketAddr>);

impl From<SocketAddr> for Slots {
    fn from(only: SocketAddr) -> Self {
        Self::of(only, [])
    }
}

impl Slots {
    /// Returns the places of `first` and `others`.
    pub fn of(first: SocketAddr, others: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self(std::iter::once(first).chain(others).collect())
    }

    /// Returns all addresses.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }

    /// Returns the index in [`addresses`](Self::addresses) for a path; it is constant for a constant number of
    /// addresses.
    pub fn pick(&self, path: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let slot = hasher.finish() % SLOTS as u64;
        slot as usize % self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(count: u16) -> Slots {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Slots::of(address(1), (2..=count).map(address))
    }

    #[test]
    fn every_cache_has_its_share_of_the_places() {
        for count in 1..=3 {
            let (slots, mut keys) = (slots(count), vec![0_u32; count.into()]);
            (0..9_000).for_each(|user| keys[slots.pick(&format!("/users/{user}"))] += 1);
            let even = 9_000 / u32::from(count);
            assert!(keys.iter().all(|keys| keys.abs_diff(even) < even / 10), "{keys:?}");
        }
    }

    #[test]
    fn a_path_belongs_to_one_cache() {
        let (once, again) = (slots(3), slots(3));
        for path in ["/users/1", "/users/1/info", "/paths"] {
            assert_eq!(once.pick(path), again.pick(path));
            assert_eq!(slots(1).pick(path), 0);
        }
    }
}
