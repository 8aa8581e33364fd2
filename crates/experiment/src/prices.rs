//! Prices of memory and of an origin's answers, which give a cache's size and its requests a price. Pure.

use serde::{Deserialize, Serialize};

/// Machines that can be rented, and the fees of an origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// The currency of the prices, such as `USD`.
    pub currency: String,
    /// The bytes that a machine needs in addition to its cache.
    pub beside: u64,
    /// The machines, in any order.
    pub machines: Vec<Machine>,
    /// The fees of an origin that is paid for its answers.
    pub origin: Option<Fees>,
}

/// The fees of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fees {
    /// For a million requests.
    pub requests: f64,
    /// For 10^9 bytes of content.
    pub gigabyte: f64,
}

impl Fees {
    /// Returns the fees for this many requests, answered with this many bytes of content.
    pub fn of(self, requests: u64, bytes: u64) -> f64 {
        (requests as f64 / 1e6).mul_add(self.requests, bytes as f64 / 1e9 * self.gigabyte)
    }
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The name at its provider.
    pub name: String,
    /// The memory in bytes.
    pub memory: u64,
    /// The price for a month.
    pub price: f64,
}

impl Prices {
    /// Returns the cheapest machine with room for a cache of `cache` bytes.
    pub fn cheapest(&self, cache: u64) -> Option<&Machine> {
        let needed = cache.saturating_add(self.beside);
        let fitting = self.machines.iter().filter(|machine| machine.memory >= needed);
        fitting.min_by(|a, b| a.price.total_cmp(&b.price))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_are_for_requests_and_bytes() {
        let fees = Fees { requests: 0.5, gigabyte: 0.1 };
        assert_eq!([fees.of(4_000_000, 0), fees.of(0, 30_000_000_000)], [2.0, 3.0]);
    }

    #[test]
    fn the_cheapest_that_has_room_is_found() {
        let machine = |name: &str, memory, price| Machine { name: name.to_owned(), memory, price };
        let machines =
            vec![machine("dear", 900, 9.0), machine("small", 100, 1.0), machine("large", 900, 5.0)];
        let prices = Prices { currency: "USD".to_owned(), beside: 20, machines, origin: None };
        let name = |cache| prices.cheapest(cache).map(|machine| machine.name.as_str());
        assert_eq!(
            [80, 81, 880, 881, u64::MAX].map(name),
            [Some("small"), Some("large"), Some("large"), None, None]
        );
    }
}
