//! Load at a rate that is independent of the answers, so that it detects a server that stalls.

use super::measure::{percentile, side_by_side};
use crate::client::Client;
use anyhow::{Result, bail};
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

/// The parameters of the load.
pub(super) struct Pace<'a> {
    pub(super) port: u16,
    /// Requests a second.
    pub(super) rate: u32,
    pub(super) connections: usize,
    pub(super) duration: Duration,
    /// The length that each body must have, in bytes.
    pub(super) length: u64,
    /// Returns the path for the request of a number.
    pub(super) path: &'a (dyn Fn(u64) -> String + Sync),
}

/// Microseconds from a request's due time to the end of its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) longest: f64,
}

impl Pace<'_> {
    /// Runs the load; every answer must arrive completely. Fails if an answer is missing or incomplete.
    pub(super) fn run(&self) -> Result<Latency> {
        let begun = Instant::now();
        let mut times = side_by_side(self.connections, |first| self.ask(first, begun))?.concat();
        times.sort_by(f64::total_cmp);
        Ok(Latency {
            p50: percentile(&times, 50.0),
            p99: percentile(&times, 99.0),
            longest: percentile(&times, 100.0),
        })
    }

    /// Sends every n-th request, beginning with `first`.
    fn ask(&self, first: usize, begun: Instant) -> Result<Vec<f64>> {
        // If this fails, sleeping takes about 50 us longer, for every server alike.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut client = Client::connect(self.port)?;
        let total = u64::from(self.rate) * self.duration.as_millis() as u64 / 1_000;
        let mut times = Vec::new();
        for number in (first as u64..total).step_by(self.connections) {
            let due = begun + Duration::from_secs_f64(number as f64 / f64::from(self.rate));
            let early = due.saturating_duration_since(Instant::now());
            thread::sleep(early);
            // A request that is late because of a slow answer before it has waited since its due time.
            let asked = if early.is_zero() { due } else { Instant::now() };
            let path = (self.path)(number);
            let length = client.get(&path)?;
            if length != self.length {
                bail!("{path}: a body of {length} bytes, not {}", self.length);
            }
            times.push(asked.elapsed().as_secs_f64() * 1e6);
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use crate::bench::origin::Origin;
    use std::time::{Duration, Instant};

    #[test]
    fn the_rate_is_kept() {
        let origin = Origin::start();
        let (duration, path) = (Duration::from_millis(300), |number| format!("/1k/{number}"));
        let pace =
            Pace { port: origin.port(), rate: 500, connections: 3, duration, length: 1024, path: &path };
        let begun = Instant::now();
        let latency = pace.run().unwrap();
        assert_eq!(origin.requests(), 150);
        assert!(begun.elapsed() >= Duration::from_millis(290));
        assert!(0.0 < latency.p50 && latency.p50 <= latency.p99 && latency.p99 <= latency.longest);
    }
}
