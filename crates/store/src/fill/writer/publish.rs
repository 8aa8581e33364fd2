//! The end of a fill: the response, or the part of it that arrived, becomes visible in the tiers.

use http::StatusCode;
use larder_semantics::fields::Fields;

use super::FillWriter;
use crate::disks::DiskWrite;
use crate::equivalents::{FetchContext, Source, TableUpdate};
use crate::fill::{ContentEnd, Head, StoreRefusal};
use crate::purges::PurgeStart;
use crate::{Entry, HintSource, Memory};

impl FillWriter {
    /// Publishes the complete response, and ends the fill. `replaces` as in [`Memory::put`](crate::Memory::put).
    ///
    /// Returns the entry stored in memory.
    ///
    /// # Errors
    /// The reason why memory does not store it.
    pub fn finish(mut self, replaces: Option<&Entry>) -> Result<Entry, StoreRefusal> {
        let head = self.head();
        let entry = head.as_ref().filter(|_| self.unstored.is_none()).and_then(|head| self.fill.seal(head));
        let disk = self.disk.take().filter(|_| self.may_stay());
        let is_known = entry.as_ref().map_or(disk.is_some(), Entry::says_queries);
        let learned = match head.as_deref().filter(|_| is_known) {
            Some(Head { signature, status, fields, freshness, .. }) => {
                self.learn(signature, *status, &fields.view(), freshness.received)
            }
            None => TableUpdate::default(),
        };
        let (entry, disk) = (entry.filter(|_| !learned.is_refused), disk.filter(|_| !learned.is_refused));
        let on_disk = disk.is_some_and(DiskWrite::finish);
        if on_disk && entry.is_none() {
            // The response in memory is outdated.
            self.fills.store.memory.remove(&self.fill.key);
        }
        // 1. The response is in the store.
        // 2. The fill leaves the table.
        // A request between 1 and 2 finds both, and one after 2 the stored response. With 2 before 1, it could find
        // neither, and fetch again.
        let stored = match entry {
            Some(entry) if self.publish(&entry, replaces) => Ok(entry),
            _ if on_disk => Err(StoreRefusal::OnDisk),
            Some(_) if !self.is_cancelled() => Err(StoreRefusal::NotAdmitted),
            _ => Err(self.unstored.unwrap_or(StoreRefusal::Outdated)),
        };
        self.fills.note_stored(&self.fill);
        let received = head.as_ref().map_or(0, |head| head.freshness.received);
        self.fills.store.learned(&self.fill.key, received, learned);
        self.fills.forget(&self.fill);
        self.fill.progress.lock().result = Some(stored.as_ref().map(|_| ()).map_err(|why| *why));
        self.end(ContentEnd::Complete);
        match &stored {
            Ok(entry) => self.start.offer(entry, None),
            Err(_) => {
                self.start.forget(&self.fill.key, head.as_ref().map_or(&[][..], |head| &head.signature))
            }
        }
        stored
    }

    /// Stores `entry`, unless it was purged since the fetch began; `replaces` as in
    /// [`Memory::put`](crate::Memory::put). Returns false when memory has not stored it. If the selecting fields change,
    /// nothing stored under the key by the old ones stays in any tier.
    pub fn put(&self, entry: &Entry, replaces: Option<&Entry>) -> bool {
        self.start.offer(entry, replaces);
        self.put_near(entry, replaces)
    }

    fn put_near(&self, entry: &Entry, replaces: Option<&Entry>) -> bool {
        let began = self.fills.epoch(&self.fill.key);
        self.fills.store.purges.know(&self.fill.key, entry.tagged().as_ref(), entry.checked());
        if self.is_cancelled() {
            return false;
        }
        if replaces.is_some_and(|old| old.signature() != entry.signature()) {
            self.fills.store.remove(&self.fill.key);
        }
        let learned = self.learn_entry(entry);
        if learned.is_refused || replaces.is_some_and(|old| self.has_left_purged_group(old, entry)) {
            return false;
        }
        if self.fills.store.reach(entry).is_none() {
            self.fills.keep(entry, began);
        }
        let is_on_disk = entry.body().record().is_some();
        let stored = !is_on_disk && self.publish(entry, replaces);
        self.fills.note_stored(&self.fill);
        self.fills.store.learned(&self.fill.key, entry.freshness().received, learned);
        stored
    }

    /// Whether a purge since the fetch began reaches `old`, but not `new`, which has other groups or tags.
    fn has_left_purged_group(&self, old: &Entry, new: &Entry) -> bool {
        let (store, since) = (&self.fills.store, PurgeStart::Generation(new.checked()));
        new.checked() != store.purges.now()
            && store.reach(new).is_none()
            && store.purges.reach(since, old.key(), old.tagged().as_ref()).is_some()
    }

    /// Records which other queries `entry`, which is about to be stored, answers.
    fn learn_entry(&self, entry: &Entry) -> TableUpdate {
        match entry.says_queries() {
            true => {
                self.learn(entry.signature(), entry.status(), &entry.fields(), entry.freshness().received)
            }
            false => TableUpdate::default(),
        }
    }

    fn learn(
        &self,
        signature: &[u8],
        status: StatusCode,
        response: &impl Fields,
        received: u32,
    ) -> TableUpdate {
        let began = FetchContext { generation: self.fill.born, removals: self.fill.removals };
        let source = if self.asks_origin { Source::Fetched(began) } else { Source::Elsewhere };
        self.fills.store.learn((&self.fill.key, signature), status, response, (source, received))
    }

    /// Puts `entry` into memory alone, unless a purge has cancelled the fill.
    pub(crate) fn publish(&self, entry: &Entry, replaces: Option<&Entry>) -> bool {
        let memory = &self.fills.store.memory;
        let put = match self.fills.store.reach(entry) {
            None => Memory::put,
            Some(_) => Memory::put_outdated,
        };
        // 1. A purge cancels this fill: the check before the put sees it.
        // 2. A purge cancels it between that check and the put, and empties memory too early: the second check sees it.
        // 3. A purge cancels it after the second check: it empties memory afterwards, and with it this entry.
        let stored = !self.is_cancelled() && put(memory, entry.clone(), replaces);
        if stored && self.is_cancelled() {
            memory.remove(&self.fill.key);
            return false;
        }
        stored
    }

    /// Keeps the links of a storable response as the hint of its URL. A response without links removes the hint.
    pub fn hint<F: Fields>(&self, response: &HintSource<'_, F>) {
        let (store, key, hash) = (&self.fills.store, self.key(), self.hash());
        let Some(entry) = response.hint(&store.hints, key, self.born()) else {
            return store.hints.remove(key, hash);
        };
        store.purges.know(key, Some(&entry.fields()), entry.checked());
        store.hints.put(hash, entry);
        // A key that was cancelled meanwhile has no hint.
        if self.is_cancelled() {
            store.hints.remove(key, hash);
        }
    }

    /// Ends an incomplete fill, and publishes the part that arrived under the head `part`.
    pub fn break_off(mut self, part: &Head) {
        let began = self.fills.epoch(&self.fill.key);
        if !self.may_stay() {
            return;
        }
        let received = part.freshness.received;
        let learned = self.learn(&part.signature, part.status, &part.fields.view(), received);
        let stays = !learned.is_refused;
        let on_disk = self.disk.take().filter(|_| stays).is_some_and(|disk| disk.finish_early(part));
        let may_be_in_memory = stays && self.unstored.is_none();
        if let Some(entry) = may_be_in_memory.then(|| self.fill.seal(part)).flatten() {
            self.publish(&entry, None);
            if !on_disk {
                self.fills.keep(&entry, began);
            }
        }
        self.fills.store.learned(&self.fill.key, received, learned);
        self.fills.note_stored(&self.fill);
        self.end(ContentEnd::Truncated);
    }

    /// Ends the fill, complete, without publishing.
    pub fn finish_unstored(self) {
        self.fills.forget(&self.fill);
        self.end(ContentEnd::Complete);
    }

    /// Whether a disk may keep it. On a disk, it counts as of the second in which it was received, so earlier
    /// purges must not have reached it. In memory, it has the generation in which its fetch began.
    fn may_stay(&self) -> bool {
        !self.is_cancelled() && self.fills.reach_of(&self.fill).is_none()
    }
}
