//! `cargo x soak`: a release build under an ordinary load, and at the same time all hostile clients and origins.
//!
//! For the first third of the time there is only the ordinary load. Then the hostile clients begin, from another
//! address. At the end the memory, the errors, the content and the times of the ordinary clients are judged. Checkers
//! run for the whole time, with their own proxies and with faults: at the end each reports its findings. Everything is
//! on 127.0.0.1 and adjacent addresses, and faults affect only processes that a checker has started itself.

mod checks;
mod content;
mod hostile;
mod ordinary;
mod origin;
mod server;
mod traps;
mod verdict;

use crate::args;
use anyhow::{Result, anyhow, bail};
use checks::Checker;
use hostile::Attack;
use larder_testkit::resident;
use ordinary::Ordinary;
use server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use verdict::Verdict;

/// The interval between prints of the state.
const REPORT: Duration = Duration::from_secs(10);

/// The options of `cargo x soak`.
pub(crate) struct Soak {
    time: Duration,
    larder: Option<PathBuf>,
    only: Option<String>,
    /// Repeats the random choices of checkers, though not their timing.
    seed: u64,
    control: Option<&'static Checker>,
}

/// Tells every thread of a run when it is over.
#[derive(Default)]
struct Over(AtomicBool);

impl Over {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Sleeps for `time`, or until the run is over.
    fn sleep(&self, time: Duration) {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < time {
            std::thread::sleep(time.saturating_sub(begun.elapsed()).min(Duration::from_millis(100)));
        }
    }
}

/// Ends the run when the main thread returns or panics.
struct AtEnd<'o>(&'o Over);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Soak {
    /// Reads the options. Fails on an unknown option, value, hostile client or checker.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let known = ["--minutes", "--only", "--larder", "--seed", "--control"].map(|name| (name, true));
        let words = args::parse(words, &known)?;
        let only = words.get("--only").map(str::to_owned);
        chosen(only.as_deref())?;
        let control = words.get("--control").map(checks::named).transpose()?;
        let time = Duration::from_secs(60 * u64::from(words.number("--minutes", 3)?));
        let seed = words.number("--seed", any_seed())?.into();
        Ok(Self { time, larder: words.path("--larder"), only, seed, control })
    }

    /// Runs the load and judges it. Fails if a process cannot be started, or a promise was not kept.
    pub(crate) fn run(self) -> Result<()> {
        let larder = self.larder.clone().map_or_else(crate::program::build_release, Ok)?;
        let larder = std::path::absolute(larder)?;
        match self.control {
            Some(checker) => self.control(&larder, checker),
            None => self.load(&larder),
        }
    }

    fn load(&self, larder: &Path) -> Result<()> {
        let (ours, traps) = (origin::start(), traps::start()?);
        let server = Server::start(larder, ours, traps.port)?;
        let (hostile, checkers) = chosen(self.only.as_deref())?;
        let (over, ordinary) = (Over::default(), Ordinary::default());
        let (before, most_resident, checked) = std::thread::scope(|scope| -> Result<_> {
            let end = AtEnd(&over);
            for client in 0..ordinary::CLIENTS {
                let (over, ordinary, port) = (&over, &ordinary, server.ports.site);
                scope.spawn(move || ordinary.run(client, port, over));
            }
            let (over, seed) = (&over, self.seed);
            let check =
                |checker: &'static Checker| scope.spawn(move || checker.check(larder, over, seed, None));
            let checkers: Vec<_> = checkers.into_iter().map(check).collect();
            let mut most = watch(&server, &ordinary, self.time / 3)?;
            let before = ordinary.exchange();
            println!("now with {} kinds of hostile clients", hostile.len());
            let ports = &server.ports;
            for attack in &hostile {
                for number in 0..attack.clients {
                    scope.spawn(move || attack.repeat(number, ports, over));
                }
            }
            most = most.max(watch(&server, &ordinary, self.time - self.time / 3)?);
            drop(end);
            let checked =
                checkers.into_iter().map(|checker| checker.join().map_err(|_| anyhow!("a checker panicked")));
            Ok((before, most, checked.collect::<Result<_>>()?))
        })?;
        // Only now have the clients that waited for an answer received it, or given up.
        let during = ordinary.exchange();
        Verdict { before, during, most_resident, budget: server::BUDGET, checked }.judge()
    }

    /// Runs a checker without a mechanism that keeps its promises, once for each such mechanism: it has to find
    /// violations.
    fn control(&self, larder: &Path, checker: &Checker) -> Result<()> {
        for left_out in checker.controls {
            println!("{} without {left_out}", checker.name);
            let over = Over::default();
            let summary = std::thread::scope(|scope| {
                let end = AtEnd(&over);
                scope.spawn(|| {
                    over.sleep(self.time);
                    over.end();
                });
                let summary = checker.check(larder, &over, self.seed, Some(left_out));
                drop(end);
                summary
            });
            println!("  {}", summary.line());
            if summary.violations == 0 {
                bail!("checker `{}` finds nothing wrong without {left_out}", checker.name);
            }
        }
        Ok(())
    }
}

/// Makes this thread, and those that it starts, run only when no thread of normal priority is runnable. A refusal by
/// the kernel is no failure. Niceness alone is not enough: a running thread keeps its processor to the end of its time
/// slice, about three milliseconds, unless it is in the idle class.
fn give_way() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let chrt = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status();
    if !chrt.is_ok_and(|status| status.success()) {
        let _ = rustix::process::setpriority_process(None, 19);
    }
}

/// Returns a seed that differs in each run.
fn any_seed() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.subsec_nanos());
    now.max(1)
}

/// Returns the hostile clients and the checkers in `only`, separated by commas; all of them if it is `None`. Fails on
/// an unknown name.
fn chosen(only: Option<&str>) -> Result<(Vec<&'static Attack>, Vec<&'static Checker>)> {
    let Some(only) = only else {
        return Ok((hostile::ATTACKS.iter().collect(), checks::CHECKERS.iter().collect()));
    };
    let (mut hostile, mut checkers) = (Vec::new(), Vec::new());
    for word in only.split(',') {
        match (hostile::named(word), checks::named(word)) {
            (Some(attack), _) => hostile.push(attack),
            (None, Ok(checker)) => checkers.push(checker),
            (None, Err(_)) => {
                let attacks = hostile::ATTACKS.iter().map(|attack| attack.name);
                let names: Vec<_> =
                    attacks.chain(checks::CHECKERS.iter().map(|checker| checker.name)).collect();
                return Err(args::unknown("hostile client or checker", word, &names));
            }
        }
    }
    Ok((hostile, checkers))
}

/// Prints the state at intervals. Returns the maximum of resident bytes.
fn watch(server: &Server, ordinary: &Ordinary, time: Duration) -> Result<u64> {
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < time {
        std::thread::sleep(REPORT.min(time.saturating_sub(begun.elapsed())));
        let now = resident(server.id())?;
        most = most.max(now);
        println!("  {:>5} s  {:>4} MiB resident  {}", begun.elapsed().as_secs(), now >> 20, ordinary.line());
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::{Soak, checks, chosen, hostile};

    #[test]
    fn hostile_clients_and_checkers_are_chosen_by_name() {
        let count = |only| chosen(only).map(|(hostile, checkers)| (hostile.len(), checkers.len()));
        assert_eq!(count(None).unwrap(), (hostile::ATTACKS.len(), checks::CHECKERS.len()));
        assert_eq!(count(Some("vary,groups,kills")).unwrap(), (2, 1));
        let error = count(Some("varry")).unwrap_err();
        assert_eq!(error.to_string(), "unknown hostile client or checker `varry`; did you mean `vary`?");
    }

    #[test]
    fn a_control_names_a_checker() {
        let parse = |words: &str| Soak::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(parse("--control tags --seed 7").is_ok());
        assert!(parse("--control vary").is_err());
    }
}
