//! Counts what was answered, per worker, without locks and without sharing cache lines.
//!
//! **Hits** are requests answered without asking an origin for them: from a fresh or allowed-stale
//! stored response, or from a fetch that another request had already begun (coalesced). **Misses**
//! are requests that could have been hits and asked the origin: nothing stored, or stored and
//! revalidated. **Passes** were never the cache's business (unsafe methods, tunnels). Hit ratio =
//! hits / (hits + misses); byte hit ratio = bytes from cache / bytes served, over the same requests.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::outcome::Kind;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One worker's counts. Only that worker writes.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters { $($name: AtomicU64),* }

        /// Counts at one moment, summed over workers.
        #[derive(Clone, Copy, Debug, Default, Serialize)]
        pub(crate) struct Totals { $($(#[$doc])* pub(crate) $name: u64),* }

        impl Totals {
            pub(crate) fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.load(Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// Requests answered, refused ones included.
    requests,
    /// Answered without asking an origin.
    hits,
    /// Asked an origin, though the cache might have answered.
    misses,
    /// Not the cache's business.
    passes,
    /// Hits found on a disk.
    disk_hits,
    /// Hits served stale.
    stale,
    /// Hits that waited for another request's fetch.
    coalesced,
    /// Misses that found their stored response still good (304).
    revalidations,
    /// Answers 5xx of our own making.
    errors,
    /// Requests refused as malformed or too much.
    refused,
    /// Bytes sent, heads included.
    bytes_served,
    /// Of hits and misses, bytes sent.
    bytes_cacheable,
    /// Of those, bytes that came from the cache.
    bytes_from_cache,
}

impl Counters {
    /// Counts a hit that was found on a disk, besides.
    pub(crate) fn record_disk(&self) {
        add(&self.disk_hits, 1);
    }

    /// Counts one reply of `bytes` bytes.
    pub(crate) fn record(&self, kind: Kind, bytes: u64) {
        add(&self.requests, 1);
        add(&self.bytes_served, bytes);
        let (counter, from_cache) = match kind {
            Kind::Hit => (&self.hits, bytes),
            Kind::StaleHit => {
                add(&self.stale, 1);
                (&self.hits, bytes)
            }
            Kind::Coalesced => {
                add(&self.coalesced, 1);
                (&self.hits, bytes)
            }
            Kind::Revalidated => {
                add(&self.revalidations, 1);
                (&self.misses, bytes)
            }
            Kind::Miss => (&self.misses, 0),
            Kind::Pass => return add(&self.passes, 1),
            Kind::Refused => return add(&self.refused, 1),
            Kind::Failed => return add(&self.errors, 1),
        };
        add(counter, 1);
        add(&self.bytes_cacheable, bytes);
        add(&self.bytes_from_cache, from_cache);
    }
}

impl Totals {
    /// Hits / (hits + misses); 0 before the first.
    pub(crate) fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.hits + self.misses)
    }

    /// Bytes from cache / bytes served, over hits and misses; 0 before the first.
    pub(crate) fn byte_hit_ratio(&self) -> f64 {
        ratio(self.bytes_from_cache, self.bytes_cacheable)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// One writer only: no locked instruction needed.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use larder_stats::outcome::classify;

    use super::*;

    #[test]
    fn requests_count_here_as_they_do_in_the_statistics() {
        for kind in Kind::ALL {
            let (counters, mut totals) = (Counters::default(), Totals::default());
            counters.record(kind, 7);
            totals.add(&counters);
            let outcome = classify(kind.word()).expect("a known word");
            let counted = (totals.hits == 1, totals.misses == 1, totals.bytes_from_cache == 7);
            assert_eq!(counted, (outcome.is_hit, outcome.is_miss, outcome.from_cache), "{kind:?}");
        }
    }
}
