//! Requests in order, their objects numbered from 0 by first appearance.
//!
//! Columns, not rows: a replay reads only what it needs, and a column with one value only is not stored.

mod builder;
mod format;
mod formats;
mod input;
mod names;
mod read;
mod sink;

use std::sync::OnceLock;

use larder_evict::{Request, Shape};

use names::Names;

pub use builder::{Builder, TooMany};
pub use format::Format;
pub use formats::fields::Field;
pub use read::{Error, LeftOut, Options, Reading, read, read_from, requests};

/// What one line or record of a trace file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<K> {
    /// What stands for the object: an id, or a URL.
    pub key: K,
    /// When it was asked for, in microseconds of any epoch; 0 where the trace does not say.
    pub time: u64,
    /// How large it is, in bytes; 1 where the trace does not say.
    pub size: u64,
    /// What fetching it cost, in microseconds; 0 where the trace does not say.
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
    /// Marks of those who asked; 0 where the trace does not say.
    clients: Column<u32>,
    /// By object: its URL, where the trace has URLs.
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
    /// Number of requests.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Which columns there are, for a replay. A trace whose sizes are all alike weighs 1 an object.
    pub fn shape(&self) -> Shape {
        Shape { objects: self.objects, sized: self.sizes.differs(), costed: self.costs.differs() }
    }

    /// The objects asked for, in order.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The size of each request's object in bytes, if they differ.
    pub fn sizes(&self) -> Option<&[u64]> {
        self.sizes.each()
    }

    /// The cost of each request's object in microseconds, if they differ.
    pub fn costs(&self) -> Option<&[u32]> {
        self.costs.each()
    }

    /// The time of each request in microseconds, if they differ.
    pub fn times(&self) -> Option<&[u64]> {
        self.times.each()
    }

    /// Request number `at`, counted from 0, as a replay asks it. `next` is filled in by [`Self::nexts`] alone.
    #[inline]
    pub fn request(&self, at: usize) -> Request {
        let (size, cost) = (self.sizes.get(at), self.costs.get(at));
        Request { id: self.ids[at], size, cost, next: u64::MAX }
    }

    /// The size in bytes that request number `at`, counted from 0, asks for.
    #[inline]
    pub fn size(&self, at: usize) -> u64 {
        self.sizes.get(at)
    }

    /// When request number `at`, counted from 0, was made: microseconds of the trace's epoch.
    #[inline]
    pub fn time(&self, at: usize) -> u64 {
        self.times.get(at)
    }

    /// A mark of the client that made request number `at`, counted from 0; 0 where the trace does not say.
    #[inline]
    pub fn client(&self, at: usize) -> u32 {
        self.clients.get(at)
    }

    /// Whether the trace tells clients apart.
    pub fn has_clients(&self) -> bool {
        self.clients.differs() || (!self.is_empty() && self.client(0) != 0)
    }

    /// The URL of object `id`, where the trace has URLs.
    pub fn name(&self, id: u32) -> Option<&str> {
        self.names.get(id)
    }

    /// The number, counted from 1, of the request that asks next for the same object; `u32::MAX` for none.
    /// Computed when first asked for.
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

    /// The sum of the objects' sizes in bytes, each as it was first asked for.
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

    /// Adds the value of request number `at`, which is the next.
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
