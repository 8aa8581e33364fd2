//! `cargo x soak`: a release build under an ordinary load, and beside it every hostile client and origin at once.
//!
//! For the first third of the time the ordinary load is alone. Then the hostile ones begin. At the end the memory, the
//! errors, the content and the times of the ordinary clients are judged. Everything is on 127.0.0.1 and its neighbours.

mod content;
mod hostile;
mod ordinary;
mod origin;
mod server;
mod traps;
mod verdict;

use crate::args;
use crate::bench::process::resident;
use anyhow::Result;
use ordinary::Ordinary;
use server::Server;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use verdict::Verdict;

/// How often the state is printed.
const REPORT: Duration = Duration::from_secs(10);

/// What a `cargo x soak` command line means.
pub(crate) struct Soak {
    time: Duration,
    larder: Option<PathBuf>,
    only: Option<String>,
}

/// Tells every thread of a run when it is over.
#[derive(Default)]
struct Over(AtomicBool);

impl Over {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps, at most until the run is over.
    fn sleep(&self, time: Duration) {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < time {
            std::thread::sleep(time.saturating_sub(begun.elapsed()).min(Duration::from_millis(100)));
        }
    }
}

/// Ends the run, however its main thread ends.
struct AtEnd<'o>(&'o Over);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Soak {
    /// Reads the options.
    ///
    /// # Errors
    /// An unknown option, value or hostile client.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let words = args::parse(words, &[("--minutes", true), ("--only", true), ("--larder", true)])?;
        let only = words.get("--only").map(str::to_owned);
        hostile::chosen(only.as_deref())?;
        let time = Duration::from_secs(60 * u64::from(words.number("--minutes", 3)?));
        Ok(Self { time, larder: words.path("--larder"), only })
    }

    /// Runs the load and judges it.
    ///
    /// # Errors
    /// When something cannot be started, or a promise was not kept.
    pub(crate) fn run(self) -> Result<()> {
        let larder = self.larder.clone().map_or_else(crate::conformance::build, Ok)?;
        let (ours, traps) = (origin::start()?, traps::start()?);
        let server = Server::start(&larder, ours, traps.port)?;
        let hostile = hostile::chosen(self.only.as_deref())?;
        let (over, ordinary) = (Over::default(), Ordinary::default());
        let (before, most_resident) = std::thread::scope(|scope| -> Result<_> {
            let _end = AtEnd(&over);
            for client in 0..ordinary::CLIENTS {
                let (over, ordinary, port) = (&over, &ordinary, server.ports.site);
                scope.spawn(move || ordinary.run(client, port, over));
            }
            let mut most = watch(&server, &ordinary, self.time / 3)?;
            let before = ordinary.exchange();
            println!("now with {} kinds of hostile clients", hostile.len());
            let ports = &server.ports;
            for attack in &hostile {
                for number in 0..attack.clients {
                    let over = &over;
                    scope.spawn(move || attack.repeat(number, ports, over));
                }
            }
            most = most.max(watch(&server, &ordinary, self.time - self.time / 3)?);
            Ok((before, most))
        })?;
        // Only now have those that waited for an answer got it, or given up.
        let during = ordinary.exchange();
        Verdict { before, during, most_resident, budget: server::BUDGET }.judge()
    }
}

/// Prints the state now and then; gives the most bytes that were resident.
fn watch(server: &Server, ordinary: &Ordinary, time: Duration) -> Result<u64> {
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < time {
        std::thread::sleep(REPORT.min(time.saturating_sub(begun.elapsed())));
        let now = resident(&[server.id()])?;
        most = most.max(now);
        println!("  {:>5} s  {:>4} MiB resident  {}", begun.elapsed().as_secs(), now >> 20, ordinary.line());
    }
    Ok(most)
}
