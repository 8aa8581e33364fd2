//! The node at which each request arrives, and the owner of its object at that time.

use std::num::NonZeroU16;

use larder_cluster::{Node, Ring, key_hash};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::trace::Trace;

/// The distribution of requests and objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadShares {
    /// The share of the requests, 0 to 1, that a load balancer sends to the owner; the others arrive at a random node,
    /// with equal probability.
    pub affinity: f64,
    /// The number of slots of a fixed pool in place of rendezvous hashing, as in [`Ring::slots`].
    pub slots: Option<NonZeroU16>,
    /// The number of nodes that are lost half-way through the counted requests: fewer than there are.
    pub lost: u16,
}

/// The time of the loss of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The first request after it, counted from 0.
    pub at: usize,
    /// The number of compared requests before and after it.
    pub window: usize,
}

/// For each request, the asked node and the owner.
#[derive(Clone, Debug)]
pub struct Placement {
    nodes: u16,
    asked: Vec<u16>,
    owners: Vec<u16>,
    loss: Option<Loss>,
}

impl Placement {
    /// Places the requests of `trace` on `nodes` nodes; those from `first_counted` on are counted.
    pub fn new(
        trace: &Trace,
        nodes: NonZeroU16,
        sharing: &LoadShares,
        first_counted: usize,
        seed: u64,
    ) -> Self {
        let nodes = nodes.get();
        let counted = trace.len() - first_counted.min(trace.len());
        let is_lossy = (1..nodes).contains(&sharing.lost);
        let loss = is_lossy.then(|| Loss { at: first_counted + counted / 2, window: (counted / 10).max(1) });
        let (before, after) = match loss {
            Some(loss) => (loss.at, Some(nodes - sharing.lost)),
            None => (trace.len(), None),
        };
        let mut placement = Self { nodes, asked: Vec::new(), owners: Vec::new(), loss };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        placement.extend(&trace.ids()[..before], trace, nodes, sharing, &mut random);
        if let Some(left) = after {
            placement.extend(&trace.ids()[before..], trace, left, sharing, &mut random);
        }
        placement
    }

    /// Places the next requests, while the first `live` of all nodes are live.
    fn extend(
        &mut self,
        ids: &[u32],
        trace: &Trace,
        live: u16,
        sharing: &LoadShares,
        random: &mut ChaCha8Rng,
    ) {
        let by_object = owners(trace, live, sharing.slots);
        for &id in ids {
            let owner = by_object[id as usize];
            let is_balanced = sharing.affinity > 0.0 && random.random::<f64>() < sharing.affinity;
            self.asked.push(if is_balanced { owner } else { random.random_range(0..live) });
            self.owners.push(owner);
        }
    }

    /// Returns the initial number of nodes.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Returns the node at which request number `at` arrives, and the owner of its object, both counted from 0.
    #[inline]
    pub fn at(&self, at: usize) -> (u16, u16) {
        (self.asked[at], self.owners[at])
    }

    /// Returns the time of the loss of nodes, if any are lost.
    pub fn loss(&self) -> Option<Loss> {
        self.loss
    }
}

/// Returns the owner of each object.
fn owners(trace: &Trace, live: u16, slots: Option<NonZeroU16>) -> Vec<u16> {
    // The names are padded, so that the ring, which orders by name, has the same order.
    let nodes = (0..live).map(|node| Node::new(format!("node-{node:05}"))).collect();
    let ring = match slots {
        Some(slots) => Ring::slots(nodes, slots.get().into()),
        None => Ring::new(nodes),
    };
    let owner = |id: u32| ring.owner(key_hash(&id.to_le_bytes())).map_or(0, |node| node as u16);
    (0..trace.shape().objects).map(owner).collect()
}
