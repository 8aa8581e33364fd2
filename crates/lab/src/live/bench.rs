//! The environment of a measurement: the inputs of an experiment, and the journal for its results.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::{Halt, Host, Journal, Prices, machine};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// A few requests, to see that everything works: the numbers mean nothing.
    Smoke,
    /// Every figure, from few measurements.
    Quick,
    /// What the claims deserve.
    Full,
}

impl Size {
    /// As users read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// What an experiment is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// How much of it.
    pub size: Size,
    /// What everything random comes from.
    pub seed: u64,
}

impl Scale {
    /// What a repetition's requests are drawn from: the same for whatever is compared.
    pub(super) fn of(self, repetition: u64) -> u64 {
        self.seed.wrapping_mul(1_000).wrapping_add(repetition)
    }
}

/// Receives the progress of an experiment.
pub trait Watch {
    /// So many measurements are to come.
    fn begin(&self, measurements: usize);
    /// One more is done.
    fn advance(&self);
    /// The user should know this: one line.
    fn tell(&self, line: &str);
}

/// The means of an experiment.
pub struct Bench<'a> {
    /// The program that serves.
    pub program: PathBuf,
    /// The Python beside whose asyncio it is measured; nothing for the usual one.
    pub python: Option<PathBuf>,
    /// What memory costs.
    pub prices: Prices,
    /// How much to do.
    pub scale: Scale,
    /// Set when the user wants it to end.
    pub stop: Arc<AtomicBool>,
    /// What was measured.
    pub journal: Journal,
    /// Receives the progress.
    pub watch: &'a dyn Watch,
}

impl Bench<'_> {
    /// Where the machine that measured is written down.
    pub(super) const HOST: &'static str = "host";

    /// Takes the measurements of `cells`, each by its key, but for those that were taken before.
    ///
    /// # Errors
    /// When one cannot be taken, or the user wants an end; those before it are written down.
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
                // What goes wrong while everything ends is no failure.
                let measured = measured.map_err(|halt| self.unless_stopped().err().unwrap_or(halt))?;
                if self.journal.get::<Host>(Self::HOST).is_none() {
                    self.journal.add(Self::HOST, &machine::describe(&self.program))?;
                }
                self.journal.add(&key, &measured)?;
            }
            self.watch.advance();
        }
        Ok(())
    }

    fn unless_stopped(&self) -> Result<(), Halt> {
        if self.stop.load(Ordering::Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
    }
}
