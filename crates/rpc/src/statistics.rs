//! The counters of a server, and the common table of their fields for all protocols.

/// A reference to the value of a counter.
pub enum Slot<'a> {
    /// A number.
    Count(&'a mut u64),
    /// A ratio or a time.
    Real(&'a mut f64),
    /// A word.
    Word(&'a mut String),
}

/// Declares the counters: their struct, and the references to their values in the same order, which is that of their
/// numbers in Thrift (from 1) and of their lines in the line protocol.
macro_rules! statistics {
    ($($(#[$doc:meta])* $field:ident: $type:ty, $slot:ident;)*) => {
        /// The counters of a server since it started, or since the last [reset](crate::Call::Reset).
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Statistics {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Statistics {
            /// Returns the names of the counters, with references to their values.
            pub fn slots(&mut self) -> [(&'static str, Slot<'_>); [$(stringify!($field)),*].len()] {
                [$((stringify!($field), Slot::$slot(&mut self.$field)),)*]
            }
        }
    };
}

statistics! {
    /// Requests answered.
    requests: u64, Count;
    /// Requests answered from the cache.
    hits: u64, Count;
    /// Requests that had to be fetched.
    misses: u64, Count;
    /// hits / (hits + validated + misses), from 0 to 1.
    hit_ratio: f64, Real;
    /// Bytes from the cache / bytes served, over the same requests, from 0 to 1.
    byte_hit_ratio: f64, Real;
    /// Mean time to serve a request, in microseconds.
    average_micros: f64, Real;
    /// The median time to serve a request, in microseconds.
    p50_micros: f64, Real;
    /// The 90th percentile of the time to serve a request, in microseconds.
    p90_micros: f64, Real;
    /// The 99th percentile of the time to serve a request, in microseconds.
    p99_micros: f64, Real;
    /// Bytes of content in the cache.
    bytes_stored: u64, Count;
    /// Objects in the cache.
    entries: u64, Count;
    /// The capacity of the cache, in `capacity_unit`.
    capacity: u64, Count;
    /// The unit of the capacity: `bytes` or `entries`.
    capacity_unit: String, Word;
    /// The eviction policy in force.
    policy: String, Word;
    /// Requests answered from the cache after a successful revalidation with the origin.
    validated: u64, Count;
    /// (hits + validated) / (hits + validated + misses), from 0 to 1.
    validated_hit_ratio: f64, Real;
}
