//! Sums of equal requests in the thread that serves them, for requests beyond the rate of rows.
//!
//! A thread locks its [`BatchSums`] for any number of requests; adding one is a lookup, a comparison and a few
//! additions. The writing thread takes the sums at the end of their second. A sheet has a limit, too: the
//! caller sums further requests under fewer words, or counts them as dropped.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::sums::{Mark, Measures, SumTable};
use crate::transaction::Transaction;

/// One in this many requests that share rows is timed; the others count with the time of the last timed one.
const TIMED: u32 = 16;

/// A thread's sheet, shared with the writing thread.
#[derive(Clone)]
pub struct Tally(Arc<Mutex<BatchSums>>);

/// Sums of the requests of one or two seconds, on cache lines of their own.
#[repr(align(128))]
pub struct BatchSums {
    sums: SumTable,
    /// The requests of a second that have separate rows.
    rate: u32,
    second: u32,
    /// The requests of this second, and whether the second before had more than the rate.
    came: u32,
    is_busy: bool,
    /// The requests since the last timed one, and the time of that one in nanoseconds.
    untimed: u32,
    usual: u64,
    recorded: u64,
    refused: u64,
    is_closed: bool,
}

impl Tally {
    pub(crate) fn new(rate: u32) -> Self {
        let sheet = BatchSums {
            sums: SumTable::new(rate),
            rate,
            second: 0,
            came: 0,
            is_busy: false,
            untimed: TIMED,
            usual: 0,
            recorded: 0,
            refused: 0,
            is_closed: false,
        };
        Self(Arc::new(Mutex::new(sheet)))
    }

    /// Locks the sheet. Only the writing thread contends for this lock, and holds it just while it exchanges
    /// the sheet for an empty one.
    pub fn sheet(&self) -> MutexGuard<'_, BatchSums> {
        self.0.lock()
    }

    /// Exchanges the sums from before `second` for `empty`; returns whether there were any.
    pub(crate) fn take(&self, second: u32, empty: &mut SumTable) -> bool {
        let mut sheet = self.sheet();
        let is_due = sheet.sums.first_second().is_some_and(|first| first < second);
        if is_due {
            std::mem::swap(&mut sheet.sums, empty);
        }
        is_due
    }

    /// Returns the requests added so far, and how many of them found no room.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let sheet = self.sheet();
        (sheet.recorded, sheet.refused)
    }

    /// Drops the sums, and refuses further requests.
    pub(crate) fn close(&self) {
        let mut sheet = self.sheet();
        sheet.is_closed = true;
        sheet.sums.clear();
    }
}

impl BatchSums {
    /// Whether the next request should be timed.
    pub fn wants_time(&mut self, second: u32) -> bool {
        self.untimed += 1;
        self.untimed > TIMED || second != self.second || self.has_rows()
    }

    /// Whether a request of this second gets a separate row, by [`Recorder::record`](crate::Recorder::record). Where
    /// each second has more requests than the rate, none does: the first thousand of each second would be slow.
    pub fn takes_apart(&mut self, second: u32) -> bool {
        if second != self.second {
            self.is_busy = self.came > self.rate && second == self.second.wrapping_add(1);
            (self.second, self.came) = (second, 0);
        }
        let is_apart = self.has_rows();
        self.came = self.came.saturating_add(1);
        is_apart
    }

    fn has_rows(&self) -> bool {
        !self.is_busy && self.came < self.rate
    }

    /// Adds a request to those of its mark. Returns false, and adds nothing, if there are none.
    pub fn add(&mut self, mark: &Mark, of: &Measures) -> bool {
        let Some(at) = self.sums.find(mark) else { return false };
        let service = self.service(of);
        self.sums.sum(at).add(of, service);
        self.recorded += 1;
        true
    }

    /// Whether there is no more room for sums, except for a few under fewer words.
    pub fn is_full(&self) -> bool {
        self.sums.is_full()
    }

    /// Adds the first request of its mark. The measures of `row` are replaced; if there is no room at all,
    /// the request is counted as dropped.
    pub fn insert(&mut self, mark: Mark, of: &Measures, mut row: Transaction) {
        self.recorded += 1;
        if self.is_closed || self.sums.is_overfull() {
            self.refused += 1;
            return;
        }
        row.bound();
        let service = self.service(of);
        self.sums.insert(mark, row).add(of, service);
    }

    /// Returns the nanoseconds of a request, measured or estimated.
    fn service(&mut self, of: &Measures) -> u64 {
        if let Some(service) = of.service {
            (self.untimed, self.usual) = (0, service.as_nanos() as u64);
        }
        self.usual
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::sums::MORE_ROWS;

    fn row(url: &str) -> Transaction {
        Transaction { site: "a".into(), url: url.into(), outcome: "hit".into(), ..Transaction::default() }
    }

    fn measures(bytes: u64, nanos: u64, age: u32) -> Measures {
        let service = Some(Duration::from_nanos(nanos));
        Measures { bytes, service, origin: None, age: Some(age) }
    }

    /// Returns the contents of a sheet: URL, requests, bytes, age.
    fn taken(tally: &Tally, second: u32) -> Vec<(String, u64, u64, Option<u64>)> {
        let mut empty = SumTable::new(1);
        tally.take(second, &mut empty);
        empty.drain().map(|(row, requests)| (row.url, requests, row.bytes, row.age)).collect()
    }

    proptest! {
        #[test]
        fn sums_are_those_of_their_marks(given in vec((0..3_u32, 0..9_u64, 0..3_u64, 0..3_u128, 0..99_u64), 0..300)) {
            let tally = Tally::new(1_000);
            let mut expected = std::collections::BTreeMap::<_, (u64, u64)>::new();
            for (second, url, words, client, bytes) in given {
                let (mark, of) = (Mark { second, url, words, client }, measures(bytes, 0, 0));
                let name = format!("{second} {url} {words} {client}");
                let mut sheet = tally.sheet();
                if !sheet.add(&mark, &of) {
                    sheet.insert(mark, &of, row(&name));
                }
                let sum = expected.entry(name).or_default();
                (sum.0, sum.1) = (sum.0 + 1, sum.1 + bytes);
            }
            let requests = expected.values().map(|sum| sum.0).sum::<u64>();
            prop_assert_eq!(tally.counts(), (requests, 0));
            let sums = taken(&tally, 9).into_iter().map(|(name, requests, bytes, _)| (name, (requests, bytes)));
            prop_assert_eq!(sums.collect::<std::collections::BTreeMap<_, _>>(), expected);
        }
    }

    #[test]
    fn sums_are_taken_away_when_their_second_is_over() {
        let tally = Tally::new(10);
        let mark = Mark { second: 5, ..Mark::default() };
        tally.sheet().insert(mark, &measures(1, 0, 3), row("x"));
        assert!(tally.sheet().add(&mark, &measures(2, 0, 7)));
        assert!(taken(&tally, 5).is_empty());
        let next = Mark { second: 6, ..mark };
        assert!(!tally.sheet().add(&next, &measures(1, 0, 0)), "another second has sums of its own");
        tally.sheet().insert(next, &measures(4, 0, 0), row("x"));
        assert_eq!(taken(&tally, 6), [("x".to_owned(), 2, 3, Some(7)), ("x".to_owned(), 1, 4, Some(0))]);
        assert!(!tally.sheet().add(&mark, &measures(1, 0, 0)), "nothing is left");
    }

    #[test]
    fn a_row_without_room_in_the_tally_is_counted_as_dropped() {
        let tally = Tally::new(1);
        let mut sheet = tally.sheet();
        for url in 0..2 + MORE_ROWS as u64 {
            assert_eq!(sheet.is_full(), url >= 2);
            sheet.insert(Mark { url, ..Mark::default() }, &Measures::default(), row("x"));
        }
        let stranger = Mark { url: u64::MAX, ..Mark::default() };
        sheet.insert(stranger, &Measures::default(), row("x"));
        assert!(!sheet.add(&stranger, &Measures::default()));
        drop(sheet);
        assert_eq!(tally.counts(), (3 + MORE_ROWS as u64, 1));
        tally.close();
        tally.sheet().insert(Mark::default(), &Measures::default(), row("x"));
        assert_eq!(tally.counts(), (4 + MORE_ROWS as u64, 2));
    }

    #[test]
    fn a_second_has_rows_of_requests_and_then_sums() {
        let tally = Tally::new(2);
        let mut sheet = tally.sheet();
        let apart = [1, 1, 2, 2, 2].map(|second| sheet.takes_apart(second));
        assert_eq!(apart, [true, true, true, true, false]);
    }

    #[test]
    fn a_second_after_one_of_too_many_has_sums_alone() {
        let tally = Tally::new(1);
        let mut sheet = tally.sheet();
        let apart = [1, 1, 2, 3, 3, 5, 5].map(|second| sheet.takes_apart(second));
        assert_eq!(apart, [true, false, false, true, false, true, false]);
    }

    #[test]
    fn an_untimed_request_counts_with_the_last_measured_time() {
        let tally = Tally::new(0);
        let mut sheet = tally.sheet();
        let mark = Mark::default();
        sheet.takes_apart(0);
        let timed = (0..40).filter(|at| {
            let is_timed = sheet.wants_time(0);
            let of = Measures {
                service: is_timed.then_some(Duration::from_micros(at + 1)),
                ..Measures::default()
            };
            if !sheet.add(&mark, &of) {
                sheet.insert(mark, &of, row("x"));
            }
            is_timed
        });
        assert_eq!(timed.collect::<Vec<_>>(), [0, 17, 34]);
        drop(sheet);
        let mut sums = SumTable::new(0);
        assert!(tally.take(1, &mut sums));
        assert_eq!(sums.drain().map(|(row, _)| row.service_us).sum::<u64>(), 17 + 17 * 18 + 6 * 35);
    }
}
