//! The same cache on every node, each with the requests that reach the node.

use larder_evict::{AnyPolicy, Capacity, Replay, Request, Shape, Spec};

use crate::trace::Trace;

/// The requests that reach each node, in order.
pub(super) struct Streams {
    /// The start of each node's part in `requests`, and the end of the last one.
    starts: Vec<usize>,
    requests: Vec<u32>,
}

impl Streams {
    /// Selects from `requests` requests those for which `node` returns a node.
    pub(super) fn new(nodes: u16, requests: usize, node: impl Fn(usize) -> Option<u16>) -> Self {
        let mut starts = vec![0; usize::from(nodes) + 1];
        (0..requests).filter_map(&node).for_each(|node| starts[usize::from(node) + 1] += 1);
        for node in 1..starts.len() {
            starts[node] += starts[node - 1];
        }
        let mut ends = starts.clone();
        let mut sorted = vec![0; starts[starts.len() - 1]];
        for at in 0..requests {
            if let Some(node) = node(at) {
                let end = &mut ends[usize::from(node)];
                sorted[*end] = at as u32;
                *end += 1;
            }
        }
        Self { starts, requests: sorted }
    }

    /// Returns the number of requests that reach any node.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.starts.windows(2).map(|ends| &self.requests[ends[0]..ends[1]])
    }
}

/// A cache of every node.
pub(super) struct Tier<'a> {
    pub(super) trace: &'a Trace,
    pub(super) spec: &'a Spec,
    /// The capacity of each node, in the units of a replay.
    pub(super) capacity: Capacity,
    pub(super) seed: u64,
}

impl Tier<'_> {
    /// Replays each node's requests, and marks in `found` the requests that found their object. `watch` is called after
    /// each node with the number of its requests, and returns whether to continue. Returns `None` if it stopped.
    pub(super) fn replay(
        &self,
        streams: &Streams,
        found: &mut [bool],
        watch: &dyn Fn(usize) -> bool,
    ) -> Option<()> {
        let Tier { trace, spec, capacity, seed } = *self;
        let mut numbers = Numbers::new(trace.shape().objects);
        for (node, stream) in (0_u64..).zip(streams.iter()) {
            let objects = numbers.assign(stream.iter().map(|&at| trace.ids()[at as usize]));
            let shape = Shape { objects, ..trace.shape() };
            let seed = seed.wrapping_add(node);
            let mut cache = Replay::<AnyPolicy>::new(capacity, shape, spec.clone(), seed);
            for &at in stream {
                let request = trace.request(at as usize);
                let id = numbers.of(request.id);
                found[at as usize] = cache.request(Request { id, ..request });
            }
            if !watch(stream.len()) {
                return None;
            }
        }
        Some(())
    }
}

/// The objects of one stream, numbered from 0 by first appearance: a node then takes memory only for the objects of its
/// own stream.
struct Numbers {
    /// By object: its last stream, and its number there.
    seen: Vec<(u32, u32)>,
    streams: u32,
}

impl Numbers {
    fn new(objects: u32) -> Self {
        Self { seen: vec![(0, 0); objects as usize], streams: 0 }
    }

    /// Numbers the next stream's objects. Returns their number.
    fn assign(&mut self, ids: impl Iterator<Item = u32>) -> u32 {
        self.streams += 1;
        let mut objects = 0;
        for id in ids {
            let seen = &mut self.seen[id as usize];
            if seen.0 != self.streams {
                *seen = (self.streams, objects);
                objects += 1;
            }
        }
        objects
    }

    /// Returns the number of an object in the last stream, which must contain it.
    fn of(&self, id: u32) -> u32 {
        self.seen[id as usize].1
    }
}
