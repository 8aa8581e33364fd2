//! The keys of a hash that clients must not be able to predict, which an upgrade hands to the next process.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use siphasher::sip::SipHasher13;

/// The keys of SipHash-1-3. They are random, and can be replaced as long as no hash is in use.
#[derive(Debug)]
pub struct HashKeys([AtomicU64; 2]);

impl Default for HashKeys {
    /// Returns random keys.
    fn default() -> Self {
        let random = RandomState::new();
        Self([0_u8, 1].map(|half| AtomicU64::new(random.hash_one(half))))
    }
}

impl HashKeys {
    /// Returns the hash of `bytes`.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        self.hasher().hash(bytes)
    }

    /// Returns the hash of `value`.
    pub fn hash_one(&self, value: impl Hash) -> u64 {
        let mut hasher = self.hasher();
        value.hash(&mut hasher);
        std::hash::Hasher::finish(&hasher)
    }

    /// Returns the keys.
    pub fn get(&self) -> [u64; 2] {
        self.0.each_ref().map(|half| half.load(Ordering::Relaxed))
    }

    /// Replaces the keys. To be called before any hash is in use.
    pub fn set(&self, keys: [u64; 2]) {
        self.0.iter().zip(keys).for_each(|(half, key)| half.store(key, Ordering::Relaxed));
    }

    #[inline]
    fn hasher(&self) -> SipHasher13 {
        let [first, second] = self.get();
        SipHasher13::new_with_keys(first, second)
    }
}
