//! Responses that are only on a disk: their lookup, and their promotion to memory.

use larder_semantics::fields::Fields;
use larder_semantics::vary;

use crate::Entry;
use crate::disks::Glance;
use crate::equivalents::Source;
use crate::fill::{Epoch, Fills};

/// One in this many hits on the disk is put into memory: a response requested once or twice is not worth the
/// evictions.
const PROMOTED: u32 = 4;

impl Fills {
    /// Returns the disk's response to a request with these fields, if the lookup need not wait.
    pub fn recall_at_once(&self, key: &[u8], request: &impl Fields, now: u32) -> Option<Entry> {
        let store = self.store();
        if store.disks.is_empty() {
            return None;
        }
        let began = self.epoch(key);
        match store.disks.glance(key, request, store.memory.lines(), now) {
            Glance::Entry(entry) => Some(self.promoted(self.latest(self.unpurged(entry)?)?, began)),
            Glance::Absent | Glance::Waits => None,
        }
    }

    /// Returns the disk's response to a request with these fields.
    pub async fn recall(&self, key: &[u8], request: &impl Fields, now: u32) -> Option<Entry> {
        self.recall_variant(key, |varies| vary::again(varies, request), now).await
    }

    /// Returns the disk's response under `key` whose signature `signature` derives from that of another variant.
    pub async fn recall_variant(
        &self,
        key: &[u8],
        signature: impl Fn(&[u8]) -> Vec<u8>,
        now: u32,
    ) -> Option<Entry> {
        let store = self.store();
        if store.disks.is_empty() {
            return None;
        }
        let began = self.epoch(key);
        let entry = store.disks.find(key, signature, store.memory.lines(), now).await?;
        Some(self.promoted(self.latest(self.unpurged(entry)?)?, began))
    }

    /// Returns `entry`, which was found on a disk, unless a later response of another URL that answers the
    /// same requests is stored.
    fn latest(&self, entry: Entry) -> Option<Entry> {
        if !entry.says_queries() {
            return Some(entry);
        }
        let (store, received) = (self.store(), entry.freshness().received);
        let (key, signature) = (entry.key(), entry.signature());
        let learned =
            store.learn((key, signature), entry.status(), &entry.fields(), (Source::Found, received));
        let is_latest = !learned.is_refused;
        store.learned(key, received, learned);
        is_latest.then_some(entry)
    }

    /// Applies purges and changes to `entry`, which a request for the key with this hash found at `looked`. A
    /// change affects the entry in memory, not copies of it: after a change, or if the entry has another key,
    /// the entry is looked up again.
    pub fn left_since(&self, (of, looked): (u64, Epoch), entry: Entry) -> Option<Entry> {
        let (store, hash) = (self.store(), self.store().memory.hash(entry.key()));
        if hash != of || self.is_cancelled_since(hash, looked) {
            let resident = store.memory.peek(entry.key(), hash)?;
            let variant =
                resident.variants().iter().find(|variant| variant.signature() == entry.signature())?;
            return store.current(variant.clone());
        }
        store.current(entry)
    }

    /// Applies purges to `entry`, which was found on a disk; removes it from the disk if a purge removes it.
    fn unpurged(&self, entry: Entry) -> Option<Entry> {
        let (store, is_alone) = (self.store(), entry.signature().is_empty());
        let key = is_alone.then(|| entry.key().to_vec());
        let left = store.recalled(entry);
        if let (None, Some(key)) = (&left, key) {
            store.disks.remove(&key);
        }
        left
    }

    /// Puts a fraction of the entries found on a disk into memory, unless their bodies are sent by `sendfile`. A
    /// response stored or a purge ordered since `began` takes precedence.
    fn promoted(&self, entry: Entry, began: Epoch) -> Entry {
        if entry.body().record().is_none() && fastrand::u32(..PROMOTED) == 0 {
            self.store().memory.put(entry.clone(), None);
            if !self.epoch(entry.key()).is_like(began) {
                self.store().memory.remove(entry.key());
            }
        }
        entry
    }
}
