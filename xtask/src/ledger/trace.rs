//! The accesses to memory that lackey prints, by cache line.

use super::symbols::Symbols;
use anyhow::{Context, Result};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes of a cache line.
const LINE: u64 = 64;
/// The program is quiet if it prints less in this time, in bytes. Some threads work without requests, too.
const PAUSE: Duration = Duration::from_millis(300);
const QUIET: u64 = 500_000;

/// A trace that is being read.
pub(super) struct Trace(Arc<TraceState>);

#[derive(Default)]
struct TraceState {
    recorder: Mutex<Recorder>,
    /// The bytes that were read.
    bytes: AtomicU64,
}

/// What is recorded at present.
#[derive(Default)]
struct Recorder {
    symbols: Option<Symbols>,
    phase: Option<Phase>,
    /// The function of the program that ran last.
    last: Option<usize>,
    known: HashMap<u64, Option<usize>>,
}

/// The lines that were written in some time, with the functions that wrote to them.
#[derive(Default)]
pub(super) struct Phase {
    written: HashMap<u64, BTreeSet<String>>,
}

/// An access as lackey prints it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Access {
    Instruction(u64),
    Load,
    /// The address and the length in bytes of a store, or of a load with a store.
    Store(u64, u64),
}

impl Trace {
    /// Reads the trace from a pipe, on a thread, to its end. Fails if there is no such pipe.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let shared = Arc::<TraceState>::default();
        let input = File::open(path).context("cannot read the trace")?;
        let recording = Arc::clone(&shared);
        thread::spawn(move || recording.record(BufReader::with_capacity(1 << 20, input)));
        Ok(Self(shared))
    }

    pub(super) fn name_by(&self, symbols: Symbols) {
        self.0.recorder().symbols = Some(symbols);
    }

    /// Waits until the program has done all that requests have caused.
    pub(super) fn wait_until_quiet(&self) {
        loop {
            let before = self.0.bytes.load(Ordering::Relaxed);
            thread::sleep(PAUSE);
            if self.0.bytes.load(Ordering::Relaxed) - before < QUIET {
                return;
            }
        }
    }

    pub(super) fn begin(&self) {
        let mut recorder = self.0.recorder();
        (recorder.phase, recorder.last) = (Some(Phase::default()), None);
    }

    /// Returns what was recorded since the beginning.
    pub(super) fn end(&self) -> Phase {
        self.0.recorder().phase.take().unwrap_or_default()
    }
}

impl TraceState {
    /// A thread that has panicked leaves a trace that is valid up to then.
    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, mut input: impl BufRead) {
        loop {
            let Ok(bytes @ [_, ..]) = input.fill_buf() else { return };
            let mut recorder = self.recorder();
            // A line may continue in the next piece.
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if recorder.phase.is_some() {
                let lines = bytes[..whole].split(|byte| *byte == b'\n');
                lines.filter_map(Access::read).for_each(|access| recorder.record(access));
            }
            drop(recorder);
            self.bytes.fetch_add(whole as u64, Ordering::Relaxed);
            if whole > 0 {
                input.consume(whole);
                continue;
            }
            // The buffer has the beginning of a line, and the pipe the rest.
            let mut line = Vec::new();
            if input.read_until(b'\n', &mut line).is_err() {
                return;
            }
            let mut recorder = self.recorder();
            if recorder.phase.is_some() {
                Access::read(line.trim_ascii_end()).into_iter().for_each(|access| recorder.record(access));
            }
        }
    }
}

impl Recorder {
    fn record(&mut self, access: Access) {
        match (access, &self.symbols, &mut self.phase) {
            (Access::Instruction(at), Some(symbols), _) => {
                let own = *self.known.entry(at).or_insert_with(|| symbols.own(at));
                self.last = own.or(self.last);
            }
            (Access::Store(at, length), Some(symbols), Some(phase)) => {
                let name = self.last.map_or("no function of this program", |number| symbols.name(number));
                phase.write(at, length, name);
            }
            _ => {}
        }
    }
}

impl Phase {
    fn write(&mut self, at: u64, length: u64, name: &str) {
        for line in at / LINE..=(at + length.max(1) - 1) / LINE {
            let names = self.written.entry(line).or_default();
            if !names.contains(name) {
                names.insert(name.to_owned());
            }
        }
    }

    pub(super) fn has_lines(&self) -> bool {
        !self.written.is_empty()
    }

    /// Returns the lines that were written in both phases, but not in the third: their addresses, and the functions that wrote
    /// to them.
    pub(super) fn written_by_both(&self, other: &Self, without: &Self) -> Vec<String> {
        let has = |phase: &Self, line: &u64| phase.written.contains_key(line);
        let is_common = |(line, _): &(&u64, &BTreeSet<String>)| has(other, line) && !has(without, line);
        let mut common: Vec<_> = self.written.iter().filter(is_common).collect();
        common.sort_unstable_by_key(|(line, _)| **line);
        let told = |(line, names): (&u64, &BTreeSet<String>)| {
            format!("{:#x}: {}", line * LINE, names.iter().cloned().collect::<Vec<_>>().join(", "))
        };
        common.into_iter().map(told).collect()
    }
}

impl Access {
    fn read(line: &[u8]) -> Option<Self> {
        let (kind, rest) = line.split_at_checked(3)?;
        let rest = std::str::from_utf8(rest).ok()?;
        let (address, length) = rest.split_once(',')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        match kind {
            b"I  " => Some(Self::Instruction(address)),
            b" L " => Some(Self::Load),
            b" S " | b" M " => Some(Self::Store(address, length.trim_end().parse().ok()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tool_are_read() {
        for (line, expected) in [
            ("I  04001000,3", Some(Access::Instruction(0x0400_1000))),
            (" S 1ffeffe7e8,8", Some(Access::Store(0x1f_feff_e7e8, 8))),
            (" M 0421c7cc,4", Some(Access::Store(0x0421_c7cc, 4))),
            (" L 04222ac4,4", Some(Access::Load)),
            ("==1== Lackey, an example Valgrind tool", None),
            ("", None),
        ] {
            assert_eq!(Access::read(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn a_line_is_shared_if_both_write_any_of_its_bytes() {
        let (mut one, mut other) = (Phase::default(), Phase::default());
        one.write(0x1000, 8, "lock");
        one.write(0x2038, 16, "count");
        other.write(0x103f, 1, "lock");
        other.write(0x2040, 8, "count");
        other.write(0x3000, 8, "own");
        let mut idle = Phase::default();
        assert_eq!(one.written_by_both(&other, &idle), ["0x1000: lock", "0x2040: count"]);
        idle.write(0x1000, 1, "another thread");
        assert_eq!(one.written_by_both(&other, &idle), ["0x2040: count"]);
    }
}
