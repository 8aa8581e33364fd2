//! The monthly price of memory, which gives a cache's size a price. Pure.

use serde::{Deserialize, Serialize};

/// Machines that can be rented.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// The currency of the prices, such as `USD`.
    pub currency: String,
    /// The bytes that a machine needs in addition to its cache.
    pub beside: u64,
    /// The machines, in any order.
    pub machines: Vec<Machine>,
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
    fn the_cheapest_that_has_room_is_found() {
        let machine = |name: &str, memory, price| Machine { name: name.to_owned(), memory, price };
        let machines =
            vec![machine("dear", 900, 9.0), machine("small", 100, 1.0), machine("large", 900, 5.0)];
        let prices = Prices { currency: "USD".to_owned(), beside: 20, machines };
        let name = |cache| prices.cheapest(cache).map(|machine| machine.name.as_str());
        assert_eq!(
            [80, 81, 880, 881, u64::MAX].map(name),
            [Some("small"), Some("large"), Some("large"), None, None]
        );
    }
}
