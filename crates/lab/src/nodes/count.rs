//! The totals of a cluster.

use std::ops::Range;

use super::placement::Placement;
use crate::replay::ratio;
use crate::trace::Trace;

/// What happened after the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Those of them that some node had the object for: the rest went to the origin.
    pub hits: u64,
    /// Hits of the node that the client asked, without another node.
    pub local_hits: u64,
    /// Requests that went from node to node.
    pub peer_requests: u64,
    /// Bytes that clients asked for.
    pub bytes: u128,
    /// Those of them that some node had.
    pub hit_bytes: u128,
    /// Bytes that went from node to node.
    pub peer_bytes: u128,
    /// How many times the mean of all nodes the busiest one answered, clients and nodes together: at least 1.
    pub request_imbalance: f64,
    /// The same of bytes.
    pub byte_imbalance: f64,
    /// The hit ratio shortly before and shortly after nodes were lost, if any were.
    pub around_loss: Option<(f64, f64)>,
}

impl Counts {
    /// Adds up the requests from `first` on. `copied` says which found their object among the copies of the node
    /// that was asked, `owned` which found it at its owner.
    pub(super) fn new(
        trace: &Trace,
        placement: &Placement,
        copied: &[bool],
        owned: &[bool],
        first: usize,
    ) -> Self {
        let nodes = usize::from(placement.nodes());
        let (mut requests, mut bytes) = (vec![0_u64; nodes], vec![0_u128; nodes]);
        let mut counts = Self::default();
        for at in first..trace.len() {
            let size = u128::from(trace.size(at));
            let (asked, owner) = placement.at(at);
            let is_hit = copied[at] || owned[at];
            let crosses = asked != owner && !copied[at];
            counts.requests += 1;
            counts.hits += u64::from(is_hit);
            counts.local_hits += u64::from(is_hit && !crosses);
            counts.bytes += size;
            counts.hit_bytes += if is_hit { size } else { 0 };
            requests[usize::from(asked)] += 1;
            bytes[usize::from(asked)] += size;
            if crosses {
                counts.peer_requests += 1;
                counts.peer_bytes += size;
                requests[usize::from(owner)] += 1;
                bytes[usize::from(owner)] += size;
            }
        }
        counts.request_imbalance = imbalance(requests.into_iter().map(|count| count as f64));
        counts.byte_imbalance = imbalance(bytes.into_iter().map(|count| count as f64));
        counts.around_loss = placement.loss().map(|loss| {
            let hit_ratio = |range: Range<usize>| {
                let hits = range.clone().filter(|&at| copied[at] || owned[at]).count();
                ratio(hits as f64, range.len() as f64)
            };
            let from = loss.at.saturating_sub(loss.window).max(first);
            let to = (loss.at + loss.window).min(trace.len());
            (hit_ratio(from..loss.at), hit_ratio(loss.at..to))
        });
        counts
    }

    /// Hits over requests: what of the clients' requests the origin was spared.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits as f64, self.requests as f64)
    }

    /// Bytes that some node had over bytes asked for.
    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes as f64, self.bytes as f64)
    }

    /// Hits without another node over requests.
    pub fn local_hit_ratio(&self) -> f64 {
        ratio(self.local_hits as f64, self.requests as f64)
    }

    /// Requests to the origin.
    pub fn origin_requests(&self) -> u64 {
        self.requests - self.hits
    }

    /// Requests between nodes for each request of a client.
    pub fn peer_requests_per_request(&self) -> f64 {
        ratio(self.peer_requests as f64, self.requests as f64)
    }

    /// Bytes between nodes for each request of a client.
    pub fn peer_bytes_per_request(&self) -> f64 {
        ratio(self.peer_bytes as f64, self.requests as f64)
    }
}

/// The greatest over the mean; 1 of nothing.
fn imbalance(loads: impl Iterator<Item = f64> + Clone) -> f64 {
    let nodes = loads.clone().count() as f64;
    let (sum, most) = loads.fold((0.0, 0.0_f64), |(sum, most), load| (sum + load, most.max(load)));
    if sum > 0.0 { most * nodes / sum } else { 1.0 }
}
