//! A table of counters that several threads use at once, with four layouts over the processor's cache lines.
//!
//! Each thread counts in its own entries of 16 bytes: a hash and a number of uses. So threads never wait for each
//! other's data. They are slower only if two threads write to one cache line (false sharing), or if an entry spans two
//! lines. The time is the thread's processor time, which includes waiting for cache lines, but not for other programs.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use larder_load::spent_by_thread as spent;
use larder_words::named;

/// Bytes of a cache line of common processors. They fetch two lines at once.
const LINE: usize = 64;
const PAIR: usize = 2 * LINE;
const WORD: usize = size_of::<AtomicU64>();
/// Words of an entry.
const ENTRY: usize = 2;
/// Entries of each thread: so few that they stay in the L1 cache.
const ENTRIES: usize = 64;

named! {
    /// The placement of entries.
    pub enum Layout, name {
        /// Entries of all threads in turn, aligned: four in a line.
        Aligned = "aligned",
        /// The same, shifted by half an entry: one of four entries spans two lines.
        Misaligned = "misaligned",
        /// Each entry in separate lines.
        Padded = "padded",
        /// The entries of each thread are adjacent.
        Sharded = "sharded",
    }
}

impl Layout {
    /// Returns the first word of a thread's entry, counted from the start of a line.
    fn place(self, threads: usize, thread: usize, entry: usize) -> usize {
        let in_turn = entry * threads + thread;
        match self {
            Self::Aligned => in_turn * ENTRY,
            Self::Misaligned => in_turn * ENTRY + 1,
            Self::Padded => in_turn * PAIR / WORD,
            Self::Sharded => (thread * ENTRIES + entry) * ENTRY + thread * PAIR / WORD,
        }
    }
}

/// Counts in a table from `threads` threads, each with `operations` operations. Returns the processor time of one
/// operation, in nanoseconds.
pub fn time(layout: Layout, threads: usize, operations: u32) -> f64 {
    let threads = threads.max(1);
    let (table, begin) = table(threads);
    let barrier = Barrier::new(threads);
    let all: Duration = thread::scope(|scope| {
        let run = |thread| {
            let (table, barrier) = (&table[begin..], &barrier);
            scope.spawn(move || {
                let places: Vec<usize> =
                    (0..ENTRIES).map(|entry| layout.place(threads, thread, entry)).collect();
                barrier.wait();
                count(table, &places, operations)
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        // A counting thread cannot panic.
        running.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    let each = f64::from(operations.max(1)) * threads as f64;
    all.as_secs_f64() * 1e9 / each
}

/// Returns enough words for any layout, and the position of the first line in them.
fn table(threads: usize) -> (Vec<AtomicU64>, usize) {
    let words = (ENTRIES * threads + threads + 2) * PAIR / WORD;
    let table: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
    let begin = (0..PAIR / WORD).find(|at| (&raw const table[*at]).addr().is_multiple_of(PAIR));
    (table, begin.unwrap_or(0))
}

fn count(table: &[AtomicU64], places: &[usize], operations: u32) -> Duration {
    let before = spent();
    let mut hash = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..operations {
        // xorshift: any distribution over the entries is sufficient.
        hash ^= hash << 13;
        hash ^= hash >> 7;
        hash ^= hash << 17;
        let at = places[hash as usize % places.len()];
        table[at].store(hash, Ordering::Relaxed);
        table[at + 1].fetch_add(1, Ordering::Relaxed);
    }
    spent().saturating_sub(before)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Returns the lines of each thread's entries.
    fn lines(layout: Layout, threads: usize) -> Vec<HashSet<usize>> {
        let of = |thread| {
            let places = (0..ENTRIES).map(|entry| layout.place(threads, thread, entry));
            places.flat_map(|at| [at * WORD / LINE, (at + 1) * WORD / LINE]).collect()
        };
        (0..threads).map(of).collect()
    }

    #[test]
    fn threads_share_lines_only_where_the_layout_says_so() {
        for (layout, shares) in [
            (Layout::Aligned, true),
            (Layout::Misaligned, true),
            (Layout::Padded, false),
            (Layout::Sharded, false),
        ] {
            let lines = lines(layout, 2);
            assert_eq!(!lines[0].is_disjoint(&lines[1]), shares, "{layout:?}");
        }
    }

    #[test]
    fn one_misaligned_entry_of_four_lies_in_two_lines() {
        let split = |layout: Layout| {
            let places = (0..ENTRIES).map(|entry| layout.place(1, 0, entry));
            places.filter(|at| at * WORD / LINE != (at + 1) * WORD / LINE).count()
        };
        assert_eq!(Layout::ALL.map(split), [0, ENTRIES / 4, 0, 0]);
    }

    #[test]
    fn threads_share_no_entry_of_the_table_in_any_layout() {
        for layout in Layout::ALL {
            let all: Vec<usize> = (0..3)
                .flat_map(|thread| (0..ENTRIES).map(move |entry| layout.place(3, thread, entry)))
                .collect();
            let distinct: HashSet<_> = all.iter().flat_map(|at| [*at, at + 1]).collect();
            let (table, begin) = table(3);
            assert_eq!(distinct.len(), 3 * ENTRIES * ENTRY, "{layout:?}");
            assert!(all.iter().all(|at| begin + at + 1 < table.len()), "{layout:?}");
            assert!(time(layout, 3, 1_000) > 0.0);
        }
    }
}
