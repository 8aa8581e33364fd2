//! Remembers origins that sent unsolicited bytes. Such bytes could be taken for the response to the next request on the
//! connection, so for a while each connection to these origins carries only one request. If a response was among the
//! bytes, such a mistake may have happened: what was stored from the connection is removed.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_words::{debug_as, with_defaults};

use crate::base::clock;
use crate::net::stream::Surplus;

/// Time for which an origin is remembered, in seconds.
const MEMORY: u32 = 600;
/// Maximum of remembered origins; a new one may take the slot of another.
const SLOTS: usize = 4096;
/// Remembered requests on a connection: at least so many of the last ones, and at most twice as many.
const SUSPECTS: usize = 32;

with_defaults! {
    /// The remembered origins, shared by all workers.
    #[derive(Debug)]
    pub(super) struct CarelessOrigins {
        /// The upper half of the origin's hash, and the end of its time (UNIX seconds).
        slots: Box<[AtomicU64]> = (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        /// Whether any origin was ever remembered. In most processes none is, and no hash is computed.
        any: AtomicBool = AtomicBool::new(false),
        hasher: RandomState = RandomState::new(),
        withdraw: OnceLock<Withdrawal> = OnceLock::new(),
    }
}

/// A function of a cache key.
type OfKey = dyn Fn(&[u8]) + Send + Sync;

/// Removes the responses under a cache key, and stops fetches in progress from storing more.
struct Withdrawal(Box<OfKey>);

debug_as!(Withdrawal, |_| "Withdraw");

/// The cache keys of the last requests on a connection, whose responses may have been unsolicited bytes. Its first
/// request is not among them: nothing can have been left over before it.
///
/// The keys are in two buffers, each behind its length: the older buffer is emptied when the other one is full, so that
/// a request allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    recent: Vec<u8>,
    /// The number of keys in `recent`.
    count: usize,
    older: Vec<u8>,
}

impl Suspects {
    /// Adds a key, in place of the oldest ones of many.
    pub(super) fn add(&mut self, key: &[u8]) {
        if self.count == SUSPECTS {
            std::mem::swap(&mut self.recent, &mut self.older);
            self.recent.clear();
            self.count = 0;
        }
        let Ok(length) = u32::try_from(key.len()) else { return };
        self.recent.extend_from_slice(&length.to_le_bytes());
        self.recent.extend_from_slice(key);
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The keys, those of the older buffer first.
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        [&self.older, &self.recent].into_iter().flat_map(|buffer| {
            let mut rest = buffer.as_slice();
            std::iter::from_fn(move || {
                let (length, behind) = rest.split_first_chunk::<4>()?;
                let (key, after) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                rest = after;
                Some(key)
            })
        })
    }
}

impl CarelessOrigins {
    /// Sets how stored responses are removed. Only the first call has an effect.
    pub(super) fn withdraw_by(&self, withdraw: impl Fn(&[u8]) + Send + Sync + 'static) {
        let _ = self.withdraw.set(Withdrawal(Box::new(withdraw)));
    }

    /// Removes the stored responses to the requests of a connection.
    pub(super) fn withdraw(&self, suspects: &Suspects) {
        if let Some(Withdrawal(withdraw)) = self.withdraw.get() {
            suspects.keys().for_each(withdraw);
        }
    }

    /// Remembers an origin for this surplus.
    #[cold]
    pub(super) fn mark(&self, https: bool, authority: &str, surplus: Surplus) {
        if surplus == Surplus::Response {
            self.remember(https, authority, surplus);
        }
        if !self.is_marked(https, authority, Surplus::Bytes) {
            tracing::warn!(
                "origin {authority} sent bytes after an answer: for {MEMORY} seconds each of its connections is used once"
            );
        }
        self.remember(https, authority, Surplus::Bytes);
    }

    fn remember(&self, https: bool, authority: &str, surplus: Surplus) {
        let (slot, tag) = self.slot(https, authority, surplus);
        slot.store(tag | u64::from(clock::now().saturating_add(MEMORY)), Ordering::Relaxed);
        self.any.store(true, Ordering::Release);
    }

    /// Whether an origin is remembered for this surplus: all are for bytes.
    pub(super) fn is_marked(&self, https: bool, authority: &str, surplus: Surplus) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let (slot, tag) = self.slot(https, authority, surplus);
        let mark = slot.load(Ordering::Relaxed);
        mark & UPPER == tag && (mark & !UPPER) as u32 > clock::now()
    }

    fn slot(&self, https: bool, authority: &str, surplus: Surplus) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one((https, authority, surplus == Surplus::Response));
        (&self.slots[hash as usize % SLOTS], hash & UPPER)
    }
}

const UPPER: u64 = 0xffff_ffff_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_remembered_for_its_scheme_and_authority() {
        let careless = CarelessOrigins::default();
        let is_marked = |https, authority| careless.is_marked(https, authority, Surplus::Bytes);
        assert!(!is_marked(false, "a:80"));
        careless.mark(false, "a:80", Surplus::Bytes);
        assert_eq!(
            [is_marked(false, "a:80"), is_marked(true, "a:80"), is_marked(false, "a:81")],
            [true, false, false]
        );
        assert!(!careless.is_marked(false, "a:80", Surplus::Response));
        careless.mark(false, "a:80", Surplus::Response);
        assert!(careless.is_marked(false, "a:80", Surplus::Response));
    }

    #[test]
    fn of_many_requests_on_a_connection_the_last_ones_are_suspects() {
        let mut suspects = Suspects::default();
        for last in 0..200_u8 {
            suspects.add(&[last]);
            let keys = suspects.keys().map(|key| key[0]).collect::<Vec<_>>();
            let first = keys[0];
            assert_eq!(keys, (first..=last).collect::<Vec<_>>());
            assert!(first == 0 || (SUSPECTS..=2 * SUSPECTS).contains(&keys.len()), "{} keys", keys.len());
        }
    }
}
