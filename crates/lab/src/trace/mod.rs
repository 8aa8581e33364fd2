//! Requests in order, their objects numbered from 0 by first appearance.
//!
//! The data are stored in columns, not rows: a replay reads only the columns that it needs, and a column with a single
//! value is not stored.

mod builder;
mod detect;
mod format;
mod formats;
mod input;
mod names;
mod options;
mod read;
mod sink;
mod summary;
mod verdict;

use std::ops::Range;
use std::sync::OnceLock;

use larder_evict::{Request, Shape};

use names::Names;

pub use builder::{Builder, TraceTooLong};
pub use format::Format;

pub use formats::names::{Field, columns};
pub use formats::pattern::Pattern;
pub(crate) use formats::workload::WORKLOAD_MARK;
pub use options::Options;
pub use read::{Error, read, read_from, requests};
pub use summary::{Exclusion, ReadSummary};

/// The content of a line or record of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<K> {
    /// The identity of the object: an ID, or a URL.
    pub key: K,
    /// The time of the request, in microseconds of any epoch; 0 if the trace has no times.
    pub time: u64,
    /// The size of the object, in bytes; 1 if the trace has no sizes.
    pub size: u64,
    /// The cost of fetching the object, in microseconds; 0 if the trace has no costs.
    pub cost: u32,
}

/// A trace in memory.
#[derive(Debug, Default)]
pub struct Trace {
    ids: Vec<u32>,
    objects: u32,
    times: Column<u64>,
    sizes: Column<u64>,
    costs: Column<u32>,
    /// Hashes of the clients; 0 if the trace has none.
    clients: Column<u32>,
    /// By object: its URL, if the trace has URLs.
    names: Names,
    nexts: OnceLock<Vec<u32>>,
}

/// A value for each request, or one for all.
#[derive(Debug)]
enum Column<T> {
    Same(T),
    Each(Vec<T>),
}

impl Trace {
    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the columns that exist, for a replay. If all sizes are equal, the weight of an object is 1.
    pub fn shape(&self) -> Shape {
        Shape { objects: self.objects, sized: self.sizes.differs(), costed: self.costs.differs() }
    }

    /// Whether the trace has sizes, even if all are equal.
    pub fn has_sizes(&self) -> bool {
        self.sizes.differs() || !self.is_empty() && self.sizes.get(0) > 1
    }

    /// Returns the requested objects, in order.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the size of each request's object in bytes, if they differ.
    pub fn sizes(&self) -> Option<&[u64]> {
        self.sizes.each()
    }

    /// Returns the cost of each request's object in microseconds, if they differ.
    pub fn costs(&self) -> Option<&[u32]> {
        self.costs.each()
    }

    /// Returns the time of each request in microseconds, if they differ.
    pub fn times(&self) -> Option<&[u64]> {
        self.times.each()
    }

    /// Returns request number `at`, counted from 0, for a replay. Only [`Self::nexts`] provides the value of `next`.
    #[inline]
    pub fn request(&self, at: usize) -> Request {
        let (size, cost) = (self.sizes.get(at), self.costs.get(at));
        Request { id: self.ids[at], size, cost, next: u64::MAX }
    }

    /// Returns the size in bytes of request number `at`, counted from 0.
    #[inline]
    pub fn size(&self, at: usize) -> u64 {
        self.sizes.get(at)
    }

    /// Returns the time of request number `at`, counted from 0, in microseconds of the trace's epoch.
    #[inline]
    pub fn time(&self, at: usize) -> u64 {
        self.times.get(at)
    }

    /// Returns the earliest and the latest time, in microseconds of the trace's epoch. Logs are not always in order, and a
    /// line of a log with dates may have none.
    pub fn span(&self) -> Range<u64> {
        const OF_DATES: u64 = 1_000_000_000_000_000;
        let times = || (0..self.len()).map(|at| self.time(at));
        let latest = times().max().unwrap_or(0);
        let earliest = times().filter(|time| *time > 0 || latest < OF_DATES).min();
        earliest.unwrap_or(0)..latest
    }

    /// Returns a hash of the client of request number `at`, counted from 0; 0 if the trace has no clients.
    #[inline]
    pub fn client(&self, at: usize) -> u32 {
        self.clients.get(at)
    }

    /// Returns the URL of object `id`, if the trace has URLs.
    pub fn name(&self, id: u32) -> Option<&str> {
        self.names.get(id)
    }

    /// Returns the number, counted from 1, of the next request for the same object; `u32::MAX` for none. The first call
    /// computes it.
    pub fn nexts(&self) -> &[u32] {
        self.nexts.get_or_init(|| {
            let mut upcoming = vec![u32::MAX; self.objects as usize];
            let mut nexts = vec![u32::MAX; self.len()];
            for (at, &id) in self.ids.iter().enumerate().rev() {
                nexts[at] = std::mem::replace(&mut upcoming[id as usize], at as u32 + 1);
            }
            nexts
        })
    }

    /// Returns the sum of the objects' sizes in bytes, each at its first request.
    pub fn distinct_bytes(&self) -> u64 {
        let mut expected = 0;
        let mut sum = 0;
        for (at, &id) in self.ids.iter().enumerate() {
            if id == expected {
                expected += 1;
                sum += self.sizes.get(at);
            }
        }
        sum
    }
}

impl<T: Copy + PartialEq> Column<T> {
    #[inline]
    fn get(&self, at: usize) -> T {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values[at],
        }
    }

    fn each(&self) -> Option<&[T]> {
        match self {
            Self::Same(_) => None,
            Self::Each(values) => Some(values),
        }
    }

    fn differs(&self) -> bool {
        matches!(self, Self::Each(_))
    }

    /// Adds the value of request number `at`, which must be the next one.
    fn push(&mut self, at: usize, value: T) {
        match self {
            Self::Each(values) => values.push(value),
            Self::Same(same) if at == 0 => *same = value,
            Self::Same(same) if *same == value => {}
            Self::Same(same) => {
                let mut values = vec![*same; at];
                values.push(value);
                *self = Self::Each(values);
            }
        }
    }
}

impl<T: Default> Default for Column<T> {
    fn default() -> Self {
        Self::Same(T::default())
    }
}
