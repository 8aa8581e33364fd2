//! The common parts of several benches: their options, and the packages that they need.

use super::replay::shipped;
use super::{LOAD_CORE, SERVER_CORE, pin_self, server, warn_if_busy};
use crate::args::{self, OptionSpec, Words};
use crate::packages::{self, Package};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of all these benches.
const KNOWN: &[OptionSpec] =
    &[("--quick", false), ("--seconds", true), ("--rounds", true), ("--larder", true), ("--json", true)];

/// The options of a bench that measures servers in rounds.
pub(crate) struct Options {
    pub(super) quick: bool,
    pub(super) duration: Duration,
    pub(super) rounds: u32,
    pub(super) larder: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
    pub(super) install: bool,
}

impl Options {
    /// Reads the words after the bench's name; `usual` are the default seconds of a measurement, and rounds. Fails on
    /// an unknown word, or an invalid value; the error names it.
    pub(super) fn parse(words: &[String], usual: [u32; 2]) -> Result<Self> {
        Ok(Self::with(words, &[], [1, 2], usual)?.0)
    }

    /// Reads the words of a bench that has `more` options, which are in the returned words; `quick` and `usual` are the
    /// default seconds of a measurement, and rounds.
    pub(super) fn with(
        words: &[String],
        more: &[OptionSpec],
        quick: [u32; 2],
        usual: [u32; 2],
    ) -> Result<(Self, Words)> {
        let words = args::parse(words, &[KNOWN, &[("--install", false)], more].concat())?;
        Ok((Self::read(&words, quick, usual)?, words))
    }

    /// Reads the words after the name of a bench without peers; `quick` and `usual` are the default seconds of a
    /// measurement, and rounds.
    pub(super) fn without_peers(words: &[String], quick: [u32; 2], usual: [u32; 2]) -> Result<Self> {
        Self::read(&args::parse(words, KNOWN)?, quick, usual)
    }

    fn read(words: &Words, quick: [u32; 2], usual: [u32; 2]) -> Result<Self> {
        let [seconds, rounds] = if words.has("--quick") { quick } else { usual };
        Ok(Self {
            quick: words.has("--quick"),
            duration: words.seconds("--seconds", seconds)?,
            rounds: words.number("--rounds", rounds)?,
            larder: words.path("--larder"),
            json: words.path("--json"),
            install: words.has("--install"),
        })
    }

    /// Returns the peers that are not installed; they take no part. Installs them if the options request that. Fails if
    /// one of `tools` is missing.
    pub(super) fn missing<'p>(
        &self,
        tools: &[&'p Package],
        peers: &[&'p Package],
    ) -> Result<Vec<&'p Package>> {
        let mut missing = packages::missing(tools.iter().chain(peers).copied());
        if self.install {
            packages::install(&missing)?;
            missing.clear();
        }
        if missing.is_empty() {
            return Ok(missing);
        }
        let names = missing.iter().map(|package| package.name).collect::<Vec<_>>().join(", ");
        let command = packages::command_line(&missing);
        if missing.iter().any(|package| tools.contains(package)) {
            bail!("not installed: {names} (add --install, or run: {command})");
        }
        println!("not installed: {names} (add --install, or run: {command})");
        Ok(missing)
    }
}

/// Reserves the server's core for the servers, and removes the leftovers of interrupted benches below `base`. Fails if
/// the kernel refuses the choice of a core.
pub(super) fn claim_cores(base: &Path) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    pin_self(cores)?;
    println!("{cores} cores; servers on core {SERVER_CORE}, all else on core {}", LOAD_CORE.min(cores - 1));
    warn_if_busy();
    server::remove_leftovers(base);
    Ok(())
}

/// The options of a bench that replays traces.
pub(crate) struct TraceOptions {
    pub(super) quick: bool,
    pub(super) traces: Vec<PathBuf>,
    pub(super) larder: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
}

impl TraceOptions {
    /// Reads the words after the bench's name. Errors: an unknown word; the error names it.
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let known = [("--quick", false), ("--trace", true), ("--larder", true), ("--json", true)];
        let words = args::parse(words, &known)?;
        Ok(Self {
            quick: words.has("--quick"),
            traces: words.get("--trace").iter().flat_map(|list| list.split(',')).map(PathBuf::from).collect(),
            larder: words.path("--larder"),
            json: words.path("--json"),
        })
    }

    /// Returns the traces: those that ship, unless others are named. Fails if their folder cannot be read.
    pub(super) fn traces(&self) -> Result<Vec<PathBuf>> {
        if self.traces.is_empty() { shipped() } else { Ok(self.traces.clone()) }
    }
}
