//! The totals of a cluster.

use std::ops::Range;

use super::placement::Placement;
use crate::replay::ratio;
use crate::trace::Trace;

/// The counts after the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Hits: requests for which some node had the object. The others went to the origin.
    pub hits: u64,
    /// Hits of the node that the client asked, without a request to another node.
    pub local_hits: u64,
    /// Requests between nodes.
    pub peer_requests: u64,
    /// Bytes that clients requested.
    pub bytes: u128,
    /// Requested bytes that some node had.
    pub hit_bytes: u128,
    /// Bytes sent between nodes.
    pub peer_bytes: u128,
    /// The requests that the busiest node answered, for clients and nodes, over the mean of all nodes: at least 1.
    pub request_imbalance: f64,
    /// The same for bytes.
    pub byte_imbalance: f64,
    /// The hit ratio shortly before and shortly after the loss of nodes, if any were lost.
    pub around_loss: Option<(f64, f64)>,
}

impl Counts {
    /// Counts the requests from `first` on. `copied` marks requests that found their object among the copies of the
    /// asked node, `owned` those that found it at its owner.
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

    /// Returns hits over requests: the share of the clients' requests that did not reach the origin.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits as f64, self.requests as f64)
    }

    /// Returns bytes of hits over requested bytes.
    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes as f64, self.bytes as f64)
    }

    /// Returns hits without another node over requests.
    pub fn local_hit_ratio(&self) -> f64 {
        ratio(self.local_hits as f64, self.requests as f64)
    }

    /// Returns the requests to the origin.
    pub fn origin_requests(&self) -> u64 {
        self.requests - self.hits
    }

    /// Returns the requests between nodes for each request of a client.
    pub fn peer_requests_per_request(&self) -> f64 {
        ratio(self.peer_requests as f64, self.requests as f64)
    }

    /// Returns the bytes between nodes for each request of a client.
    pub fn peer_bytes_per_request(&self) -> f64 {
        ratio(self.peer_bytes as f64, self.requests as f64)
    }
}

/// Returns the maximum over the mean; 1 if there are no loads.
fn imbalance(loads: impl Iterator<Item = f64> + Clone) -> f64 {
    let nodes = loads.clone().count() as f64;
    let (sum, most) = loads.fold((0.0, 0.0_f64), |(sum, most), load| (sum + load, most.max(load)));
    if sum > 0.0 { most * nodes / sum } else { 1.0 }
}
