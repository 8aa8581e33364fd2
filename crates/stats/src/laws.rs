//! Properties of merging, for any input: no row is lost without being counted, and sums do not change.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use hashbrown::DefaultHashBuilder;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::backlog::{Backlog, Limits};
use crate::batch::Batch;
use crate::rollup::{Routes, Sums, rollup};
use crate::row::Row;
use crate::transaction::Transaction;

/// Returns transactions with few values, so that many are equal.
fn transaction() -> impl Strategy<Value = Transaction> {
    let words = ("[ab]", "[ab]", prop::sample::select(vec!["hit", "miss"]), 200..202_u16);
    let figures = (0..7_200_000_u64, 0..1000_u64, 0..1000_u64, any::<Option<u8>>(), any::<Option<u8>>());
    (words, figures).prop_map(|((site, url, outcome, status), (time, bytes, service_us, origin, age))| {
        Transaction {
            // Two hours, two seconds of each.
            time: time / 3_600_000 * 3_600_000 + time % 2_000,
            site: site.into(),
            route: url.clone().into(),
            url,
            status,
            outcome: outcome.into(),
            bytes,
            service_us,
            origin_us: origin.map(u64::from),
            age: age.map(u64::from),
            ..Transaction::default()
        }
    })
}

/// Returns all roll-ups, so that two sets of rows can be compared.
fn sums(rows: &[Row]) -> Vec<(String, Sums)> {
    let sums = rollup(rows, &mut Routes::new(100));
    sums.into_iter().map(|(key, sums)| (format!("{key:?}"), sums)).collect()
}

fn drain(backlog: &mut Backlog) -> Vec<Row> {
    let take = || {
        let batch = backlog.take(Instant::now(), true)?;
        backlog.done(&batch);
        Some(batch.rows().to_vec())
    };
    std::iter::from_fn(take).flatten().collect()
}

proptest! {
    #[test]
    fn merged_rows_sum_to_what_was_recorded(given in vec(transaction(), 0..200)) {
        let rows = given.into_iter().map(|given| Row::new(given, &hasher())).collect::<Vec<_>>();
        let mut batch = Batch::default();
        rows.iter().cloned().for_each(|row| batch.push(row));
        batch.merge_all();
        prop_assert_eq!(sums(batch.rows()), sums(&rows));
        let ages = |rows: &[Row]| rows.iter().filter_map(|row| row.of.age).max();
        prop_assert_eq!(ages(batch.rows()), ages(&rows));
        for (at, row) in batch.rows().iter().enumerate() {
            prop_assert!(!batch.rows()[..at].iter().any(|other| other.equals(row)));
        }
    }

    #[test]
    fn a_backlog_keeps_its_limit_and_tells_what_it_drops(
        given in vec(transaction(), 0..300),
        rows in 1..40_usize,
        rate in 1..50_u32,
        batch in 1..20_usize,
        take_every in 1..60_usize,
    ) {
        let limits = Limits { rows, rate, batch, delay: Duration::from_secs(3600) };
        let mut backlog = Backlog::new(limits, Instant::now());
        let (mut kept, mut written) = (Vec::new(), Vec::new());
        for (at, transaction) in given.into_iter().enumerate() {
            let row = Row::new(transaction, &hasher());
            if backlog.add(row.clone(), Instant::now()) {
                kept.push(row);
            }
            if at % take_every == 0 {
                written.extend(drain(&mut backlog));
            }
            prop_assert!(backlog.rows() <= rows);
        }
        written.extend(drain(&mut backlog));
        prop_assert_eq!(backlog.rows(), 0);
        prop_assert_eq!(sums(&written), sums(&kept));
    }
}

fn at(second: u64, url: &str) -> Row {
    let of = Transaction {
        time: second * 1000,
        url: url.into(),
        outcome: "hit".into(),
        bytes: 1,
        service_us: 1,
        ..Transaction::default()
    };
    Row::new(of, &hasher())
}

/// Returns the same hashes each time.
fn hasher() -> DefaultHashBuilder {
    static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
    HASHER.clone()
}

#[test]
fn only_beyond_the_rate_do_requests_share_a_row() {
    let limits = Limits { rows: 100, rate: 3, batch: 100, delay: Duration::ZERO };
    let mut backlog = Backlog::new(limits, Instant::now());
    for (second, url) in [(1, "x"), (1, "x"), (1, "y"), (1, "x"), (1, "z"), (1, "y"), (2, "x"), (2, "x")] {
        assert!(backlog.add(at(second, url), Instant::now()));
    }
    let rows = drain(&mut backlog);
    let rows = rows.iter().map(|row| (row.second(), &*row.of.url, row.requests)).collect::<Vec<_>>();
    assert_eq!(rows, [(1, "x", 2), (1, "x", 1), (1, "y", 2), (1, "z", 1), (2, "x", 1), (2, "x", 1)]);
}

#[test]
fn at_the_limit_equal_rows_are_merged_before_any_is_dropped() {
    let limits = Limits { rows: 4, rate: 100, batch: 2, delay: Duration::ZERO };
    let mut backlog = Backlog::new(limits, Instant::now());
    for url in ["x", "x", "x", "x"] {
        assert!(backlog.add(at(1, url), Instant::now()));
    }
    assert_eq!(backlog.rows(), 4);
    assert!(backlog.add(at(1, "y"), Instant::now()) && backlog.add(at(1, "z"), Instant::now()));
    assert_eq!(backlog.rows(), 4);
    assert!(!backlog.add(at(1, "w"), Instant::now()));
    let requests = drain(&mut backlog).iter().map(|row| row.requests).collect::<Vec<_>>();
    assert_eq!(requests, [2, 2, 1, 1]);
}

#[test]
fn a_batch_waits_for_others_as_long_as_it_may() {
    let start = Instant::now();
    let delay = Duration::from_secs(5);
    let limits = Limits { rows: 9, rate: 9, batch: 2, delay };
    let mut backlog = Backlog::new(limits, start);
    assert!(backlog.take(start + delay, true).is_none());
    assert!(backlog.add(at(1, "x"), start + delay));
    assert!(backlog.take(start + delay * 2 - Duration::from_nanos(1), false).is_none());
    assert!(backlog.take(start + delay, true).is_some());
    assert!(backlog.add(at(1, "x"), start + delay) && backlog.add(at(1, "y"), start + delay));
    assert!(backlog.take(start + delay, false).is_some(), "a full one does not wait");
}

#[test]
fn routes_that_an_hour_has_no_room_for_count_together() {
    let rows = ["x", "y", "z", "x", "w"].map(|route| {
        let mut row = at(1, "/");
        row.of.route = route.into();
        row
    });
    let mut routes = Routes::new(2);
    let sums = rollup(&rows, &mut routes);
    let counted = sums.iter().map(|(key, sums)| (key.route, sums.requests)).collect::<Vec<_>>();
    assert_eq!(counted, [("*", 2), ("x", 2), ("y", 1)]);
    let next = [Row { of: Transaction { time: 3_600_000, ..rows[2].of.clone() }, ..rows[2].clone() }];
    assert_eq!(rollup(&next, &mut routes).keys().next().unwrap().route, "z", "another hour has its own");
}

#[test]
fn a_row_beyond_the_limits_of_a_database_is_made_to_fit() {
    for (given, fitted) in [
        ("", ""),
        ("abc", "abc"),
        ("abcd", "abc"),
        ("äöü", "äöü"),
        ("äöüß", "äöü"),
        ("a\0b", "a\u{fffd}b"),
        ("\0\0\0\0", "\u{fffd}\u{fffd}\u{fffd}"),
    ] {
        assert_eq!(crate::row::fitted(given, 3), fitted, "{given:?}");
    }
    let mut row = at(u64::MAX / 1000, &"ü".repeat(5000)).of;
    (row.bytes, row.origin_us, row.age) = (u64::MAX, Some(u64::MAX), Some(u64::MAX));
    let mut row = Row::new(row, &hasher());
    let other = row.clone();
    row.absorb(&other);
    assert!([row.of.time, row.of.bytes, row.of.age.unwrap()].iter().all(|&figure| figure < 1 << 48));
    assert_eq!(row.of.url.chars().count(), Transaction::LONGEST_URL);
}
