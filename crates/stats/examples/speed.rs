//! Measures the cost of recording: nanoseconds for a call, from one thread and from four, and for a request that is
//! summed; the share of a core for writing the sums of two busy threads; and rows a second that a database takes. The
//! URL of the database is the argument; without one, it is an SQLite file in the temporary folder.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use larder_stats::{BatchSums, Keep, Mark, Measures, Options, Recorder, Transaction};

fn main() {
    let file = std::env::temp_dir().join(format!("larder-speed-{}.db", std::process::id()));
    let given = std::env::args().nth(1);
    let url = given.clone().unwrap_or_else(|| format!("sqlite:{}", file.display()));
    // More requests than the inlet accepts: the cost of a full inlet is shown as well.
    for (what, threads, pause) in
        [("one thread", 1, true), ("four threads", 4, true), ("beyond the limit", 1, false)]
    {
        let recorder = open(&url, Options::default());
        let each = calls(&recorder, threads, pause);
        let figures = recorder.close(Duration::from_secs(60));
        println!("record, {what}: {each:.0} ns a call, {} of {} dropped", figures.dropped, figures.recorded);
    }
    adding(&url);
    summing(&url);
    let recorder = open(&url, Options { rate: u32::MAX, queue: 1 << 20, ..Options::default() });
    let begun = Instant::now();
    for number in 0..200_000_u64 {
        if number.is_multiple_of(1_000) {
            thread::sleep(Duration::from_millis(1));
        }
        while recorder.figures().queued > 60_000 {
            thread::sleep(Duration::from_millis(1));
        }
        recorder.record(transaction(number));
    }
    let figures = recorder.close(Duration::from_secs(600));
    let rate = figures.rows as f64 / begun.elapsed().as_secs_f64();
    println!("{url}: {rate:.0} rows a second, {} dropped, {} failures", figures.dropped, figures.failed);
    if given.is_none() {
        for ending in ["", "-wal", "-shm"] {
            // SQLite has removed the last two if it closed cleanly.
            let _ = std::fs::remove_file(format!("{}{ending}", file.display()));
        }
    }
}

fn open(url: &str, options: Options) -> Recorder {
    let keep = Keep { every: Duration::from_secs(3600), ..Keep::default() };
    Recorder::open(url, Options { keep, ..options }).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    })
}

/// Returns the mean nanoseconds of a call. With `pause`, the writing thread has time between bursts.
fn calls(recorder: &Recorder, threads: usize, pause: bool) -> f64 {
    const BURST: usize = 2_000;
    const BURSTS: usize = 50;
    let one = || {
        let mut spent = Duration::ZERO;
        for burst in 0..BURSTS {
            let rows = (0..BURST).map(|at| transaction((burst * BURST + at) as u64)).collect::<Vec<_>>();
            let begun = Instant::now();
            rows.into_iter().for_each(|row| recorder.record(black_box(row)));
            spent += begun.elapsed();
            if pause {
                thread::sleep(Duration::from_millis(20));
            }
        }
        spent.as_nanos() as f64 / (BURST * BURSTS) as f64
    };
    thread::scope(|scope| {
        let all = (0..threads).map(|_| scope.spawn(one)).collect::<Vec<_>>();
        all.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).sum::<f64>() / threads as f64
    })
}

/// Measures the CPU time of adding a hit to a sum, on a thousand URLs in turn, in groups of 16 as a proxy does.
fn adding(url: &str) {
    const GROUPS: u64 = 2_000_000;
    let recorder = open(url, Options { rate: 1_000, ..Options::default() });
    let (tally, before) = (recorder.tally(), cpu());
    for group in 0..GROUPS {
        let mut sheet = tally.sheet();
        for at in 0..16 {
            // The second is far in the future, so that the writing thread does not take the sums.
            hit(&mut sheet, &recorder, u32::MAX, black_box((group * 16 + at) * 617 % 1_000));
        }
    }
    let nanos = (cpu() - before).as_nanos() as f64 / (GROUPS * 16) as f64;
    println!("add: {nanos:.1} ns a hit");
    recorder.close(Duration::ZERO);
}

/// Measures two threads that add hits on a thousand URLs, 75,000 a second each, in groups of 16 as a proxy does.
fn summing(url: &str) {
    const RATE: u32 = 75_000;
    const SECONDS: u32 = 10;
    let recorder = open(url, Options::default());
    let (begun, before) = (Instant::now(), cpu());
    let one = || {
        let tally = recorder.tally();
        let mut spent = Duration::ZERO;
        for turn in 0..SECONDS * 1_000 {
            thread::sleep(
                (begun + Duration::from_millis(turn.into())).saturating_duration_since(Instant::now()),
            );
            let hits = (0..RATE / 1_000).map(|at| u64::from(turn * (RATE / 1_000) + at) * 617 % 1_000);
            let (hits, second) = (hits.collect::<Vec<_>>(), turn / 1_000);
            let begun = Instant::now();
            for group in hits.chunks(16) {
                let mut sheet = tally.sheet();
                group.iter().for_each(|page| hit(&mut sheet, &recorder, second, *page));
            }
            spent += begun.elapsed();
        }
        spent
    };
    let spent: Duration = thread::scope(|scope| {
        [scope.spawn(one), scope.spawn(one)].map(|thread| thread.join().unwrap_or_default()).iter().sum()
    });
    let share = (cpu() - before).saturating_sub(spent).as_secs_f64() / begun.elapsed().as_secs_f64();
    let figures = recorder.close(Duration::from_secs(60));
    let nanos = spent.as_nanos() as f64 / f64::from(2 * RATE * SECONDS);
    println!(
        "sum: {nanos:.1} ns a hit, rows and all; everything else {:.1}% of a core, {} rows, {} of {} dropped",
        share * 100.0,
        figures.rows,
        figures.dropped,
        figures.recorded
    );
}

fn hit(sheet: &mut BatchSums, recorder: &Recorder, second: u32, page: u64) {
    let service = sheet.wants_time(second).then_some(Duration::from_micros(1));
    if sheet.takes_apart(second) {
        return recorder.record(transaction(page));
    }
    let mark = Mark { second, url: page.wrapping_mul(0x9e37_79b9_7f4a_7c15), words: 7, client: 1 };
    let of = Measures { bytes: 1_024, service, origin: None, age: Some(60) };
    if !sheet.add(&mark, &of) {
        sheet.insert(mark, &of, transaction(page));
    }
}

/// Returns the user and system time of this process.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
    let ticks = |at: usize| fields.as_ref()?.get(at)?.parse::<u64>().ok();
    // A tick is a hundredth of a second.
    Duration::from_millis(10 * (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)))
}

/// Returns a transaction; one in four is for a unique page.
fn transaction(number: u64) -> Transaction {
    let page = if number.is_multiple_of(4) { number } else { number % 100 };
    Transaction {
        time: 1_700_000_000_000 + number / 5,
        door: "http".into(),
        site: "docs.example".into(),
        route: "guide".into(),
        method: "GET".into(),
        url: format!("http://docs.example/guide/pages/{page}.html"),
        status: 200,
        outcome: "hit".into(),
        reason: "fresh".into(),
        bytes: 1_024,
        service_us: 40,
        origin_us: None,
        age: Some(60),
        tier: "memory".into(),
        client: "192.0.2.0".into(),
        http_version: "1.1".into(),
    }
}
