//! Ordinary clients: persistent connections, consecutive requests with pauses, every byte compared.

use super::{Over, content};
use crate::client::Client;
use anyhow::{Context, Result, ensure};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The address differs from that of the hostile clients: permits for origins are shared between clients by address.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The number of clients.
pub(super) const CLIENTS: u64 = 8;
/// The number of pages; low numbers are requested most.
const PAGES: f64 = 3_000.0;
/// The pause of each client between two requests.
const PAUSE: Duration = Duration::from_millis(4);
/// The number of requests on one connection.
const ON_ONE: usize = 500;

/// The results of the clients.
#[derive(Default)]
pub(super) struct Ordinary(Mutex<Responses>);

/// The times of all answers, and the errors.
#[derive(Default)]
pub(super) struct Responses {
    pub(super) times: Vec<u32>,
    pub(super) errors: Vec<String>,
}

impl Responses {
    /// Returns the microseconds within which this share of all answers arrived.
    pub(super) fn within(&self, share: f64) -> u32 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at = (times.len() as f64 * share) as usize;
        times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

impl Ordinary {
    /// Returns the results since the last call.
    pub(super) fn exchange(&self) -> Responses {
        std::mem::take(&mut *self.seen())
    }

    /// Returns the state in one line.
    pub(super) fn line(&self) -> String {
        let seen = self.seen();
        let (count, p99, errors) = (seen.times.len(), seen.within(0.99), seen.errors.len());
        format!("{count:>8} ordinary requests, 99 of 100 within {p99} us, {errors} errors")
    }

    fn seen(&self) -> MutexGuard<'_, Responses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one client, until the run is over.
    pub(super) fn run(&self, client: u64, port: u16, over: &Over) {
        let mut random = Random(client + 1);
        while !over.is_over() {
            if let Err(error) = self.connection(port, &mut random, over) {
                self.seen().errors.push(format!("{error:#}"));
                over.sleep(Duration::from_millis(100));
            }
        }
    }

    fn connection(&self, port: u16, random: &mut Random, over: &Over) -> Result<()> {
        let mut client = Client::with_address(ADDRESS, port);
        for _ in 0..ON_ONE {
            if over.is_over() {
                break;
            }
            let number = PAGES.powf(random.share()) as u64;
            let (path, length) = content::path(number);
            let begun = Instant::now();
            let request = format!("GET {path}");
            let answer = client.ask(&request, "Host: good.test\r\n").with_context(|| path.clone())?;
            let took = begun.elapsed().as_micros() as u32;
            ensure!(answer.status == 200, "{path}: answered {}", answer.status);
            ensure!(answer.is_whole, "{path}: the content broke off");
            ensure!(
                answer.body == content::of(number, length),
                "{path}: wrong content of {} bytes",
                answer.body.len()
            );
            self.seen().times.push(took);
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// A generator of numbers that look random (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() >> 63 == 0
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns a number from 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
