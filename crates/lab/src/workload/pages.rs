//! The sizes of pages, and the cost of fetching them.

use rand::RngExt;
use rand_distr::{Distribution, LogNormal, Pareto};

use super::Random;

/// The maximum size of a page: the limit in the ONC RPC report, 20 MiB.
const LARGEST: f64 = 20_971_520.0;

/// The distribution of sizes, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All sizes are equal.
    Fixed(u64),
    /// All sizes in a range are equally likely.
    Uniform(u64, u64),
    /// Logarithms are normally distributed: half the pages are smaller than `median`, and `sigma` is the standard
    /// deviation of the natural logarithm.
    Lognormal {
        /// The median, in bytes.
        median: f64,
        /// About 1 for web pages.
        sigma: f64,
    },
    /// The web's: a lognormal body (median 8 KiB, sigma 1.3) for 93 of 100 pages, and a Pareto tail (from 64 KiB, shape
    /// 1.1) for the others (P. Barford and M. Crovella, Generating representative web workloads, 1998).
    Web,
    /// Drawn from observed values: sizes in ascending order, at even steps of the distribution, with geometric
    /// interpolation.
    Quantiles(Vec<u64>),
}

/// The cost of fetching a page from its origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// The same for all, in microseconds.
    Constant(u32),
    /// Half of the pages take less than `median` microseconds; `sigma` is as in [`Sizes::Lognormal`].
    Lognormal {
        /// The median, in microseconds.
        median: f64,
        /// About 0.5.
        sigma: f64,
    },
    /// A fixed time, and then a rate in bytes a second.
    PerSize {
        /// The fixed time, in microseconds.
        start: u32,
        /// The rate in bytes a second.
        rate: u64,
    },
}

/// The properties of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    /// Their sizes.
    pub sizes: Sizes,
    /// The cost of fetching them.
    pub latency: Latency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) size: u64,
    pub(crate) cost: u32,
}

/// Pages by number.
#[derive(Clone, Debug)]
pub(crate) struct Table(Vec<Page>);

impl Table {
    pub(crate) fn page(&self, number: u32) -> Page {
        self.0[number as usize]
    }

    /// Returns the pages' numbers, the smallest page first.
    pub(crate) fn by_size(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.0.len() as u32).collect();
        numbers.sort_by_key(|&number| (self.page(number).size, number));
        numbers
    }
}

impl Pages {
    /// Returns one line about the model.
    pub fn describe(&self) -> String {
        format!("sizes: {}; latency: {}", self.sizes.describe(), self.latency.describe())
    }

    /// Returns a page for each size.
    pub(crate) fn of_sizes(&self, sizes: Vec<u64>, random: &mut Random) -> Table {
        Table(sizes.into_iter().map(|size| Page { size, cost: self.latency.draw(size, random) }).collect())
    }
}

impl Sizes {
    /// Returns the sizes of `count` pages.
    pub(crate) fn draw_all(&self, count: u32, random: &mut Random) -> Vec<u64> {
        (0..count).map(|_| self.draw(random)).collect()
    }

    fn describe(&self) -> String {
        match self {
            Self::Fixed(size) => format!("fixed, {size} bytes"),
            Self::Uniform(least, most) => format!("uniform, {least} to {most} bytes"),
            Self::Lognormal { median, sigma } => format!("lognormal, median {median} bytes, sigma {sigma}"),
            Self::Web => {
                "web, 93% lognormal (median 8192 bytes, sigma 1.3), 7% Pareto (from 65536 bytes, shape 1.1)"
                    .into()
            }
            Self::Quantiles(sizes) => format!("quantiles, {sizes:?} bytes"),
        }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let bytes = match self {
            Self::Fixed(size) => return *size,
            Self::Uniform(least, most) => return random.random_range(*least..=*most.max(least)),
            Self::Lognormal { median, sigma } => lognormal(*median, *sigma, random),
            Self::Web if random.random_bool(0.93) => lognormal(8_192.0, 1.3, random),
            Self::Web => pareto(65_536.0, 1.1, random),
            Self::Quantiles(sizes) => return between(sizes, random.random()),
        };
        bytes.clamp(1.0, LARGEST).round() as u64
    }
}

impl Latency {
    fn describe(&self) -> String {
        match self {
            Self::Constant(microseconds) => format!("constant, {microseconds} us"),
            Self::Lognormal { median, sigma } => format!("lognormal, median {median} us, sigma {sigma}"),
            Self::PerSize { start, rate } => format!("per size, {start} us and {rate} bytes a second"),
        }
    }

    fn draw(self, size: u64, random: &mut Random) -> u32 {
        let microseconds = match self {
            Self::Constant(microseconds) => return microseconds,
            Self::Lognormal { median, sigma } => lognormal(median, sigma, random),
            Self::PerSize { start, rate } => f64::from(start) + size as f64 * 1e6 / rate.max(1) as f64,
        };
        microseconds.round() as u32 // saturates
    }
}

fn lognormal(median: f64, sigma: f64, random: &mut Random) -> f64 {
    // An invalid model, such as a negative sigma, gives its median.
    LogNormal::new(median.ln(), sigma).map_or(median, |model| model.sample(random))
}

fn pareto(least: f64, shape: f64, random: &mut Random) -> f64 {
    Pareto::new(least, shape).map_or(least, |model| model.sample(random))
}

/// Returns the value at `share` of ascending `values`. The interpolation between two of them is by ratio, not by
/// difference, since the last step of a heavy tail spans several powers of ten.
fn between(values: &[u64], share: f64) -> u64 {
    let Some(last) = values.len().checked_sub(1) else { return 1 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (values[place as usize] as f64, values[(place as usize + 1).min(last)] as f64);
    ((low + 1.0) * ((high + 1.0) / (low + 1.0)).powf(place.fract()) - 1.0).round() as u64
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn sizes(model: &Sizes) -> Vec<u64> {
        let mut random = Random::seed_from_u64(1);
        let mut drawn: Vec<u64> = (0..10_001).map(|_| model.draw(&mut random)).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn half_of_a_lognormal_is_below_its_median() {
        let drawn = sizes(&Sizes::Lognormal { median: 10_000.0, sigma: 1.0 });
        assert!((9_500..10_500).contains(&drawn[5_000]), "{}", drawn[5_000]);
        // One sigma up: e times the median, for 84 of 100.
        assert!((25_000..29_500).contains(&drawn[8_413]), "{}", drawn[8_413]);
    }

    #[test]
    fn the_web_has_a_heavy_tail() {
        let drawn = sizes(&Sizes::Web);
        let sum: u64 = drawn.iter().sum();
        let largest_hundredth: u64 = drawn[9_900..].iter().sum();
        assert!(largest_hundredth > sum / 4, "{largest_hundredth} of {sum}");
        assert!(drawn[5_000] < 12_000 && *drawn.last().unwrap() <= 20_971_520);
    }

    #[test]
    fn quantiles_come_back() {
        let drawn = sizes(&Sizes::Quantiles(vec![10, 100, 200]));
        assert!((95..105).contains(&drawn[5_000]));
        assert!(drawn[0] >= 10 && drawn[10_000] <= 200);
    }

    #[test]
    fn a_page_per_size_takes_its_bytes_time() {
        let latency = Latency::PerSize { start: 1_000, rate: 1_000_000 };
        let mut random = Random::seed_from_u64(1);
        assert_eq!(latency.draw(500_000, &mut random), 501_000);
    }

    #[test]
    fn no_model_is_too_strange() {
        let mut random = Random::seed_from_u64(1);
        for sizes in [
            Sizes::Lognormal { median: 0.0, sigma: -1.0 },
            Sizes::Lognormal { median: f64::NAN, sigma: f64::INFINITY },
            Sizes::Uniform(9, 3),
            Sizes::Quantiles(vec![]),
        ] {
            let _size = sizes.draw(&mut random);
        }
    }
}
