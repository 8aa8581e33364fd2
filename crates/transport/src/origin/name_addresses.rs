//! The addresses of a name, and how long they hold.

use std::net::SocketAddr;
use std::sync::Arc;

/// The bounds of the time for which addresses are kept, in seconds, whatever the lifetime of their records.
const SHORTEST: u32 = 1;
const LONGEST: u32 = 3_600;
/// The lifetime of addresses whose source tells none, in seconds.
pub(super) const UNKNOWN: u32 = 30;

/// The addresses of a name.
#[derive(Clone, Debug)]
pub(super) struct NameAddresses {
    /// Their port is 0 unless the name is that of a service.
    pub(super) addresses: Arc<[SocketAddr]>,
    /// The time until which they hold (`clock::millis`); `None`: unknown.
    pub(super) until: Option<u64>,
}

/// Returns the time until which records with this `lifetime` in seconds are kept (`clock::millis`).
pub(super) fn kept_until(now: u64, lifetime: u32) -> u64 {
    now + u64::from(lifetime.clamp(SHORTEST, LONGEST)) * 1_000
}
