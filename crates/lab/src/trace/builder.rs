//! Numbers objects in order of appearance.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::{Record, Trace};

/// Builds a [`Trace`] from records in order.
#[derive(Debug, Default)]
pub struct Builder {
    trace: Trace,
    by_number: HashMap<u64, u32>,
    /// Objects by the hash of their names; the trace holds the names.
    by_name: HashTable<u32>,
    hasher: DefaultHashBuilder,
    client: u32,
}

/// A trace has more requests, or more objects, than can be numbered: 4,294,967,294.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {} requests; take a sample of the trace (--sample 0.01)", u32::MAX - 1)]
pub struct TraceTooLong;

impl Builder {
    /// Sets the client of the requests that are added from now on; 0 if unknown.
    pub fn by(&mut self, client: u32) {
        self.client = client;
    }

    /// Adds a request for an object that the trace identifies by a number.
    pub fn push_number(&mut self, record: Record<u64>) -> Result<(), TraceTooLong> {
        let objects = self.trace.objects;
        let id = *self.by_number.entry(record.key).or_insert(objects);
        self.push(id, Record { key: (), time: record.time, size: record.size, cost: record.cost })
    }

    /// Adds a request for an object that the trace identifies by a name, such as a URL.
    pub fn push_name(&mut self, record: Record<&str>) -> Result<(), TraceTooLong> {
        let Self { trace, by_name, hasher, .. } = self;
        let hash = hasher.hash_one(record.key);
        let same = |id: &u32| trace.names.get(*id) == Some(record.key);
        let again = |id: &u32| trace.names.get(*id).map_or(0, |name| hasher.hash_one(name));
        let id = match by_name.entry(hash, same, again) {
            Entry::Occupied(there) => *there.get(),
            Entry::Vacant(vacant) => {
                vacant.insert(trace.objects);
                trace.names.push(trace.objects, record.key);
                trace.objects
            }
        };
        self.push(id, Record { key: (), time: record.time, size: record.size, cost: record.cost })
    }

    /// Returns the number of requests so far.
    pub fn len(&self) -> usize {
        self.trace.len()
    }

    /// Whether there are no requests yet.
    pub fn is_empty(&self) -> bool {
        self.trace.is_empty()
    }

    /// Returns the trace so far.
    pub fn finish(self) -> Trace {
        self.trace
    }

    fn push(&mut self, id: u32, record: Record<()>) -> Result<(), TraceTooLong> {
        let trace = &mut self.trace;
        let at = trace.ids.len();
        if at >= u32::MAX as usize - 1 {
            return Err(TraceTooLong);
        }
        trace.objects += u32::from(id == trace.objects);
        trace.ids.push(id);
        trace.times.push(at, record.time);
        trace.sizes.push(at, record.size);
        trace.costs.push(at, record.cost);
        trace.clients.push(at, self.client);
        Ok(())
    }
}
