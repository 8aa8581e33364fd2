//! Properties of every working database.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use larder_stats::{
    Database, Dimension, Figures, Measure, OpenError, Options, Recorder, Retention, Transaction,
};
use larder_testkit::within;

use crate::engines::{Engine, Sqlite};
use crate::model::{self, HOUR};

/// A time limit that suffices on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn all(engine: &dyn Engine) {
    every_request_arrives(engine);
    rows_say_what_was_recorded(engine);
    totals_are_exact_when_requests_share_rows(engine);
    the_time_asked_for_is_kept_to(engine);
    contents_are_replaced(engine);
    predictions_of_an_hour_are_added_up(engine);
    several_write_at_once(engine);
    old_rows_and_rows_beyond_the_limit_go(engine);
    readers_cannot_write(engine);
    other_schemas_are_refused(engine);
    an_earlier_schema_is_brought_up_to_date(engine);
}

/// Returns options with which no rows are merged or deleted, and all are written soon.
pub(crate) fn options() -> Options {
    let (requests, hours) = (Duration::MAX, Duration::MAX);
    let keep = Retention { requests, rows: u64::MAX, bytes: u64::MAX, hours, every: LONG };
    let delay = Duration::from_millis(20);
    Options { delay, keep, rate: u32::MAX, pause: delay, opening: LONG, ..Options::default() }
}

pub(crate) fn open(url: &str, options: Options) -> Recorder {
    Recorder::open(url, options).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn read(url: &str) -> Database {
    Database::open_read(url).unwrap_or_else(|error| panic!("{error}"))
}

/// Records all requests, and waits until they are written.
fn write(url: &str, options: Options, requests: &[Transaction]) -> Figures {
    let recorder = open(url, options);
    requests.iter().cloned().for_each(|request| recorder.record(request));
    let figures = recorder.close(LONG);
    assert_eq!((figures.recorded, figures.queued), (requests.len() as u64, 0));
    figures
}

/// Returns the rows of a query, their columns separated by `|`.
pub(crate) fn asked(url: &str, sql: &str) -> Vec<String> {
    let rows = read(url).query(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).rows;
    let line = |row: Vec<Option<String>>| {
        row.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>().join("|")
    };
    rows.into_iter().map(line).collect()
}

fn every_request_arrives(engine: &dyn Engine) {
    let url = engine.fresh();
    let requests = model::varied(5_000, model::now(), 1);
    let figures = write(&url, options(), &requests);
    assert_eq!((figures.written, figures.rows, figures.dropped, figures.failed), (5_000, 5_000, 0, 0));
    let mut database = read(&url);
    assert_eq!(database.totals(0), Ok(model::totals(&requests)));
    for dimension in Dimension::ALL {
        let groups = database.by(dimension, 0).unwrap();
        let is_sorted = match dimension {
            Dimension::Hour => groups.is_sorted_by_key(|group| group.name.parse::<u64>().unwrap()),
            _ => groups.is_sorted_by(|a, b| a.counts.requests >= b.counts.requests),
        };
        assert!(is_sorted, "{dimension}");
        let groups = groups.into_iter().map(|group| (group.name, group.counts)).collect();
        assert_eq!(
            model::grouped(&requests, |request| model::name(dimension, request)),
            groups,
            "{dimension}"
        );
    }
    let urls = model::grouped(&requests, |request| request.url.clone());
    for measure in Measure::ALL {
        let of = |counts: &larder_stats::Counts| match measure {
            Measure::Hits => counts.hits,
            Measure::Validated => counts.validated,
            Measure::Misses => counts.misses,
            Measure::Bytes => counts.bytes,
            Measure::OriginTime => counts.origin_us,
        };
        let top = database.top(measure, 0, 5).unwrap();
        let mut most = urls.iter().collect::<Vec<_>>();
        most.sort_by_key(|(url, counts)| (std::cmp::Reverse(of(counts)), *url));
        let most = most.into_iter().take(5).map(|(url, counts)| (url.clone(), *counts)).collect::<Vec<_>>();
        let top = top.into_iter().map(|group| (group.name, group.counts)).collect::<Vec<_>>();
        assert_eq!(top, most, "{measure}");
    }
    let by_minute = database.by_minute(0).unwrap();
    assert!(by_minute.is_sorted_by_key(|group| group.name.parse::<u64>().unwrap()));
    let by_minute = by_minute.into_iter().map(|group| (group.name, group.counts)).collect();
    let minute = |request: &Transaction| (request.time - request.time % 60_000).to_string();
    assert_eq!(model::grouped(&requests, minute), by_minute);
}

fn rows_say_what_was_recorded(engine: &dyn Engine) {
    let url = engine.fresh();
    let odd = "http://x/'; DROP TABLE hours; -- \\ \" % ? $1 é😀\0";
    let request = Transaction {
        status: 0,
        outcome: "odd".into(),
        reason: "r".repeat(500).into(),
        route: "".into(),
        bytes: u64::MAX,
        origin_us: Some(3),
        age: None,
        ..model::hit(1_234, odd)
    };
    write(&url, options(), &[request, model::hit(1_235, &"ü".repeat(5_000))]);
    let columns = "time, instance, door, site, route, method, status, outcome, requests, bytes, service_us, \
                   origin_us, age, tier, client";
    assert_eq!(
        asked(&url, &format!("SELECT {columns} FROM transactions ORDER BY id")),
        [
            "1234|larder|http|docs.example||GET|0|odd|1|281474976710655|40|3|-|memory|192.0.2.1",
            "1235|larder|http|docs.example|guide|GET|200|hit|1|1000|40|-|7|memory|192.0.2.1",
        ]
    );
    assert_eq!(
        asked(&url, "SELECT reason, url FROM transactions ORDER BY id"),
        [
            format!("{}|{}", "r".repeat(128), odd.replace('\0', "\u{fffd}")),
            "fresh|".to_owned() + &"ü".repeat(1_024)
        ]
    );
    let counts = read(&url).totals(0).unwrap();
    assert_eq!((counts.requests, counts.cacheable()), (2, 1), "an unknown outcome is none of these");
}

fn totals_are_exact_when_requests_share_rows(engine: &dyn Engine) {
    let url = engine.fresh();
    let now = model::now();
    let requests = (0..5_000).map(|number| Transaction {
        bytes: number,
        ..model::hit(now - now % 1_000 + number % 900, "http://docs.example/guide/popular")
    });
    let requests = requests.collect::<Vec<_>>();
    let figures = write(&url, Options { rate: 10, delay: LONG, ..options() }, &requests);
    assert_eq!((figures.written, figures.rows), (5_000, 10));
    assert_eq!(read(&url).totals(0), Ok(model::totals(&requests)));
    let sums = "SUM(requests), SUM(bytes), SUM(service_us)";
    let rows = asked(&url, &format!("SELECT {sums} FROM transactions"));
    assert_eq!(rows, asked(&url, &format!("SELECT {sums} FROM hours")));
    assert_eq!(rows, ["5000|12497500|200000"]);
}

fn the_time_asked_for_is_kept_to(engine: &dyn Engine) {
    let url = engine.fresh();
    let hour = 1_000_000 * HOUR;
    let at = |time| model::hit(time, "http://docs.example/");
    let requests = [at(hour - 1), at(hour), at(hour + 5), at(hour + HOUR - 1), at(hour + HOUR)];
    write(&url, options(), &requests);
    let mut since = |time| read(&url).totals(time).unwrap().requests;
    let counted = [0, hour - 1, hour, hour + 5, hour + 6, hour + HOUR, hour + HOUR + 1, u64::MAX];
    assert_eq!(counted.map(&mut since), [5, 5, 4, 3, 2, 1, 0, 0]);
    // Without the rows, the whole hour is counted for a part of it.
    engine.alter(&url, &format!("DELETE FROM transactions WHERE time < {}", hour + 6));
    assert_eq!([hour, hour + 5, hour + 6].map(&mut since), [4, 4, 4]);
    assert_eq!(since(hour + HOUR - 1), 2);
}

fn contents_are_replaced(engine: &dyn Engine) {
    let url = engine.fresh();
    let named = |name: &str| Options { instance: name.to_owned(), ..options() };
    let (one, other) = (open(&url, named("one")), open(&url, named("other's")));
    let written = |recorder: &Recorder, count| {
        within(LONG, "a snapshot", || (recorder.figures().snapshots == count).then_some(()));
    };
    one.record_contents(model::contents(300));
    other.record_contents(model::contents(2));
    written(&one, 1);
    written(&other, 1);
    let by_instance = "SELECT instance, COUNT(*), SUM(size), SUM(hits) FROM contents GROUP BY 1 ORDER BY 1";
    assert_eq!(asked(&url, by_instance), ["one|300|344850|300", "other's|2|2001|1"]);
    one.record_contents(model::contents(1));
    written(&one, 2);
    assert_eq!(asked(&url, by_instance), ["one|1|1000|0", "other's|2|2001|1"]);
    one.record_contents(Vec::new());
    assert_eq!(one.close(LONG).snapshots, 3, "closing writes it");
    assert_eq!(asked(&url, by_instance), ["other's|2|2001|1"]);
}

fn predictions_of_an_hour_are_added_up(engine: &dyn Engine) {
    let (url, predictions) = (engine.fresh(), model::predictions(2));
    for _ in 0..2 {
        let recorder = open(&url, options());
        recorder.record_predictions(predictions.clone());
        recorder.close(LONG);
    }
    let sums = "SELECT policy, requests, hits, running FROM predictions ORDER BY policy";
    assert_eq!(asked(&url, sums), ["policy0|200|0|1", "policy1|200|20|0"]);
}

fn several_write_at_once(engine: &dyn Engine) {
    let url = engine.fresh();
    let now = model::now();
    let writers = std::thread::scope(|scope| {
        let write = |seed| {
            let (url, requests) = (&url, model::varied(2_000, now, seed));
            // All of them create the schema at the same time.
            let options = Options { instance: format!("proxy{seed}"), batch: 50, ..options() };
            scope.spawn(move || (write(url, options, &requests), requests))
        };
        let writers = [1, 2, 3].map(write);
        writers.map(|writer| writer.join().unwrap())
    });
    let requests = writers.iter().flat_map(|(_, requests)| requests);
    assert_eq!(read(&url).totals(0), Ok(model::totals(requests)));
    assert!(writers.iter().all(|(figures, _)| figures.written == 2_000));
    assert_eq!(asked(&url, "SELECT COUNT(DISTINCT instance), COUNT(*) FROM writers"), ["3|3"]);
}

fn old_rows_and_rows_beyond_the_limit_go(engine: &dyn Engine) {
    let url = engine.fresh();
    let now = model::now();
    let day = 24 * HOUR;
    let ages = [(3_000, 9 * day), (100, 3 * day), (2_000, 0)];
    let requests = ages.iter().flat_map(|&(count, age)| vec![model::hit(now - age, "http://x/"); count]);
    let requests = requests.collect::<Vec<_>>();
    write(&url, options(), &requests);
    let count = "SELECT COUNT(*) FROM transactions";
    let left = |keep: Retention, rows: &str, hours: &str| {
        let recorder = open(&url, Options { keep, ..options() });
        let of = |table| asked(&url, &format!("SELECT COUNT(*) FROM {table}")).concat();
        let is_there = || (of("transactions") == rows && of("hours") == hours).then_some(());
        within(LONG, "what is kept", is_there);
        recorder.close(LONG);
    };
    assert_eq!(asked(&url, count), ["5100"]);
    let (two_days, week) = (Duration::from_millis(2 * day), Duration::from_millis(7 * day));
    left(Retention { requests: week, ..options().keep }, "2100", "3");
    left(Retention { requests: two_days, ..options().keep }, "2000", "3");
    left(Retention { rows: 500, ..options().keep }, "500", "3");
    left(Retention { hours: two_days, ..options().keep }, "500", "1");
    assert_eq!(read(&url).totals(0).unwrap().requests, 2_000, "roll-ups remain");
}

fn readers_cannot_write(engine: &dyn Engine) {
    let url = engine.fresh();
    write(&url, options(), &[model::hit(model::now(), "http://x/")]);
    let mut database = read(&url);
    for sql in [
        "DELETE FROM transactions",
        "UPDATE hours SET requests = 7",
        "INSERT INTO larder_schema VALUES (7)",
        "DROP TABLE hours",
        "CREATE TABLE mine (a BIGINT)",
        "EXPLAIN ANALYZE DELETE FROM transactions",
        "WITH gone AS (DELETE FROM transactions RETURNING id) SELECT id FROM gone",
        "BEGIN NOT ATOMIC DELETE FROM transactions; END",
        "SHUTDOWN",
        "",
        "SELECT 1; DELETE FROM transactions",
        "COMMIT; DELETE FROM transactions",
        "ROLLBACK; DELETE FROM transactions",
        "SELEC 1",
        "SELECT nothing FROM nowhere",
    ] {
        let error = database.query(sql).map_or_else(|error| error.to_string(), |_| String::new());
        let survived = database.query("SELECT COUNT(*) FROM transactions").unwrap();
        assert_eq!(survived.rows, [[Some("1".to_owned())]], "{sql}");
        let is_refused = !error.is_empty() && !error.contains('\n');
        assert!(is_refused, "{sql}: {error:?}");
    }
    let table = database.query("SELECT url, age, origin_us, 1.5 AS half FROM transactions").unwrap();
    assert_eq!(table.columns, ["url", "age", "origin_us", "half"]);
    assert_eq!(table.rows, [["http://x/", "7", "", "1.5"].map(|it| (!it.is_empty()).then(|| it.to_owned()))]);
    let none = database.query("SELECT url FROM transactions WHERE status = 1").unwrap();
    assert_eq!((none.columns, none.rows.len()), (vec!["url".to_owned()], 0));
}

fn other_schemas_are_refused(engine: &dyn Engine) {
    let url = engine.fresh();
    let error = Database::open_read(&url).err().expect("there is nothing to read").to_string();
    assert!(!error.contains('\n'), "{error}");
    write(&url, options(), &[]);
    assert_eq!(read(&url).totals(0).unwrap().requests, 0);
    engine.alter(&url, "UPDATE larder_schema SET version = 99");
    let errors = [Recorder::open(&url, options()).err(), Database::open_read(&url).err()];
    for error in errors.map(|error| error.expect("an error")) {
        assert!(matches!(error, OpenError::Later { found: 99, known: 4, .. }), "{error}");
        let words = "its schema has version 99, of a later larder; this one knows up to 4";
        assert_eq!(error.to_string(), format!("statistics database '{url}': {words}"));
    }
}

fn an_earlier_schema_is_brought_up_to_date(engine: &dyn Engine) {
    let url = engine.fresh();
    let revalidated = Transaction { outcome: "revalidated".into(), ..model::hit(model::now(), "http://x/") };
    write(&url, options(), &[revalidated]);
    // Without the columns, and with them after an interrupted migration.
    let without =
        ["ALTER TABLE outcomes DROP COLUMN validated", "ALTER TABLE transactions DROP COLUMN http_version"];
    for changes in [&without[..], &["UPDATE outcomes SET validated = 0"]] {
        changes.iter().for_each(|change| engine.alter(&url, change));
        engine.alter(&url, "UPDATE larder_schema SET version = 1");
        let error = Database::open_read(&url).err().expect("an error").to_string();
        assert!(
            error.ends_with(
                "its schema has version 1, of an earlier larder; larder serve brings it up to date"
            )
        );
        write(&url, options(), &[]);
        let mut database = read(&url);
        let counts = database.totals(0).unwrap();
        assert_eq!((counts.hits, counts.validated, counts.misses), (0, 1, 0), "after {changes:?}");
        let versions = database.query("SELECT http_version FROM transactions").unwrap();
        assert_eq!(versions.rows, [[Some(String::new())]], "after {changes:?}");
    }
}

pub(crate) fn the_file_is_for_its_user_alone(sqlite: &Sqlite) {
    let url = sqlite.fresh();
    let path = url.strip_prefix("sqlite:").expect("a path");
    let recorder = open(&url, options());
    recorder.record(model::hit(model::now(), "http://x/"));
    within(LONG, "a row", || (recorder.figures().written == 1).then_some(()));
    for ending in ["", "-wal", "-shm"] {
        let mode = std::fs::metadata(format!("{path}{ending}")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{ending}");
    }
    assert_eq!(read(&url).totals(0).unwrap().requests, 1, "it is read while it is open");
    for (url, why) in [
        (format!("{url}/x"), "not a directory"),
        ("sqlite:no/such/folder.db".to_owned(), "no such directory"),
        ("sqlite:/".to_owned(), "unable to open"),
    ] {
        let error = Recorder::open(&url, options()).err().expect("it cannot be made").to_string();
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
    }
}

pub(crate) fn a_file_gives_back_what_it_does_not_need(sqlite: &Sqlite) {
    let url = sqlite.fresh();
    let old =
        (0..3_000).map(|number| model::hit(model::now() - 9 * 24 * HOUR, &format!("http://x/{number}")));
    write(&url, options(), &old.collect::<Vec<_>>());
    let path = url.strip_prefix("sqlite:").expect("a path");
    let size = || std::fs::metadata(path).unwrap().len();
    let full = size();
    let recorder = open(&url, Options { keep: Retention::default(), ..options() });
    let left = || asked(&url, "SELECT COUNT(*) FROM transactions").concat();
    within(LONG, "an empty table", || (left() == "0").then_some(()));
    recorder.close(LONG);
    tidied(sqlite, &url);
    assert!(size() * 3 < full, "{} of {full}", size());
}

/// Writes the log into the file, which the last connection does on closing only if it is a writer.
fn tidied(sqlite: &Sqlite, url: &str) {
    sqlite.alter(url, "PRAGMA wal_checkpoint(TRUNCATE)");
}

pub(crate) fn a_file_stays_within_its_size(sqlite: &Sqlite) {
    let url = sqlite.fresh();
    let requests = (0..6_000).map(|number| model::hit(model::now(), &format!("http://x/{number}")));
    let requests = requests.collect::<Vec<_>>();
    write(&url, options(), &requests);
    let path = url.strip_prefix("sqlite:").expect("a path");
    let size = || std::fs::metadata(path).unwrap().len();
    let limit = size() / 2;
    let recorder = open(&url, Options { keep: Retention { bytes: limit, ..options().keep }, ..options() });
    let used = "SELECT (page_count - freelist_count) * page_size \
                FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
    let is_small = || asked(&url, used).concat().parse::<u64>().unwrap() <= limit;
    within(LONG, "less in the file", || is_small().then_some(()));
    recorder.close(LONG);
    tidied(sqlite, &url);
    assert!(size() <= limit, "{} of {limit}", size());
    assert_eq!(asked(&url, "SELECT url FROM transactions ORDER BY id DESC LIMIT 1"), ["http://x/5999"]);
    let left: u64 = asked(&url, "SELECT COUNT(*) FROM transactions").concat().parse().unwrap();
    assert!((1_000..5_000).contains(&left), "{left}");
    assert_eq!(read(&url).totals(0), Ok(model::totals(&requests)), "roll-ups remain");
}
