//! The memory of both processes of an upgrade, as the system counts it: at most 1.15 times that of one, and 32 MiB.
//!
//! `LARDER_BODY=1024 LARDER_FILL=1000000000` measures that with other sizes, of bodies and of all bodies together.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use larder_testkit::{Answer, Larder, Origin, children, eventually, site};

/// Bytes of large bodies, which are in memory files from the beginning, and of one of them.
const LARGE: [usize; 2] = [16 << 20, 100 << 10];
/// The most bytes beside the body.
const HEAD: usize = 512;
/// Clients that fill the cache.
const CLIENTS: usize = 4;
/// Samples of both processes while the old one still has a client.
const SAMPLES: usize = 20;

/// Returns the bytes of memory that processes have together, each page counted once. Ended ones have none.
fn footprint(processes: &[u32]) -> u64 {
    let mut files = BTreeMap::new();
    let (mut private, mut shared) = (0, 0);
    for process in processes {
        let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
        let figure = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
            line.map_or(0, |kilobytes| kilobytes.parse::<u64>().expect("a number") << 10)
        };
        private += figure("Pss_Anon:");
        shared += figure("Pss_Shmem:");
        // Pages of memory files that no process has mapped are memory, too.
        for file in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
            let is_memory = |name: std::path::PathBuf| name.to_string_lossy().starts_with("/memfd:");
            if fs::read_link(file.path()).is_ok_and(is_memory)
                && let Ok(file) = fs::metadata(file.path())
            {
                files.insert(file.ino(), file.blocks() * 512);
            }
        }
    }
    private + shared.max(files.values().sum())
}

/// Requests `count` pages called `kind` once, by several clients.
fn fill(larder: &Larder, kind: &str, count: usize) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = larder.client();
                let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
                for number in numbers.take_while(|number| *number < count) {
                    assert_eq!(client.ask(&format!("GET /{kind}/{number}")).status, 200);
                }
            });
        }
    });
    larder.settle();
}

#[test]
fn both_processes_take_little_more_memory_than_one() {
    let given = |name: &str, usual: usize| {
        std::env::var(name).map_or(usual, |number| number.parse().expect("a number of bytes"))
    };
    let (body, bytes) = (given("LARDER_BODY", 16 << 10), given("LARDER_FILL", 128 << 20));
    let (gate, origin) = Origin::gated(move |seen, held| {
        let of_kind = if seen.target.starts_with("/small") { body } else { LARGE[1] };
        let stored = Answer::with_body("200 OK\nCache-Control: max-age=3600", &vec![b'x'; of_kind]);
        match &*seen.target {
            "/held" => {
                Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha").then_wait(held).then("lf")
            }
            _ => stored,
        }
    });
    let objects = bytes / body + LARGE[0] / LARGE[1];
    let size = 2 * (bytes + LARGE[0]) + HEAD * objects;
    let memory = format!("[memory]\nsize = {size}\n[timeouts]\ndrain = '120s'\n");
    let mut larder = Larder::start(&format!("{memory}{}", site(&[&origin], "")));
    fill(&larder, "small", bytes / body);
    fill(&larder, "large", LARGE[0] / LARGE[1]);
    let (before, mut before_that) = (footprint(&[larder.id()]), None);
    assert!(before > bytes as u64, "{before}");
    let limit = before / 100 * 115 + (32 << 20);
    // The later ones begin while contents still move back from where the first one has put them.
    for number in 0..3 {
        gate.close();
        let mut held = larder.client();
        held.send("GET /held");
        assert_eq!(held.head().status, 200);
        let old = larder.id();
        let most = sampled(&[before_that, Some(old)].into_iter().flatten().collect::<Vec<_>>(), |samples| {
            let said = larder.upgrade(&[]).unwrap();
            assert!(said.contains(&format!("kept: {objects} objects")), "{said}");
            let enough = samples.load(Ordering::Relaxed) + SAMPLES;
            eventually("samples", || (samples.load(Ordering::Relaxed) > enough).then_some(()));
            gate.open();
            assert_eq!(held.exactly(4), b"half");
            larder.wait_for_predecessor();
        });
        println!("upgrade {number}: one process {before} bytes, both at most {most}, the limit {limit}");
        assert!(most <= limit, "{most} bytes, not at most {limit}; before {before}");
        assert!(larder.get("/small/0").is_hit());
        before_that = Some(old);
    }
    let most = sampled(&[larder.id()], |_| {
        let one = || (footprint(&[larder.id()]) <= before / 100 * 115).then_some(());
        eventually("the memory of one process", one);
    });
    assert!(most <= limit, "{most} bytes, not at most {limit}; before {before}");
}

/// Returns the most memory of `processes` and the successor of the last one while `run` runs, which is told the number of
/// samples.
fn sampled(processes: &[u32], run: impl FnOnce(&AtomicUsize)) -> u64 {
    let (ends, samples) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let (mut all, mut most) = (processes.to_vec(), 0);
            while !ends.load(Ordering::Relaxed) {
                for child in processes.last().into_iter().flat_map(|last| children(*last)) {
                    let child = child.as_raw_nonzero().get().unsigned_abs();
                    if !all.contains(&child) {
                        all.push(child);
                    }
                }
                most = most.max(footprint(&all));
                samples.fetch_add(1, Ordering::Relaxed);
            }
            most
        });
        // Also when it panics, or the sampler would not end.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&samples)));
        ends.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sampler.join().expect("no panic")
    })
}
