//! Decides when a node is so busy that requests for its keys go to the next node.

use larder_words::with_defaults;

use crate::ring::Ring;

with_defaults! {
    /// Bounded load: no node has more than a fixed multiple of its share of the requests in flight.
    ///
    /// Source: Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Load {
        /// The multiple of its share that a node may have. At least 1.
        pub factor: f64 = 1.25,
        /// The requests that a node may have in any case. Below it no request is redirected; a redirected key is
        /// fetched by two nodes.
        pub floor: u64 = 32,
    }
}

impl Load {
    /// Returns the node to ask for the key with this hash: the first of [`Ring::ranked`] that is below its bound.
    /// `in_flight` has the requests in flight at each node, by its index in the ring; a missing node has none.
    pub fn choose(&self, ring: &Ring, hash: u64, in_flight: &[u64]) -> Option<usize> {
        let has_room =
            |node: usize| in_flight.get(node).copied().unwrap_or(0) < self.bound(ring, node, in_flight);
        let owner = ring.owner(hash)?;
        if has_room(owner) {
            return Some(owner);
        }
        Some(ring.ranked(hash).into_iter().find(|node| has_room(*node)).unwrap_or(owner))
    }

    /// Returns the most requests that may be in flight at a node when one more is about to begin at some node.
    pub fn bound(&self, ring: &Ring, node: usize, in_flight: &[u64]) -> u64 {
        let total = in_flight.iter().sum::<u64>().saturating_add(1);
        let bound = (self.factor.max(1.0) * total as f64 * ring.share(node)).ceil();
        self.floor.max(bound as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Load;
    use crate::{Node, Ring, key_hash};

    fn three() -> Ring {
        Ring::new(["a", "b", "c"].map(Node::new).to_vec())
    }

    #[test]
    fn a_busy_owner_spills_to_the_next() {
        let ring = three();
        let hash = key_hash(b"key");
        let ranked = ring.ranked(hash);
        let load = Load { factor: 1.25, floor: 4 };
        let choose = |first: u64, second: u64, third: u64| {
            let mut in_flight = [0; 3];
            for (node, count) in ranked.iter().zip([first, second, third]) {
                in_flight[*node] = count;
            }
            let chosen = load.choose(&ring, hash, &in_flight).unwrap();
            ranked.iter().position(|node| *node == chosen).unwrap()
        };
        for (in_flight, expected) in [
            ((0, 0, 0), 0),
            ((3, 0, 0), 0),
            ((4, 0, 0), 1),
            ((4, 4, 0), 2),
            ((40, 40, 40), 0),
            ((51, 40, 40), 0),
            ((60, 40, 40), 1),
            ((60, 60, 0), 2),
        ] {
            assert_eq!(choose(in_flight.0, in_flight.1, in_flight.2), expected, "{in_flight:?}");
        }
    }

    #[test]
    fn without_nodes_no_node_is_chosen() {
        assert_eq!(Load::default().choose(&Ring::new(Vec::new()), 1, &[]), None);
    }

    proptest! {
        #[test]
        fn no_node_gets_past_its_bound(
            weights in prop::collection::vec(1_u16..10, 1..8),
            keys in prop::collection::vec(any::<u64>(), 1..300),
        ) {
            let nodes = weights.iter().enumerate();
            let nodes = nodes.map(|(i, weight)| Node { weight: *weight, ..Node::new(format!("n{i}")) });
            let ring = Ring::new(nodes.collect());
            let load = Load { factor: 1.25, floor: 2 };
            let mut in_flight = vec![0; weights.len()];
            for key in keys {
                let chosen = load.choose(&ring, key, &in_flight).unwrap();
                let bound = load.bound(&ring, chosen, &in_flight);
                in_flight[chosen] += 1;
                prop_assert!(in_flight[chosen] <= bound, "{in_flight:?} over {bound}");
            }
        }
    }
}
