//! Responses that memory does not have: their lookup in the tiers behind it, and their promotion to memory.

use std::sync::Arc;

use larder_disk::AtOnce;
use larder_semantics::fields::Fields;
use larder_semantics::vary;

use super::{Epoch, FillWriter, Fills};
use crate::equivalents::Source;
use crate::tier::Query;
use crate::{Entry, Tier, TierName};

/// One in this many hits in a near tier is put into memory: a response requested once or twice is not worth the
/// evictions.
const PROMOTED: u32 = 4;

impl Fills {
    /// Returns the near tiers' response to a request with these fields, and its tier, if the lookup need not wait.
    pub fn recall_at_once(&self, key: &[u8], request: &impl Fields, now: u32) -> Option<(Entry, TierName)> {
        if !self.store().has_near() {
            return None;
        }
        let began = self.epoch(key);
        for tier in self.store().near() {
            match tier.find_at_once(key, &|varies| vary::again(varies, request), now) {
                AtOnce::Found(entry) => {
                    if let Some(entry) = self.usable(&**tier, entry, began) {
                        return Some((entry, tier.name()));
                    }
                }
                AtOnce::Absent => {}
                AtOnce::Waits => return None,
            }
        }
        None
    }

    /// Returns the near tiers' response under `key` whose signature `signature` derives from that of another variant,
    /// and its tier.
    pub async fn recall(
        &self,
        key: &[u8],
        signature: impl Fn(&[u8]) -> Vec<u8> + Send + Sync,
        now: u32,
    ) -> Option<(Entry, TierName)> {
        if !self.store().has_near() {
            return None;
        }
        let began = self.epoch(key);
        for tier in self.store().near() {
            let query = Query { key, signature: &signature, now, is_for_node: false, fill: None };
            if let Some(entry) = tier.find(query).await
                && let Some(entry) = self.usable(&**tier, entry, began)
            {
                return Some((entry, tier.name()));
            }
        }
        None
    }

    /// Returns `entry`, which `tier` had in the lookup that began at `began`, as purges leave it.
    fn usable(&self, tier: &dyn Tier, entry: Entry, began: Epoch) -> Option<Entry> {
        let entry = self.latest(self.unpurged(tier, entry)?)?;
        Some(self.promoted(entry, began))
    }

    /// Returns `entry`, which was found in a near tier, unless a later response of another URL that answers the
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

    /// Applies purges to `entry`, which was found in `tier`; removes it there if a purge removes it.
    fn unpurged(&self, tier: &dyn Tier, entry: Entry) -> Option<Entry> {
        let (store, is_alone) = (self.store(), entry.signature().is_empty());
        let key = is_alone.then(|| entry.key().to_vec());
        let left = store.recalled(entry);
        if let (None, Some(key)) = (&left, key) {
            tier.forget(&key, &[]);
        }
        left
    }

    /// Puts a fraction of the entries found in near tiers into memory, unless their bodies are sent by `sendfile`. A
    /// response stored or a purge ordered since `began` takes precedence.
    fn promoted(&self, entry: Entry, began: Epoch) -> Entry {
        if entry.body().record().is_none() && fastrand::u32(..PROMOTED) == 0 {
            // 1. `began` is taken, and then the disk finds the entry.
            // 2. A purge removes the key from memory, or a newer response is put there.
            // 3. The put below brings the old entry back.
            // 4. The epoch shows the change of 2, and the entry is removed again.
            // Compared before the put, the epoch could miss a change between the comparison and the put.
            self.store().memory.put(entry.clone(), None);
            if !self.epoch(entry.key()).is_like(began) {
                self.store().memory.remove(entry.key());
            }
        }
        entry
    }
}

impl FillWriter {
    /// Returns a far tier's response to the request that leads this fill, and that tier. `signature` derives the
    /// request's signature from that of a variant; `is_for_node`: another node asks, on behalf of its client.
    pub async fn recall(
        &mut self,
        signature: impl Fn(&[u8]) -> Vec<u8> + Send + Sync,
        now: u32,
        is_for_node: bool,
    ) -> Option<(Entry, TierName)> {
        let (fills, fill) = (Arc::clone(&self.fills), Arc::clone(&self.fill));
        for tier in fills.store().far() {
            let key = &fill.key;
            let query = Query { key, signature: &signature, now, is_for_node, fill: Some(&mut *self) };
            if let Some(entry) = tier.find(query).await {
                return Some((entry, tier.name()));
            }
        }
        None
    }
}
