//! Joining a fetch: a request leads a new fill, or follows one in progress.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::fills::{HashedKey, Table};
use super::{Epoch, Fill, FillWriter, Fills, Reader};
use crate::LinesRef;
use crate::purges::{Generation, PurgeStart};

/// The result of [`Fills::join_reload`].
pub enum ReloadResult {
    /// No reload fetches this: the caller leads the fetch.
    Writer(FillWriter),
    /// A reload is in flight that began later than the caller's request arrived: the caller reads its response.
    Follow(Reader),
    /// A reload is in flight that began earlier. The caller joins again when its verdict is known.
    Wait(Reader),
}

/// The result of [`Fills::join`].
pub enum JoinResult {
    /// No fetch of this is in flight: the caller fetches it.
    Writer(FillWriter),
    /// A fetch is in flight: the caller reads its response.
    Follow(Reader),
}

impl Fills {
    /// [Joins](Self::join_own) the fills of `key`, or follows a fill of another URL whose response is
    /// expected to answer requests for `key` as well. Only the announced head shows whether it does.
    pub fn join(self: &Arc<Self>, key: &[u8], signature: &[u8]) -> JoinResult {
        self.store().equivalents.joining(key, |others, removals| {
            let follow = |other: &Vec<u8>| self.follow_for(key, other, signature, removals);
            if let Some(reader) = others.iter().find_map(follow) {
                return (JoinResult::Follow(reader), false);
            }
            let joined = self.join_own(key, signature);
            let leads = matches!(joined, JoinResult::Writer(_));
            (joined, leads)
        })
    }

    /// Follows the fill of `key` and `signature` that is in progress, or leads a new one.
    ///
    /// A fill that a known purge reaches gets no more followers.
    pub fn join_own(self: &Arc<Self>, key: &[u8], signature: &[u8]) -> JoinResult {
        let hashed = self.hashed(key);
        let mut table = self.part(hashed.hash);
        match self.to_follow(&table, hashed, signature) {
            Some(reader) => JoinResult::Follow(reader),
            None => {
                let began = self.begins();
                JoinResult::Writer(self.register(&mut table, hashed, signature, began, None))
            }
        }
    }

    /// Follows the fill of `key` and `signature` that is in progress, if there is one.
    pub fn follow(&self, key: &[u8], signature: &[u8]) -> Option<Reader> {
        let hashed = self.hashed(key);
        self.to_follow(&self.part(hashed.hash), hashed, signature)
    }

    /// Follows, for `key`, a fill of another URL in progress, if the fill began after this number of
    /// removals, and no purge of `key` is later.
    pub(crate) fn follow_for(
        &self,
        key: &[u8],
        other: &[u8],
        signature: &[u8],
        removals: u64,
    ) -> Option<Reader> {
        let (other, purges) = (self.hashed(other), &self.store.purges);
        let reader = self.to_follow(&self.part(other.hash), other, signature)?;
        let Fill { born, removals: began, .. } = *reader.fill();
        let is_reached = born != purges.now()
            && purges.reach(PurgeStart::Generation(born), key, None::<&LinesRef<'_>>).is_some();
        (began >= removals && !is_reached).then_some(reader)
    }

    fn to_follow(&self, table: &Table, key: HashedKey<'_>, signature: &[u8]) -> Option<Reader> {
        let may_follow = |fill: &&Arc<Fill>| {
            fill.is_joinable() && *fill.signature == *signature && self.reach_of(fill).is_none()
        };
        // Under the table's lock, so that no part of the body has been freed before the reader registers.
        table.of(key).find(may_follow).map(Fill::reader)
    }

    /// Joins a fill as [`join_own`](Self::join_own) does, for a request that `arrived` at that time, and needs a
    /// response fetched later, by requests with the same need.
    pub fn join_reload(self: &Arc<Self>, key: &[u8], signature: &[u8], arrived: Instant) -> ReloadResult {
        let hashed = self.hashed(key);
        let mut table = self.part(hashed.hash);
        let reloads: Vec<_> = table
            .of(hashed)
            .filter(|fill| fill.reloads_since.is_some() && fill.is_joinable())
            .filter(|fill| *fill.signature == *signature && self.reach_of(fill).is_none())
            .cloned()
            .collect();
        if let Some(fill) = reloads.iter().find(|fill| fill.reloads_since >= Some(arrived)) {
            return ReloadResult::Follow(fill.reader());
        }
        match reloads.iter().find(|fill| fill.progress.lock().verdict.is_none()) {
            Some(fill) => ReloadResult::Wait(fill.reader()),
            None => {
                let (began, now) = (self.begins(), Instant::now());
                ReloadResult::Writer(self.register(&mut table, hashed, signature, began, Some(now)))
            }
        }
    }

    /// Whether a request that arrived when `arrived` was in force may use the response of `reader`: its fetch began no
    /// earlier, or no purge has reached it since. Call this after storability is decided and before groups are added.
    pub fn may_have(&self, reader: &Reader, arrived: Generation) -> bool {
        let fill = reader.fill();
        fill.born >= arrived || self.reach_of(fill).is_none()
    }

    /// Leads a fill without followers: its response is reusable, but waiting for it is not useful (credentials,
    /// ranges, URLs whose responses are known not to be storable). Most of these responses are not stored in the end,
    /// so a fill is created only for those that are: `began` is the start of the fetch, and a purge of this key since
    /// then overrides it.
    pub fn alone(self: &Arc<Self>, key: &[u8], began: Epoch) -> FillWriter {
        let hashed = self.hashed(key);
        let mut table = self.part(hashed.hash);
        let is_cancelled = table.cancelled.includes(hashed.hash, began);
        let writer = self.register(&mut table, hashed, &[], began, None);
        writer.keep_alone(is_cancelled);
        writer
    }

    /// Adds a fill to the table. `reloads_since` is the start of its fetch, if a reload leads it.
    fn register(
        self: &Arc<Self>,
        table: &mut Table,
        HashedKey { key, hash }: HashedKey<'_>,
        signature: &[u8],
        began: Epoch,
        reloads_since: Option<Instant>,
    ) -> FillWriter {
        let fill = Arc::new(Fill {
            key: key.into(),
            hash,
            signature: signature.into(),
            born: began.generation,
            removals: began.removals,
            reloads_since,
            joinable: AtomicBool::new(true),
            shared: AtomicBool::new(true),
            cancelled: AtomicBool::new(false),
            late: AtomicBool::new(false),
            progress: Mutex::default(),
            advanced: Notify::new(),
            buffer: Mutex::default(),
            readers: Mutex::default(),
            moved: Notify::new(),
        });
        table.fills.insert_unique(hash, Arc::clone(&fill), |fill| fill.hash);
        FillWriter::new(fill, Arc::clone(self))
    }
}
