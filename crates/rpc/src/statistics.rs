//! The counters of a server, and the common table of their fields for all protocols.

/// The counters of a server since it started, or since the last [reset](crate::Call::Reset).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// Requests answered.
    pub requests: u64,
    /// Requests answered from the cache.
    pub hits: u64,
    /// Requests that had to be fetched.
    pub misses: u64,
    /// hits / (hits + validated + misses), from 0 to 1.
    pub hit_ratio: f64,
    /// Bytes from the cache / bytes served, over the same requests, from 0 to 1.
    pub byte_hit_ratio: f64,
    /// Mean time to serve a request, in microseconds.
    pub average_micros: f64,
    /// The median time to serve a request, in microseconds.
    pub p50_micros: f64,
    /// The 90th percentile of the time to serve a request, in microseconds.
    pub p90_micros: f64,
    /// The 99th percentile of the time to serve a request, in microseconds.
    pub p99_micros: f64,
    /// Bytes of content in the cache.
    pub bytes_stored: u64,
    /// Objects in the cache.
    pub entries: u64,
    /// The capacity of the cache, in `capacity_unit`.
    pub capacity: u64,
    /// The unit of the capacity: `bytes` or `entries`.
    pub capacity_unit: String,
    /// The eviction policy in force.
    pub policy: String,
    /// Requests answered from the cache after a successful revalidation with the origin.
    pub validated: u64,
    /// (hits + validated) / (hits + validated + misses), from 0 to 1.
    pub validated_hit_ratio: f64,
}

/// A reference to the value of a field.
pub(crate) enum Slot<'a> {
    Count(&'a mut u64),
    Real(&'a mut f64),
    Word(&'a mut String),
}

impl Statistics {
    /// The fields, in the order of their numbers in Thrift (from 1) and of their lines in the line protocol.
    pub(crate) fn slots(&mut self) -> [(&'static str, Slot<'_>); 16] {
        use Slot::{Count, Real, Word};
        [
            ("requests", Count(&mut self.requests)),
            ("hits", Count(&mut self.hits)),
            ("misses", Count(&mut self.misses)),
            ("hit_ratio", Real(&mut self.hit_ratio)),
            ("byte_hit_ratio", Real(&mut self.byte_hit_ratio)),
            ("average_micros", Real(&mut self.average_micros)),
            ("p50_micros", Real(&mut self.p50_micros)),
            ("p90_micros", Real(&mut self.p90_micros)),
            ("p99_micros", Real(&mut self.p99_micros)),
            ("bytes_stored", Count(&mut self.bytes_stored)),
            ("entries", Count(&mut self.entries)),
            ("capacity", Count(&mut self.capacity)),
            ("capacity_unit", Word(&mut self.capacity_unit)),
            ("policy", Word(&mut self.policy)),
            ("validated", Count(&mut self.validated)),
            ("validated_hit_ratio", Real(&mut self.validated_hit_ratio)),
        ]
    }
}
