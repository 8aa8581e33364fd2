//! The owner of a key. Every node computes it alone, with the same result.

use crate::hash::key_hash;
use crate::score::Seat;

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// The unique name. A key keeps its owner as long as the names stay the same.
    pub name: String,
    /// Its part of the keys, relative to the weights of the others. A node of weight 0 owns none.
    pub weight: u16,
    /// Whether it is draining: it owns no key any more, and still answers.
    pub draining: bool,
}

impl Node {
    /// Returns a node of weight 1 that is not draining.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), weight: 1, draining: false }
    }

    /// Returns the weight in force.
    fn effective_weight(&self) -> u16 {
        if self.draining { 0 } else { self.weight }
    }
}

/// The owners of keys. When one of n equal nodes joins or leaves, one key in n moves: to that node, or away from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    nodes: Vec<Node>,
    /// The owners of keys: their index in `nodes`, and the input of their score.
    seats: Vec<(usize, Seat)>,
    /// The fixed pool: indices into `seats`. Empty for rendezvous hashing.
    slots: Vec<usize>,
}

impl Ring {
    /// Returns the ring of these nodes by weighted rendezvous hashing. Their order does not matter. Of
    /// several nodes with one name one is kept.
    pub fn new(mut nodes: Vec<Node>) -> Self {
        nodes.sort();
        nodes.dedup_by(|later, earlier| later.name == earlier.name);
        let seats = (nodes.iter().enumerate())
            .filter(|(_, node)| node.effective_weight() > 0)
            .map(|(index, node)| (index, Seat::new(key_hash(node.name.as_bytes()), node.effective_weight())))
            .collect();
        Self { nodes, seats, slots: Vec::new() }
    }

    /// Returns the ring of these nodes by a fixed pool of `count` slots, assigned to the nodes in turn: a key's hash
    /// selects its slot. Weights do not count. It serves for comparison: when a node joins or leaves, most keys move.
    ///
    /// Source: the report on revalidation and caching of microservices, section on scaling (a pool of 50).
    pub fn slots(nodes: Vec<Node>, count: usize) -> Self {
        let ring = Self::new(nodes);
        let slots = match ring.seats.len() {
            0 => Vec::new(),
            seats => (0..count).map(|slot| slot % seats).collect(),
        };
        Self { slots, ..ring }
    }

    /// Returns the nodes, by name. All indices of this ring refer to this list.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the index of the node of this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok()
    }

    /// Returns the index of the node that owns the key with this [`key_hash`], if any node owns keys.
    pub fn owner(&self, hash: u64) -> Option<usize> {
        if !self.slots.is_empty() {
            return Some(self.seats[self.slot(hash)].0);
        }
        let nearest = self.seats.iter().min_by_key(|(_, seat)| seat.score(hash))?;
        Some(nearest.0)
    }

    /// Returns all nodes that own keys: the owner first, then the nodes that would own the key without those before.
    pub fn ranked(&self, hash: u64) -> Vec<usize> {
        let mut seats: Vec<_> = self.seats.iter().map(|(index, seat)| (seat.score(hash), *index)).collect();
        if self.slots.is_empty() {
            seats.sort_unstable();
        } else {
            seats.rotate_left(self.slot(hash));
        }
        seats.into_iter().map(|(_, index)| index).collect()
    }

    /// Returns the part of all keys, 0 to 1, that the node of this index owns.
    pub fn share(&self, index: usize) -> f64 {
        if !self.slots.is_empty() {
            let held = self.slots.iter().filter(|seat| self.seats[**seat].0 == index).count();
            return held as f64 / self.slots.len() as f64;
        }
        let weight = |index: usize| f64::from(self.nodes[index].effective_weight());
        let sum: f64 = self.seats.iter().map(|(index, _)| weight(*index)).sum();
        if sum > 0.0 { weight(index) / sum } else { 0.0 }
    }

    fn slot(&self, hash: u64) -> usize {
        self.slots[(hash % self.slots.len() as u64) as usize]
    }
}
