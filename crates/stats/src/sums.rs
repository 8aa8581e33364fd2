//! A table of sums: the requests of one or two seconds that are equal in all their words, and one row for each.

use std::time::Duration;

use crate::transaction::Transaction;

/// The most rows of one second that are useful.
const MOST_ROWS: usize = 8_192;
/// Rows beyond the limit, for requests that are summed under fewer words.
pub(crate) const MORE_ROWS: usize = 1_024;

/// The identity of requests that may share a row. Requests with equal marks are equal in all their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The second of the request's arrival, since 1970.
    pub second: u32,
    /// A hash of its URL, which also indexes the sums.
    pub url: u64,
    /// All other words, as numbers that the caller assigns.
    pub words: u64,
    /// The client, as far as it may be recorded.
    pub client: u128,
}

/// The measures of a request that are summed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measures {
    /// Bytes sent to the client, the head included.
    pub bytes: u64,
    /// The time from its arrival to the end of its response, if that was [timed](crate::BatchSums::wants_time).
    pub service: Option<Duration>,
    /// The part of that time that an origin needed; `None` if none was asked.
    pub origin: Option<Duration>,
    /// Seconds since the response was generated or validated, if it was stored.
    pub age: Option<u32>,
}

/// An unfinished row, and the sums of its measures.
pub(crate) struct Sum {
    mark: Mark,
    requests: u64,
    bytes: u64,
    service_ns: u64,
    origin_ns: u64,
    age: Option<u32>,
}

/// Sums by their marks.
pub(crate) struct SumTable {
    /// The most sums by URL.
    room: usize,
    /// The indices of sums, from 1, by their marks' hashes; 0 for an empty place. At most half of the places are used.
    index: Box<[u16]>,
    sums: Vec<Sum>,
    /// The other fields of each row; separate, since they are read only once.
    rows: Vec<Transaction>,
    /// A secret of this process, so that clients cannot choose marks that collide.
    factor: u64,
}

impl Sum {
    #[inline]
    pub(crate) fn add(&mut self, of: &Measures, service_ns: u64) {
        self.requests += 1;
        self.bytes += of.bytes;
        self.service_ns += service_ns;
        self.origin_ns += of.origin.map_or(0, |origin| origin.as_nanos() as u64);
        self.age = self.age.max(of.age);
    }
}

impl SumTable {
    pub(crate) fn new(rate: u32) -> Self {
        let room = (rate as usize).saturating_mul(2).clamp(1, MOST_ROWS);
        let index = vec![0; (2 * (room + MORE_ROWS)).next_power_of_two()];
        Self { room, index: index.into(), sums: Vec::new(), rows: Vec::new(), factor: fastrand::u64(..) | 1 }
    }

    /// Takes out all rows, each with the number of its requests.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Transaction, u64)> + '_ {
        self.index.fill(0);
        self.sums.drain(..).zip(self.rows.drain(..)).map(|(sum, row)| {
            let row = Transaction {
                bytes: sum.bytes,
                service_us: sum.service_ns / 1_000,
                origin_us: row.origin_us.map(|_| sum.origin_ns / 1_000),
                age: sum.age.map(u64::from),
                ..row
            };
            (row, sum.requests)
        })
    }

    pub(crate) fn clear(&mut self) {
        self.drain().for_each(drop);
    }

    /// Returns the index of the sum of this mark.
    #[inline]
    pub(crate) fn find(&self, mark: &Mark) -> Option<usize> {
        let mut slot = self.slot(mark);
        loop {
            let place = usize::from(self.index[slot]).checked_sub(1)?;
            if self.sums[place].mark == *mark {
                return Some(place);
            }
            slot = self.after(slot);
        }
    }

    /// Returns the sum at an index from [`find`](Self::find).
    #[inline]
    pub(crate) fn sum(&mut self, at: usize) -> &mut Sum {
        &mut self.sums[at]
    }

    /// Returns the second of the first sum.
    #[inline]
    pub(crate) fn first_second(&self) -> Option<u32> {
        self.sums.first().map(|first| first.mark.second)
    }

    /// Whether there is no more room for sums, except for a few under fewer words.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.sums.len() >= self.room
    }

    /// Whether there is no more room at all.
    #[inline]
    pub(crate) fn is_overfull(&self) -> bool {
        self.sums.len() >= self.room + MORE_ROWS
    }

    /// Adds a sum of no requests for a mark that has none.
    pub(crate) fn insert(&mut self, mark: Mark, row: Transaction) -> &mut Sum {
        let mut slot = self.slot(&mark);
        while self.index[slot] != 0 {
            slot = self.after(slot);
        }
        self.rows.push(row);
        let at = self.sums.len();
        self.index[slot] = (at + 1) as u16;
        self.sums.push(Sum { mark, requests: 0, bytes: 0, service_ns: 0, origin_ns: 0, age: None });
        &mut self.sums[at]
    }

    #[inline]
    fn slot(&self, mark: &Mark) -> usize {
        let client = (mark.client ^ (mark.client >> 64)) as u64;
        let mixed = mark.url ^ (mark.words ^ client.rotate_left(32)).wrapping_mul(self.factor);
        let mixed = (mixed ^ u64::from(mark.second)).wrapping_mul(self.factor);
        (mixed >> 32) as usize & (self.index.len() - 1)
    }

    #[inline]
    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.index.len() - 1)
    }
}
