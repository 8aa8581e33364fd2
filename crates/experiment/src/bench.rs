//! The environment of a measurement: the inputs of an experiment, and the journal for its results.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde::Serialize;

use super::size::Size;
use super::{Halt, Host, Journal, Prices, SpentTime, machine};

/// The size and the seed of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The extent of the measurements.
    pub size: Size,
    /// The seed of all randomness.
    pub seed: u64,
}

impl Scale {
    /// Returns the seed for a repetition's requests, which is the same for all compared systems.
    pub(super) fn of(self, repetition: u64) -> u64 {
        self.seed.wrapping_mul(1_000).wrapping_add(repetition)
    }
}

/// Receives the progress of an experiment.
pub trait Watch {
    /// Announces the number of measurements.
    fn begin(&self, measurements: usize);
    /// Reports that one more measurement is complete.
    fn advance(&self);
    /// Shows the user a message of one line.
    fn tell(&self, line: &str);
}

/// The environment of an experiment.
pub struct Bench<'a> {
    /// The program that serves.
    pub program: PathBuf,
    /// The program of the experiments, which is also the services and the threads that count.
    pub lab: PathBuf,
    /// The Python for the comparison with asyncio; `None` for the default one.
    pub python: Option<PathBuf>,
    /// The prices of memory and of an origin's answers.
    pub prices: Prices,
    /// The size and the seed.
    pub scale: Scale,
    /// Set when the user ends the experiment.
    pub stop: Arc<AtomicBool>,
    /// The measurements taken so far.
    pub journal: Journal,
    /// Receives the progress.
    pub watch: &'a (dyn Watch + Sync),
}

impl Bench<'_> {
    /// The journal's key for the price table.
    pub(super) const PRICES: &'static str = "prices";

    /// Writes the price table to the journal, unless it is the table there. Fails if the journal cannot be written.
    pub(super) fn note_prices(&mut self) -> Result<(), Halt> {
        let is_known = self.journal.get::<Prices>(Self::PRICES).as_ref() == Some(&self.prices);
        if is_known { Ok(()) } else { self.journal.add(Self::PRICES, &self.prices) }
    }

    /// Takes the measurements of `cells`, each under its key, except those that were taken before.
    ///
    /// # Errors
    /// If a measurement fails, or the user ends the experiment. Earlier measurements are in the journal.
    pub fn measure<C, M: Serialize>(
        &mut self,
        cells: &[C],
        key: impl Fn(&C) -> String,
        mut take: impl FnMut(&Self, &C) -> Result<M, Halt>,
    ) -> Result<(), Halt> {
        self.watch.begin(cells.len());
        for cell in cells {
            let key = key(cell);
            if !self.journal.has(&key) {
                let measured = self.unless_stopped().and_then(|()| take(self, cell));
                self.note(&key, measured)?;
            }
            self.watch.advance();
        }
        Ok(())
    }

    /// Measures as [`Self::measure`] does, with as many `cells` at once as there are cores: for simulations, and for
    /// measurements that wait most of the time.
    ///
    /// # Errors
    /// The same as for [`Self::measure`].
    pub fn measure_together<C: Sync, M: Serialize + Send>(
        &mut self,
        cells: &[C],
        key: impl Fn(&C) -> String,
        take: impl Fn(&Self, &C) -> Result<M, Halt> + Sync,
    ) -> Result<(), Halt> {
        self.watch.begin(cells.len());
        let left: Vec<&C> = cells.iter().filter(|cell| !self.journal.has(&key(cell))).collect();
        (left.len()..cells.len()).for_each(|_| self.watch.advance());
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for group in left.chunks(cores) {
            self.unless_stopped()?;
            let (bench, take) = (&*self, &take);
            let died = |_| Err(Halt::Failed("a measurement died".to_owned()));
            let measured: Vec<_> = thread::scope(|scope| {
                let running: Vec<_> =
                    group.iter().map(|cell| scope.spawn(move || take(bench, cell))).collect();
                running.into_iter().map(|one| one.join().unwrap_or_else(died)).collect()
            });
            for (cell, measured) in group.iter().zip(measured) {
                self.note(&key(cell), measured)?;
                self.watch.advance();
            }
        }
        Ok(())
    }

    /// Writes a measurement to the journal.
    fn note(&mut self, key: &str, measured: Result<impl Serialize, Halt>) -> Result<(), Halt> {
        // An error while the experiment is being stopped is no failure.
        let measured = measured.map_err(|halt| self.unless_stopped().err().unwrap_or(halt))?;
        if self.journal.get::<Host>(Journal::HOST).is_none() {
            self.journal.add(Journal::HOST, &machine::describe(&self.program))?;
        }
        self.journal.add(key, &measured)
    }

    /// Writes the processor time that other programs used since `begun` to the journal, in cores.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn note_load(&mut self, begun: &SpentTime) -> Result<(), Halt> {
        // A continued run has several.
        let key = format!("{}{}", Journal::LOAD, self.journal.all::<f64>(Journal::LOAD).len());
        self.journal.add(&key, &begun.of_others())
    }

    fn unless_stopped(&self) -> Result<(), Halt> {
        if self.stop.load(Ordering::Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
    }
}
