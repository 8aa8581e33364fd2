//! The seed report's table of counters under its cache, with four layouts over the processor's cache lines: aligned,
//! misaligned, padded and sharded. The proxy is not involved. Each measurement is a separate process, since the memory
//! layout differs between processes, but not within one.

use std::ffi::OsStr;

use serde::{Deserialize, Serialize};

use super::seed;
use crate::cache_lines::Layout;
use crate::child::ChildProcess;
use crate::experiments::LARDER as OURS;
use crate::findings::{Finding, Grid, Ruling};
use crate::size::Size;
use crate::{Bench, Bound, ClaimKind, Halt, Interval, Journal, Samples};

/// The factor by which a shard for each thread may be slower than padding to count as equal.
const SAME: f64 = 1.1;
/// Numbers of threads. More threads than cores would take turns and share no cache lines.
const THREADS: [usize; 2] = [1, 2];

/// The time of one operation, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OperationTime {
    layout: String,
    threads: usize,
    repetition: u64,
    nanoseconds: f64,
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let (operations, repetitions) = match bench.scale.size {
        Size::Smoke => ("1000", 1),
        Size::Quick => ("1000000", 20),
        Size::Full => ("5000000", 20),
    };
    let layouts =
        |at| THREADS.into_iter().flat_map(move |threads| Layout::ALL.map(|layout| (layout, threads, at)));
    let runs: Vec<(Layout, usize, u64)> = (0..repetitions).flat_map(layouts).collect();
    bench.measure(
        &runs,
        |(layout, threads, at)| format!("table/{threads}/{}/{at:02}", layout.name()),
        |bench, &(layout, threads, repetition)| {
            let number = threads.to_string();
            let words =
                ["--layout", layout.name(), "--threads", &number, "--operations", operations].map(OsStr::new);
            let running = ChildProcess::start(&bench.lab, "larder-lab live lines", &words, |_| true)?;
            let nanoseconds = running.said().parse().map_err(|_| running.ended("it printed no number"))?;
            Ok(OperationTime { layout: layout.name().to_owned(), threads, repetition, nanoseconds })
        },
    )
}

/// Returns the claims, and the table of all layouts.
pub(super) fn conclude(journal: &Journal) -> (Vec<Finding>, Grid) {
    let timed: Vec<OperationTime> = journal.all("table/");
    let title = "Counting in a table, by layout over cache lines";
    let columns =
        ["layout", "threads", "ns of processor time for an operation", "95% to either side", "processes"];
    let mut grid = Grid::new(title, &columns);
    for threads in THREADS {
        for layout in Layout::ALL {
            let of = timed.iter().filter(|one| one.layout == layout.name() && one.threads == threads);
            let values: Vec<f64> = of.map(|one| one.nanoseconds).collect();
            let Some(interval) = Interval::of(&values) else { continue };
            let [threads, count] = [threads, interval.count].map(|number| number.to_string());
            let mean = format!("{:.2}", interval.mean);
            grid.row([layout.name().to_owned(), threads, mean, interval.margin_cell(2), count]);
        }
    }
    (vec![aligned(&timed), padded(&timed), sharded(&timed)], grid)
}

/// Returns the ratio of an operation's time in one layout to that in another, by the number of threads.
fn times(timed: &[OperationTime], (one, other): (Layout, Layout), numbers: &[usize]) -> Samples {
    let mut samples = Samples::default();
    for threads in numbers {
        let of = |layout: Layout, at: u64| {
            let is_it = |it: &&OperationTime| {
                it.layout == layout.name() && it.threads == *threads && it.repetition == at
            };
            timed.iter().find(is_it).map(|it| it.nanoseconds)
        };
        let ratio = |it: &OperationTime| Some((it.repetition, it.nanoseconds / of(other, it.repetition)?));
        let ones = timed.iter().filter(|it| it.layout == one.name() && it.threads == *threads);
        samples.add(&format!("{threads} threads").replace("1 threads", "1 thread"), ones.filter_map(ratio));
    }
    samples
}

const WHAT: &str = "Each thread counts in its own entries of 16 bytes, in a table that fits the processor's first-level cache; \
 each measurement is a process. Only the CPU time of the table is measured.";

fn aligned(timed: &[OperationTime]) -> Finding {
    let samples = times(timed, (Layout::Misaligned, Layout::Aligned), &THREADS);
    let claim = "A table whose entries are aligned to cache lines is faster than one whose entries are not";
    let decided = (samples, Bound::Above(1.0));
    let unit = (1.0, "times as long when misaligned");
    let source = seed("A cache aligned hash table improves efficiency by ~ 9%.");
    Finding::sampled(claim, source, ClaimKind::DependsOn("number of threads"), decided, unit)
        .saying(WHAT)
        .because(&[Ruling::Holds], "An entry across two lines needs both.")
        .because(
            &[Ruling::Fails, Ruling::Depends],
            "The processor reads both halves of an entry across two lines without a measurable delay if both lines are in its \
             first-level cache.",
        )
}

fn padded(timed: &[OperationTime]) -> Finding {
    let samples = times(timed, (Layout::Aligned, Layout::Padded), &THREADS[1..]);
    let claim =
        "With two threads, entries that share no cache line (padded) are faster than aligned ones that do";
    let decided = (samples, Bound::Above(1.0));
    Finding::sampled(claim, OURS, ClaimKind::OnAverage, decided, (1.0, "times as long when lines are shared"))
        .saying(WHAT)
        .because(
            &[Ruling::Holds],
            "If two threads write to one line, it moves between the cores at each write, although neither thread needs the \
             other's data (false sharing).",
        )
        .because(&[Ruling::Fails, Ruling::Open], "Two threads on one core share its first-level cache, so no line moves.")
}

fn sharded(timed: &[OperationTime]) -> Finding {
    let samples = times(timed, (Layout::Sharded, Layout::Padded), &THREADS[1..]);
    let claim = format!(
        "With two threads, a shard for each thread takes at most {SAME} times the time of padding, in an eighth of the memory"
    );
    let decided = (samples, Bound::Below(SAME));
    Finding::sampled(claim, OURS, ClaimKind::OnAverage, decided, (1.0, "times the time of padding"))
        .saying(WHAT)
}
