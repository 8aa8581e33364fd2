//! The report's table under its cache, aligned to the processor's cache lines or not: entries of 16 bytes, probed five in
//! a row, and the same with one byte more.
//!
//! A micro-benchmark of one thread: no proxy takes part.

use std::hint::black_box;

use rand::RngExt;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use crate::live::bench::Size;
use crate::live::findings::{Finding, Grid};
use crate::live::machine::spent_by_thread;
use crate::live::{Bench, Bound, Halt, Interval, Journal, Kind, Samples};
use crate::workload::Random;

use super::REPORT;

/// Entries that are looked at for one hash.
const PROBED: usize = 5;
const LAYOUTS: [&str; 2] = ["aligned", "misaligned"];

/// What one operation took, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Timed {
    layout: String,
    repetition: u64,
    nanoseconds: f64,
}

/// A place of the table: a hash, or 0 while it is free, and how often that was asked for.
trait Entry: Copy + Default {
    fn hash(&self) -> u64;
    fn uses(&self) -> u32;
    fn put(&mut self, hash: u64, uses: u32);
}

#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
struct Aligned {
    hash: u64,
    uses: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C, packed)]
struct Misaligned {
    hash: u64,
    uses: u32,
    unused: [u8; 5],
}

impl Entry for Aligned {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn uses(&self) -> u32 {
        self.uses
    }

    fn put(&mut self, hash: u64, uses: u32) {
        (self.hash, self.uses) = (hash, uses);
    }
}

impl Entry for Misaligned {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn uses(&self) -> u32 {
        self.uses
    }

    fn put(&mut self, hash: u64, uses: u32) {
        *self = Self { hash, uses, unused: [0; 5] };
    }
}

/// Looks `hash` up, and puts it where it is not: in a free place, or instead of the one least used.
fn ask<E: Entry>(table: &mut [E], hash: u64) -> bool {
    let buckets = table.len() / PROBED;
    let begin = hash as usize % buckets * PROBED;
    let probed = &mut table[begin..begin + PROBED];
    if let Some(entry) = probed.iter_mut().find(|entry| entry.hash() == hash) {
        let uses = entry.uses() + 1;
        entry.put(hash, uses);
        return true;
    }
    if let Some(victim) =
        probed.iter_mut().min_by_key(|entry| if entry.hash() == 0 { 0 } else { entry.uses() })
    {
        victim.put(hash, 1);
    }
    false
}

fn time<E: Entry>(entries: usize, hashes: &[u64]) -> f64 {
    let mut table = vec![E::default(); entries];
    // Once for the system to give the memory, once for the clock, which is this thread's: others may want the core.
    hashes.iter().for_each(|&hash| _ = ask(&mut table, hash));
    let before = spent_by_thread();
    let hits = hashes.iter().filter(|&&hash| ask(&mut table, hash)).count();
    let took = spent_by_thread().saturating_sub(before);
    black_box(hits);
    took.as_secs_f64() * 1e9 / hashes.len() as f64
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let (entries, asked, repetitions) = match bench.scale.size {
        Size::Smoke => (5_000, 1_000, 1),
        Size::Quick => (5_000_000, 1_000_000, 5),
        Size::Full => (5_000_000, 5_000_000, 15),
    };
    let runs: Vec<_> = (0..repetitions).flat_map(|at| LAYOUTS.map(|layout| (layout, at))).collect();
    bench.measure(
        &runs,
        |(layout, at)| format!("table/{layout}/{at:02}"),
        |bench, &(layout, repetition)| {
            let mut random = Random::seed_from_u64(bench.scale.seed ^ repetition);
            let hashes: Vec<u64> = (0..asked).map(|_| random.random_range(1..u64::MAX)).collect();
            let nanoseconds = match layout {
                "aligned" => time::<Aligned>(entries, &hashes),
                _ => time::<Misaligned>(entries, &hashes),
            };
            Ok(Timed { layout: layout.to_owned(), repetition, nanoseconds })
        },
    )
}

/// The claim, and the table of both.
pub(super) fn conclude(journal: &Journal) -> (Finding, Grid) {
    let timed: Vec<Timed> = journal.all("table/");
    let of = |layout: &str| {
        timed.iter().filter(|one| one.layout == layout).map(|one| one.nanoseconds).collect::<Vec<_>>()
    };
    let pairs = of("aligned").into_iter().zip(of("misaligned"));
    let mut samples = Samples::default();
    samples.add("one thread", (0..).zip(pairs.map(|(aligned, misaligned)| misaligned / aligned - 1.0)));
    let mut grid =
        Grid::new("The table, aligned and not", &["layout", "ns for a look-up", "95% to either side"]);
    for layout in LAYOUTS {
        if let Some(interval) = Interval::of(&of(layout)) {
            grid.row([layout.to_owned(), format!("{:.2}", interval.mean), interval.margin_cell(2)]);
        }
    }
    let claim = "A table whose entries are aligned is faster than one whose entries are not";
    let unit = (100.0, "% of time more when not aligned");
    let decided = (samples, Bound::Above(0.0));
    let finding = Finding::sampled(claim, REPORT, Kind::OnAverage, decided, unit).saying(
        "Entries of 16 bytes against 17, five probed in a row, in a table larger than the processor's caches. The seed report saw \
         9% in the efficiency of its whole server; here only the table is timed.",
    );
    (finding, grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_find_the_same() {
        let mut random = Random::seed_from_u64(1);
        let hashes: Vec<u64> = (0..5_000).map(|_| random.random_range(1..300)).collect();
        let found =
            |mut ask: Box<dyn FnMut(u64) -> bool>| hashes.iter().map(|&hash| ask(hash)).collect::<Vec<_>>();
        let (mut even, mut odd) = (vec![Aligned::default(); 100], vec![Misaligned::default(); 100]);
        let even = found(Box::new(move |hash| ask(&mut even, hash)));
        assert_eq!(even, found(Box::new(move |hash| ask(&mut odd, hash))));
        assert!(even.contains(&true) && even.contains(&false));
        assert_eq!((size_of::<Aligned>(), size_of::<Misaligned>()), (16, 17));
    }
}
