//! Upgrades of a proxy with a disk under load, with `kill -9` of either process at random moments: afterwards one process serves,
//! or the service manager starts one, and no page is wrong, or older than an acknowledged purge.

use super::Task;
use super::purges;
use crate::soak::ordinary::Random;
use crate::soak::server::Larder;
use anyhow::{Context, Result};
use larder_testkit::{children, is_over, successor};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::time::{Duration, Instant};

/// The time in which the process before an upgrade has to end.
const PATIENCE: Duration = Duration::from_secs(40);
/// A little longer than an upgrade takes, in milliseconds.
const UPGRADE: u64 = 120;
/// The time in which a signal has stopped all threads of a process.
const STOPS: Duration = Duration::from_millis(10);

pub(super) fn run(task: &Task<'_>) -> Result<()> {
    let load = purges::DiskLoad { memory: "8MiB", readers: 3, pause: (20, 100) };
    purges::disturb(task, &load, |larder, random| {
        task.over.sleep(Duration::from_millis(200 + random.below(1_000)));
        upgrade(task, larder, random)
    })
}

/// Upgrades, and often kills one of the two processes.
fn upgrade(task: &Task<'_>, larder: &mut Larder, random: &mut Random) -> Result<()> {
    let before = larder.process();
    let mut command = larder.upgrade()?;
    let mut found = None;
    if random.below(3) > 0 {
        std::thread::sleep(Duration::from_millis(random.below(UPGRADE)));
        // It must not start a successor after the look for one.
        signal(before, Signal::STOP);
        std::thread::sleep(STOPS);
        found = Some(children(before.as_raw_nonzero().get().unsigned_abs()).pop());
        signal(found.flatten().filter(|_| random.coin()).unwrap_or(before), Signal::KILL);
        signal(before, Signal::CONT);
        task.findings.faults.add();
    }
    let mut said = String::new();
    command.stdout.take().context("a pipe")?.read_to_string(&mut said).context("`larder upgrade`")?;
    let told = successor(&said);
    if found.is_none() && told.is_none() {
        // A process whose successor was just killed ends, and cannot be upgraded.
        task.findings.unanswered.add();
    }
    settle(task, larder, &[Some(before), told.or(found.flatten())])
}

fn signal(process: Pid, signal: Signal) {
    // It may have ended already.
    let _ = kill_process(process, signal);
}

/// Waits until one process is left that serves. Starts one if there is none, as a service manager does.
fn settle(task: &Task<'_>, larder: &mut Larder, all: &[Option<Pid>]) -> Result<()> {
    let begun = Instant::now();
    loop {
        let alive: Vec<_> = all.iter().flatten().copied().filter(|process| !is_over(*process)).collect();
        match alive[..] {
            // The last threads of a killed process may still have its sockets.
            [] if !larder.listens() => return larder.start_again().context("after kill -9"),
            [process] if larder.listens() => {
                larder.is_succeeded_by(process);
                return Ok(());
            }
            _ => {}
        }
        if begun.elapsed() > PATIENCE {
            task.violation(&format!("{} processes after {PATIENCE:?}", alive.len()));
            anyhow::bail!("no state of its own");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
