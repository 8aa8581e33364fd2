//! A hash table that several threads read and change, under the locks that the seed report discusses: one mutex, one
//! read-write lock, a lock for each of 8, 64 and 256 partitions, and one for each entry. Run with
//! `cargo bench -p larder-experiment --bench locks`.
//!
//! Half of all accesses are reads, as in the report; keys are uniform. The figures are nanoseconds of processor time for an
//! access, of all threads together: the median of several runs. Time in which threads sleep is not in it, but other work of the
//! machine changes it little. `packed` partitions lie beside each other, so that several locks share a cache line; `aligned`
//! ones have lines of their own. More threads than cores show what happens if a thread with a lock has to wait for a core.
//!
//! The report's own figures, for comparison: "A cache aligned hash table improves efficiency by ~ 9%", and Figure 3, in
//! seconds, of a linked list with 1, 2, 4 and 8 threads. Its future work is a different lock for each partition.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Barrier, Mutex, RwLock};
use std::thread;

use rustix::time::{ClockId, clock_gettime};

const KEYS: u64 = 1 << 14;
const ACCESSES: u64 = 1_000_000;
const RUNS: usize = 5;
const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const FIGURE_3: &str = "\
seed report, Figure 3 (seconds)   threads 1      2      4      8
Read-Write Locks                       2.48   4.97   4.69   4.71
One Mutex for Entire List              2.50   5.13   5.04   5.11
One Mutex per Node                    12.00  29.60  17.00  12.00";

type Map = HashMap<u64, u64>;

/// A part of the table under its lock. A lock is poisoned only if a thread has panicked, which ends the bench.
trait Part: Default + Sync {
    fn read(&self, key: u64) -> u64;
    fn add(&self, key: u64);
}

impl Part for Mutex<Map> {
    fn read(&self, key: u64) -> u64 {
        self.lock().expect("no panic").get(&key).copied().unwrap_or_default()
    }

    fn add(&self, key: u64) {
        *self.lock().expect("no panic").entry(key).or_default() += 1;
    }
}

impl Part for RwLock<Map> {
    fn read(&self, key: u64) -> u64 {
        self.read().expect("no panic").get(&key).copied().unwrap_or_default()
    }

    fn add(&self, key: u64) {
        *self.write().expect("no panic").entry(key).or_default() += 1;
    }
}

/// One entry under its lock: the table has as many parts as keys.
impl Part for Mutex<u64> {
    fn read(&self, _key: u64) -> u64 {
        *self.lock().expect("no panic")
    }

    fn add(&self, _key: u64) {
        *self.lock().expect("no panic") += 1;
    }
}

/// A part on cache lines of its own; processors fetch two at once.
#[derive(Default)]
#[repr(align(128))]
struct Aligned<P>(P);

impl<P: Part> Part for Aligned<P> {
    fn read(&self, key: u64) -> u64 {
        self.0.read(key)
    }

    fn add(&self, key: u64) {
        self.0.add(key);
    }
}

/// Returns the processor time of this thread so far, in nanoseconds.
fn used() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the nanoseconds of processor time for an access.
fn run<P: Part>(parts: u64, threads: usize) -> f64 {
    let table: Vec<P> = (0..parts).map(|_| P::default()).collect();
    (0..KEYS).for_each(|key| table[(key % parts) as usize].add(key));
    let (barrier, each) = (Barrier::new(threads), ACCESSES / threads as u64);
    let access = |seed: u64| {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        barrier.wait();
        let before = used();
        for _ in 0..each {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = random % KEYS;
            let part = &table[(key % parts) as usize];
            match random >> 63 {
                0 => _ = black_box(part.read(key)),
                _ => part.add(key),
            }
        }
        used() - before
    };
    thread::scope(|scope| {
        let access = &access;
        let running: Vec<_> = (1..=threads as u64).map(|seed| scope.spawn(move || access(seed))).collect();
        let used: u64 = running.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        used as f64 / (each * threads as u64) as f64
    })
}

fn row<P: Part>(name: &str, parts: u64) {
    print!("{name:<26}");
    for threads in THREADS {
        let mut runs: Vec<f64> = (0..RUNS).map(|_| run::<P>(parts, threads)).collect();
        runs.sort_by(f64::total_cmp);
        print!(" {:>7.0}", runs[RUNS / 2]);
    }
    println!();
}

fn main() {
    println!(
        "{} cores; ns of processor time for an access",
        thread::available_parallelism().map_or(1, usize::from)
    );
    print!("{:<26}", "threads");
    THREADS.iter().for_each(|threads| print!(" {threads:>7}"));
    println!();
    row::<Mutex<Map>>("one mutex", 1);
    row::<RwLock<Map>>("one read-write lock", 1);
    for parts in [8, 64, 256] {
        row::<Mutex<Map>>(&format!("{parts} mutexes, packed"), parts);
        row::<Aligned<Mutex<Map>>>(&format!("{parts} mutexes, aligned"), parts);
        row::<RwLock<Map>>(&format!("{parts} read-write, packed"), parts);
        row::<Aligned<RwLock<Map>>>(&format!("{parts} read-write, aligned"), parts);
    }
    row::<Mutex<u64>>("a mutex for each entry", KEYS);
    row::<Aligned<Mutex<u64>>>("the same, aligned", KEYS);
    println!("\n{FIGURE_3}");
}
