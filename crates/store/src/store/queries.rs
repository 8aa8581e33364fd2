//! Responses that answer requests for other queries than their own (`No-Vary-Search`).

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::no_vary_search;

use super::Store;
use crate::equivalents::{EquivalentUrl, Source, TableUpdate, is_for_others};
use crate::purges::PurgeStart;
use crate::{Entry, LinesRef};

impl Store {
    /// Applies later changes to `entry`, which is stored under the key of `other` and current there, for a
    /// request for `key`. Returns the entry if its own field says that it answers the request; if `key` or an
    /// equivalent URL was purged or changed since its fetch began, returns it stale or invalid, or `None`.
    pub fn for_other(&self, entry: Entry, other: &EquivalentUrl, key: &[u8]) -> Option<Entry> {
        if !other.answers(&entry, key) {
            return None;
        }
        let (variant, received) = (self.memory.variant(&[], entry.signature()), entry.freshness().received);
        let began = self.equivalents.fetch_of(other, variant, received)?;
        let now = self.purges.now();
        if began.generation == now {
            return Some(entry);
        }
        match self.purges.reach(PurgeStart::Generation(began.generation), key, None::<&LinesRef<'_>>) {
            Some(reach) => reach.apply_to(&entry, now),
            None => Some(entry),
        }
    }

    /// Notes that a response with these fields is about to be stored, or was found on a disk. If it is refused, its
    /// earlier stored form is removed. The caller has to call [`learned`](Self::learned) once it is stored.
    pub(crate) fn learn(
        &self,
        (key, signature): (&[u8], &[u8]),
        status: StatusCode,
        response: &impl Fields,
        (source, received): (Source, u32),
    ) -> TableUpdate {
        let is_part = status == StatusCode::PARTIAL_CONTENT;
        let value = no_vary_search::field(response).filter(|_| is_part || is_for_others(status));
        let Some(value) = value else { return TableUpdate::default() };
        let source = match source {
            Source::Fetched(start) if is_part => Source::Part(start),
            source => source,
        };
        let variant = self.memory.variant(&[], signature);
        let learned = self.equivalents.learn(key, &value, variant, (source, received));
        if learned.is_refused {
            self.give_up(key, variant, received);
        }
        learned
    }

    /// Removes the responses that the response stored under `key` replaces, if memory or a disk stored it.
    pub(crate) fn learned(&self, key: &[u8], received: u32, learned: TableUpdate) {
        for (other, variant) in learned.replaced {
            self.give_up(&other, variant, received);
        }
        if let Some(class) = learned.class {
            self.equivalents.end(key, class);
        }
    }

    /// Removes a response if it was received at `received` or earlier.
    fn give_up(&self, key: &[u8], variant: u64, received: u32) {
        let resident = self.memory.peek(key, self.memory.hash(key));
        for entry in resident.iter().flat_map(|resident| resident.variants()) {
            if self.memory.variant(&[], entry.signature()) == variant
                && entry.freshness().received <= received
            {
                self.memory.exchange(entry, None);
            }
        }
        self.forget_near(key);
    }
}
