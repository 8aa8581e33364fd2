//! The node at which each request arrives, and the owner of its object then.

use std::num::NonZeroU16;

use larder_cluster::{Node, Ring, key_hash};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::trace::Trace;

/// How requests and objects are shared out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    /// The share of the requests, 0 to 1, that a balancer brings to the owner; the rest arrives anywhere, each node
    /// being as likely as the next.
    pub affinity: f64,
    /// A fixed pool of so many slots in place of rendezvous hashing, as [`Ring::slots`] has it.
    pub slots: Option<NonZeroU16>,
    /// How many nodes are lost half-way through what is counted: fewer than there are.
    pub lost: u16,
}

/// The moment when nodes are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The first request after it, counted from 0.
    pub at: usize,
    /// How many requests before and after it are compared.
    pub window: usize,
}

/// For each request the node that is asked and the node that owns.
#[derive(Clone, Debug)]
pub struct Placement {
    nodes: u16,
    asked: Vec<u16>,
    owners: Vec<u16>,
    loss: Option<Loss>,
}

impl Placement {
    /// Places the requests of `trace` on `nodes` nodes; those from `first_counted` on are counted.
    pub fn new(trace: &Trace, nodes: NonZeroU16, sharing: &Sharing, first_counted: usize, seed: u64) -> Self {
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

    /// Places the next requests, while the first `live` of all nodes are there.
    fn extend(&mut self, ids: &[u32], trace: &Trace, live: u16, sharing: &Sharing, random: &mut ChaCha8Rng) {
        let by_object = owners(trace, live, sharing.slots);
        for &id in ids {
            let owner = by_object[id as usize];
            let is_balanced = sharing.affinity > 0.0 && random.random::<f64>() < sharing.affinity;
            self.asked.push(if is_balanced { owner } else { random.random_range(0..live) });
            self.owners.push(owner);
        }
    }

    /// How many nodes there are at first.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// The node that request number `at` arrives at, and the one that owns its object, both counted from 0.
    #[inline]
    pub fn at(&self, at: usize) -> (u16, u16) {
        (self.asked[at], self.owners[at])
    }

    /// When nodes are lost, if any are.
    pub fn loss(&self) -> Option<Loss> {
        self.loss
    }
}

/// The owner of each object.
fn owners(trace: &Trace, live: u16, slots: Option<NonZeroU16>) -> Vec<u16> {
    // Padded, so that the ring, which goes by name, counts them as we do.
    let nodes = (0..live).map(|node| Node::new(format!("node-{node:05}"))).collect();
    let ring = match slots {
        Some(slots) => Ring::slots(nodes, slots.get().into()),
        None => Ring::new(nodes),
    };
    let owner = |id: u32| ring.owner(key_hash(&id.to_le_bytes())).map_or(0, |node| node as u16);
    (0..trace.shape().objects).map(owner).collect()
}
