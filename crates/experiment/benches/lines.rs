//! The time of counting in a table when threads share cache lines, and when they do not. Run with
//! `cargo bench -p larder-experiment --bench lines`.
//!
//! Nanoseconds of processor time for each operation: the minimum and the median of several runs, with one thread and
//! with one thread per core. `src/cache_lines.rs` describes the layouts.

use larder_experiment::cache_lines::{Layout, time};

const OPERATIONS: u32 = 5_000_000;
const RUNS: usize = 9;

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("layout      threads   least ns   median ns");
    for threads in if cores > 1 { vec![1, cores] } else { vec![1] } {
        for layout in Layout::ALL {
            let mut runs: Vec<f64> = (0..RUNS).map(|_| time(layout, threads, OPERATIONS)).collect();
            runs.sort_by(f64::total_cmp);
            println!("{:<10} {threads:>8} {:>10.2} {:>11.2}", layout.name(), runs[0], runs[RUNS / 2]);
        }
    }
}
