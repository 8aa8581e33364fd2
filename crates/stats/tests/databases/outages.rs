//! Requests recorded while a server does not answer: they are written later, merged, or counted.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use larder_stats::{Database, Event, Figures, Options, Recorder};
use larder_testkit::databases::Server;
use larder_testkit::within;

use crate::engines::Engine;
use crate::model;
use crate::scenario::{LONG, asked, open, options, read};
use crate::wire::{Fault, Wire};

pub(crate) fn all(server: &mut Server) {
    a_database_that_is_not_there_is_no_outage(server);
    nothing_is_lost_within_the_queue(server);
    rows_beyond_the_queue_are_counted(server);
    a_server_that_is_away_at_the_start_is_waited_for(server);
    a_server_that_hangs_costs_nothing_and_gets_each_row_once(server);
    a_commit_of_unknown_fate_is_not_repeated(server);
}

/// Returns options whose events are collected.
fn told(options: Options) -> (Options, Arc<Mutex<Vec<Event>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let keeper = Arc::clone(&events);
    (Options { report: Arc::new(move |event| keeper.lock().unwrap().push(event)), ..options }, events)
}

fn until(recorder: &Recorder, what: &str, is_so: impl Fn(&Figures) -> bool) {
    within(LONG, what, || is_so(&recorder.figures()).then_some(()));
}

fn is_written(figures: &Figures) -> bool {
    figures.queued == 0
}

fn a_database_that_is_not_there_is_no_outage(server: &Server) {
    let url = server.fresh() + "0";
    for error in [Recorder::open(&url, options()).err(), Database::open_read(&url).err()] {
        let error = error.expect("it is not made").to_string();
        assert!(error.starts_with(&format!("statistics database '{url}': ")), "{error}");
        assert!(error.to_lowercase().contains("database") && !error.contains('\n'), "{error}");
    }
}

fn nothing_is_lost_within_the_queue(server: &mut Server) {
    let url = server.fresh();
    let (options, events) = told(Options { batch: 100, ..options() });
    let recorder = open(&url, options);
    let requests = model::varied(6_000, model::now(), 2);
    let record = |range: std::ops::Range<usize>| {
        requests[range].iter().cloned().for_each(|request| recorder.record(request));
    };
    record(0..3_000);
    // The server is killed while the recorder writes.
    until(&recorder, "a first batch", |figures| figures.written > 0);
    server.kill();
    record(3_000..6_000);
    until(&recorder, "a failure", |figures| figures.failed > 1 && !figures.is_connected);
    server.start();
    until(&recorder, "all rows", is_written);
    let figures = recorder.close(LONG);
    assert_eq!((figures.written, figures.rows, figures.dropped), (6_000, 6_000, 0));
    assert_eq!(read(&url).totals(0), Ok(model::totals(&requests)));
    assert_eq!(asked(&url, "SELECT COUNT(*) FROM transactions"), ["6000"]);
    let events = events.lock().unwrap();
    assert!(matches!(events[..], [Event::Lost { .. }, Event::Back]), "{events:?}");
}

fn rows_beyond_the_queue_are_counted(server: &mut Server) {
    let url = server.fresh();
    let (options, events) = told(Options { queue: 500, batch: 100, ..options() });
    let recorder = open(&url, options);
    server.kill();
    let now = model::now() / 1_000 * 1_000;
    // Except for one row, the popular ones can be merged, and then there is room for 499 others.
    let popular = (0..2_000).map(|_| model::hit(now, "http://docs.example/popular"));
    let rare = (0..1_000).map(|number| model::hit(now, &format!("http://docs.example/{number}")));
    popular.chain(rare).for_each(|request| recorder.record(request));
    until(&recorder, "dropped rows", |figures| figures.dropped > 0);
    let figures = recorder.figures();
    assert_eq!(figures.recorded, figures.queued + figures.written + figures.dropped);
    server.start();
    until(&recorder, "the rest", is_written);
    let figures = recorder.close(LONG);
    assert_eq!(figures.written + figures.dropped, 3_000);
    // A batch that is being written is not merged, nor are batches with each other.
    assert!(figures.written >= 2_300, "the popular ones are merged, not dropped: {figures:?}");
    assert_eq!(read(&url).totals(0).unwrap().requests, figures.written);
    assert_eq!(asked(&url, "SELECT SUM(requests) FROM transactions"), [figures.written.to_string()]);
    let events = events.lock().unwrap();
    assert_eq!(events.iter().filter(|event| **event == Event::Dropping).count(), 1, "{events:?}");
}

fn a_server_that_is_away_at_the_start_is_waited_for(server: &mut Server) {
    let url = server.fresh();
    server.kill();
    let recorder = open(&url, options());
    recorder.record(model::hit(model::now(), "http://x/"));
    recorder.record_contents(model::contents(3));
    until(&recorder, "attempts", |figures| figures.failed > 2);
    assert!(!recorder.figures().is_connected);
    server.start();
    until(&recorder, "the row", |figures| figures.written == 1 && figures.snapshots == 1);
    assert!(recorder.figures().is_connected);
    drop(recorder);
    server.kill();
    let recorder = open(&url, options());
    recorder.record(model::hit(model::now(), "http://x/"));
    let figures = recorder.close(Duration::from_millis(50));
    assert_eq!((figures.recorded, figures.dropped, figures.queued), (1, 1, 0), "closing has its limit");
    recorder.record(model::hit(model::now(), "http://x/"));
    assert_eq!(recorder.figures().dropped, 2, "nothing is taken in after that");
    server.start();
}

fn a_server_that_hangs_costs_nothing_and_gets_each_row_once(server: &mut Server) {
    let url = server.fresh();
    let patience = Duration::from_millis(300);
    let recorder = open(&url, Options { patience, batch: 50, ..options() });
    let requests = model::varied(20_000, model::now(), 3);
    let mut slowest = Duration::ZERO;
    for (round, requests) in requests.chunks(4_000).enumerate() {
        let before = recorder.figures();
        for request in requests {
            let begun = Instant::now();
            recorder.record(request.clone());
            slowest = slowest.max(begun.elapsed());
        }
        until(&recorder, "some batches", |figures| figures.written > before.written);
        server.freeze();
        until(&recorder, "a failure", |figures| figures.failed > before.failed);
        server.resume();
        assert!(recorder.figures().failed > round as u64);
    }
    until(&recorder, "all rows", is_written);
    let figures = recorder.close(LONG);
    assert_eq!((figures.written, figures.dropped), (20_000, 0));
    assert_eq!(read(&url).totals(0), Ok(model::totals(&requests)));
    assert_eq!(asked(&url, "SELECT COUNT(*) FROM transactions"), ["20000"]);
    assert!(slowest < patience, "{slowest:?}");
}

fn a_commit_of_unknown_fate_is_not_repeated(server: &mut Server) {
    for fault in [Fault::LosesAnswer, Fault::ComesLate] {
        let url = server.fresh();
        let wire = Wire::to(server.port(), fault);
        let through = url.replace(&format!(":{}/", server.port()), &format!(":{}/", wire.port));
        let recorder = open(&through, Options { patience: Duration::from_secs(1), ..options() });
        recorder.record(model::hit(model::now(), "http://x/"));
        until(&recorder, "a row", |figures| figures.written == 1);
        wire.arm();
        (0..500).for_each(|_| recorder.record(model::hit(model::now(), "http://x/")));
        until(&recorder, "all rows", is_written);
        assert!(wire.has_struck());
        let figures = recorder.close(LONG);
        assert_eq!((figures.written, figures.dropped, figures.failed), (501, 0, 1), "{fault:?}");
        assert_eq!(asked(&url, "SELECT COUNT(*) FROM transactions"), ["501"], "{fault:?}");
        assert_eq!(read(&url).totals(0).unwrap().requests, 501, "{fault:?}");
    }
}
