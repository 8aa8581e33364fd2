//! What requests to origins and memory cost.

use larder_evict::Spec;
use serde::{Deserialize, Serialize};

use crate::report::{Cell, Ratios, Report, Tier, WindowReport};

/// Seconds in a month of 30 days.
const MONTH: f64 = 30.0 * 86_400.0;

/// Prices, in any currency.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Prices {
    /// For 10^9 bytes from origins.
    pub per_gb: f64,
    /// For a million requests to origins.
    pub per_million: f64,
    /// For a GiB of memory in a month.
    pub memory_gib_month: f64,
    /// The bytes of memory that are sold together: 1 or more.
    pub memory_step: u64,
    /// For a GiB of disk in a month.
    #[serde(default)]
    pub disk_gib_month: f64,
    /// The bytes of disk that are sold together: 1 or more.
    #[serde(default)]
    pub disk_step: u64,
}

/// What a size costs in a month of 30 days with the traffic of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill {
    /// For requests to origins and their bytes.
    pub origins: f64,
    /// For the tier, in whole steps.
    pub tier: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            per_gb: 0.0,
            per_million: 0.0,
            memory_gib_month: 0.0,
            memory_step: 1 << 30,
            disk_gib_month: 0.0,
            disk_step: 1 << 30,
        }
    }
}

impl Prices {
    /// Whether anything costs something.
    pub fn is_set(&self) -> bool {
        let all = [self.per_gb, self.per_million, self.memory_gib_month, self.disk_gib_month];
        all.into_iter().any(|price| price > 0.0)
    }

    /// Returns the bytes that cost as much as a request: the `fee` of the policies `gds` and `gdsf`.
    pub fn fee(&self) -> Option<u32> {
        let bytes = self.per_million * 1_000.0 / self.per_gb;
        (bytes.is_finite() && bytes <= f64::from(u32::MAX)).then_some(bytes as u32)
    }

    /// Returns `policy` with the [fee](Self::fee) if it minimises money and names none.
    pub fn priced(&self, policy: Spec) -> Spec {
        let text = policy.to_string();
        let fee = self.fee().filter(|_| text.ends_with("cost=money"));
        fee.and_then(|fee| Spec::parse(&format!("{text},fee={fee}")).ok()).unwrap_or(policy)
    }

    /// Returns the price of a GiB of a tier in a month, and the bytes of it that are sold together.
    pub fn of(&self, tier: Tier) -> (f64, u64) {
        match tier {
            Tier::Memory => (self.memory_gib_month, self.memory_step),
            Tier::Disk => (self.disk_gib_month, self.disk_step),
        }
    }

    /// Returns the bill of a tier of `size` bytes with these hit ratios, of all tiers up to it.
    pub fn bill(&self, window: &WindowReport, ratios: &Ratios, tier: Tier, size: u64) -> Bill {
        let months = f64::from(window.seconds.max(1)) / MONTH;
        let requests = window.requests as f64 * (1.0 - ratios.hit_ratio) / months;
        let bytes = window.bytes as f64 * (1.0 - ratios.byte_hit_ratio) / months;
        let (price, step) = self.of(tier);
        let sold = (size.div_ceil(step.max(1)) * step) as f64 / (1_u64 << 30) as f64;
        Bill { origins: requests / 1e6 * self.per_million + bytes / 1e9 * self.per_gb, tier: sold * price }
    }

    /// Returns the price of a GiB of the tier in a month below which the size of `other` costs less than that of `running`;
    /// `None` if it is not larger in whole steps, or saves nothing.
    pub fn break_even(&self, report: &Report, running: &Cell, other: &Cell) -> Option<f64> {
        let each = Self { memory_gib_month: 1.0, disk_gib_month: 1.0, ..*self };
        let bill = |cell: &Cell| each.bill(&report.window, &cell.ratios, cell.tier, cell.size);
        let (now, then) = (bill(running), bill(other));
        let (saved, more) = (now.origins - then.origins, then.tier - now.tier);
        (saved > 0.0 && more > 0.0).then_some(saved / more)
    }
}

impl Bill {
    /// Returns the sum.
    pub fn sum(&self) -> f64 {
        self.origins + self.tier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_billed_in_steps_and_origins_by_requests_and_bytes() {
        let prices = Prices {
            per_gb: 0.09,
            per_million: 0.4,
            memory_gib_month: 4.0,
            memory_step: 2 << 30,
            disk_gib_month: 0.5,
            disk_step: 8 << 30,
        };
        let window = WindowReport { requests: 1_000_000, bytes: 2_000_000_000, seconds: 30 * 86_400 };
        let ratios = Ratios { hit_ratio: 0.5, byte_hit_ratio: 0.25, ..Ratios::default() };
        let bill = |tier| prices.bill(&window, &ratios, tier, 3 << 30);
        let (bill, disk) = (bill(Tier::Memory), bill(Tier::Disk).tier);
        assert!((bill.origins - (0.2 + 1.5 * 0.09)).abs() < 1e-9, "{bill:?}");
        assert!((bill.tier - 16.0).abs() < 1e-9 && (disk - 4.0).abs() < 1e-9, "{bill:?} {disk}");
        assert_eq!((prices.fee(), Prices::default().fee()), (Some(4_444), None));
    }
}
