//! What recording costs: nanoseconds of a call, from one thread and from four, and rows a second that a database
//! takes. The URL of the database is the argument; without one, it is an SQLite file in the temporary folder.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use larder_stats::{Keep, Options, Recorder, Transaction};

fn main() {
    let file = std::env::temp_dir().join(format!("larder-speed-{}.db", std::process::id()));
    let given = std::env::args().nth(1);
    let url = given.clone().unwrap_or_else(|| format!("sqlite:{}", file.display()));
    // More come at once than may be taken in at once: what a full inlet costs is shown as well.
    for (what, threads, pause) in
        [("one thread", 1, true), ("four threads", 4, true), ("beyond the limit", 1, false)]
    {
        let recorder = open(&url, Options::default());
        let each = calls(&recorder, threads, pause);
        let figures = recorder.close(Duration::from_secs(60));
        println!("record, {what}: {each:.0} ns a call, {} of {} dropped", figures.dropped, figures.recorded);
    }
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
            // The last two are gone already if all went well.
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

/// Mean nanoseconds of a call. With `pause`, the writing thread has time between bursts.
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

/// One in four is for a page of its own.
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
    }
}
